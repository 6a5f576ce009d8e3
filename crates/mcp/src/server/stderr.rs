//! The last words of a server on its stderr.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pentad_model::text;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio_util::sync::CancellationToken;

/// How many bytes are kept.
const TAIL_BYTES: usize = 8 << 10;
/// How many bytes of it are shown.
const SHOWN_BYTES: usize = 2 << 10;
/// How long the end of the stream of an ended server is waited for.
const LAST_WORDS_LIMIT: Duration = Duration::from_millis(500);

/// The end of a stream, bounded.
#[derive(Debug)]
pub struct StderrTail {
    bytes: Mutex<VecDeque<u8>>,
    mask: Mask,
    /// Set when the stream has ended.
    ended: CancellationToken,
}

/// Hides the values of a server's declared variables, most of which are secrets, in what it wrote.
#[derive(Clone)]
pub struct Mask(Vec<String>);

impl Mask {
    /// Values shorter than this would hide half of every text.
    const MIN_BYTES: usize = 6;

    /// Creates the mask of these values.
    pub fn new<'a>(values: impl IntoIterator<Item = &'a String>) -> Self {
        let mut values: Vec<String> = values
            .into_iter()
            .filter(|value| value.len() >= Self::MIN_BYTES)
            .cloned()
            .collect();
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        Self(values)
    }

    /// Returns `text` with every value replaced.
    pub fn apply(&self, text: String) -> String {
        self.0.iter().fold(text, |text, value| {
            if text.contains(value) {
                text.replace(value, "[secret]")
            } else {
                text
            }
        })
    }
}

impl std::fmt::Debug for Mask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mask({} values)", self.0.len())
    }
}

impl StderrTail {
    /// Creates an empty tail.
    pub fn new(mask: Mask) -> Self {
        Self {
            bytes: Mutex::default(),
            mask,
            ended: CancellationToken::new(),
        }
    }

    /// Reads `stream` to its end; a pipe that nobody reads would stop the server.
    pub async fn follow(&self, mut stream: impl AsyncRead + Unpin) {
        let mut chunk = vec![0; 8 << 10];
        loop {
            match stream.read(&mut chunk).await {
                Ok(0) | Err(_) => break,
                Ok(count) => self.push(chunk.get(..count).unwrap_or_default()),
            }
        }
        self.ended.cancel();
    }

    /// Returns the end of what an ended server wrote; the last of it may still be in the pipe.
    pub async fn last_words(&self) -> String {
        let _ended = tokio::time::timeout(LAST_WORDS_LIMIT, self.ended.cancelled()).await;
        self.shown()
    }

    fn push(&self, part: &[u8]) {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        bytes.extend(
            part.get(part.len().saturating_sub(TAIL_BYTES)..)
                .unwrap_or_default(),
        );
        let excess = bytes.len().saturating_sub(TAIL_BYTES);
        bytes.drain(..excess);
    }

    /// Returns the end of what was written, with control characters shown; empty if nothing was.
    pub fn shown(&self) -> String {
        let bytes: Vec<u8> = {
            let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
            bytes.iter().copied().collect()
        };
        // Masked as a whole: a cut could leave a part of a value that no longer matches.
        let whole = self.mask.apply(String::from_utf8_lossy(&bytes).into_owned());
        let whole = whole.trim();
        let end = text::suffix(whole, SHOWN_BYTES);
        // A tail begins with a whole line, unless one line is all there is.
        let from_line = end
            .split_once('\n')
            .filter(|_| end.len() < whole.len())
            .map_or(end, |(_, rest)| rest);
        text::visible(from_line)
    }
}
