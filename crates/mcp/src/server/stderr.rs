//! The last words of a server on its stderr.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use pentad_model::text;
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// How many bytes are kept.
const TAIL_BYTES: usize = 8 << 10;
/// How many bytes of it are shown.
const SHOWN_BYTES: usize = 2 << 10;

/// The end of a stream, bounded.
#[derive(Debug)]
pub struct StderrTail {
    bytes: Mutex<VecDeque<u8>>,
    mask: Mask,
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
        }
    }

    /// Reads `stream` to its end; a pipe that nobody reads would stop the server.
    pub async fn follow(&self, mut stream: impl AsyncRead + Unpin) {
        let mut chunk = vec![0; 8 << 10];
        loop {
            match stream.read(&mut chunk).await {
                Ok(0) | Err(_) => return,
                Ok(count) => self.push(chunk.get(..count).unwrap_or_default()),
            }
        }
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
        text::visible(text::suffix(whole.trim(), SHOWN_BYTES))
    }
}
