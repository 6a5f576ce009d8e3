//! What a server writes to stderr: its last words are kept, and each line is told.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pentad_model::text;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

/// How many bytes are kept.
const TAIL_BYTES: usize = 8 << 10;
/// How many bytes of it are shown.
const SHOWN_BYTES: usize = 2 << 10;
/// How long the end of the stream of an ended server is waited for.
const LAST_WORDS_LIMIT: Duration = Duration::from_millis(500);

/// Longest line that is told; the rest of a longer one is left out.
const LINE_BYTES: usize = 64 << 10;
/// How long what was written already is waited for.
const CATCH_UP_LIMIT: Duration = Duration::from_millis(100);

/// The end of a stream, bounded.
#[derive(Debug)]
pub struct StderrTail {
    bytes: Mutex<VecDeque<u8>>,
    mask: Mask,
    /// Somebody wants to know that everything was read.
    wanted: Notify,
    /// How often nothing was left to read when somebody wanted to know.
    caught_up: watch::Sender<u64>,
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
            wanted: Notify::new(),
            caught_up: watch::Sender::new(0),
            ended: CancellationToken::new(),
        }
    }

    /// Reads `stream` to its end, and tells each line; a pipe that nobody reads would stop the server.
    pub async fn follow(&self, mut stream: impl AsyncRead + Unpin, tell: impl Fn(&[u8])) {
        let mut chunk = vec![0; 8 << 10];
        let mut lines = Lines::default();
        loop {
            let read = tokio::select! {
                biased;
                read = stream.read(&mut chunk) => read,
                () = self.wanted.notified() => {
                    self.caught_up.send_modify(|times| *times += 1);
                    continue;
                }
            };
            match read {
                Ok(0) | Err(_) => break,
                Ok(count) => {
                    let part = chunk.get(..count).unwrap_or_default();
                    self.push(part);
                    lines.take(part, &tell);
                }
            }
        }
        lines.end(&tell);
        self.ended.cancel();
    }

    /// Waits, within a limit, until what was written before was read.
    ///
    /// What a server wrote to stderr before it answered is announced by the system before the answer is; so whoever
    /// reads has nothing left once it steps back.
    pub async fn catch_up(&self) {
        let mut caught_up = self.caught_up.subscribe();
        self.wanted.notify_one();
        let read = async {
            tokio::select! {
                _ = caught_up.changed() => {}
                () = self.ended.cancelled() => {}
            }
        };
        // A server that never stops writing is not waited for.
        let _ = tokio::time::timeout(CATCH_UP_LIMIT, read).await;
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

/// Cuts a stream into lines.
#[derive(Debug, Default)]
struct Lines {
    open: Vec<u8>,
}

impl Lines {
    fn take(&mut self, part: &[u8], tell: &impl Fn(&[u8])) {
        for piece in part.split_inclusive(|byte| *byte == b'\n') {
            let (text, whole) = match piece.split_last() {
                Some((b'\n', text)) => (text, true),
                _ => (piece, false),
            };
            let room = LINE_BYTES - self.open.len();
            self.open
                .extend_from_slice(text.get(..text.len().min(room)).unwrap_or_default());
            if whole {
                self.end(tell);
            }
        }
    }

    fn end(&mut self, tell: &impl Fn(&[u8])) {
        if !self.open.iter().all(u8::is_ascii_whitespace) {
            tell(&self.open);
        }
        self.open.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;

    fn told(parts: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let told = Mutex::new(Vec::new());
        let tell = |line: &[u8]| told.lock().unwrap().push(line.to_vec());
        let mut lines = Lines::default();
        for part in parts {
            lines.take(part, &tell);
        }
        lines.end(&tell);
        told.into_inner().unwrap()
    }

    proptest! {
        #[test]
        fn lines_do_not_depend_on_how_they_arrive(text in "[ab \n]{0,60}", cuts in prop::collection::vec(0_usize..60, 0..5)) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let parts: Vec<Vec<u8>> = cuts.windows(2).map(|pair| bytes[pair[0]..pair[1]].to_vec()).collect();
            let expected: Vec<Vec<u8>> = text
                .split('\n')
                .filter(|line| !line.trim().is_empty())
                .map(|line| line.as_bytes().to_vec())
                .collect();
            prop_assert_eq!(told(&parts), expected);
        }
    }

    #[tokio::test]
    async fn what_was_written_before_is_told_before_the_wait_ends() {
        use tokio::io::AsyncWriteExt as _;

        let (stream, mut server) = tokio::io::duplex(1 << 20);
        let (tail, told) = (Arc::new(StderrTail::new(Mask::new([]))), Arc::new(Mutex::new(0)));
        let (follower, count) = (Arc::clone(&tail), Arc::clone(&told));
        let following = tokio::spawn(async move {
            follower.follow(stream, |_| *count.lock().unwrap() += 1).await;
        });
        for round in 1..=3 {
            server
                .write_all("a line\n".repeat(2_000).as_bytes())
                .await
                .unwrap();
            tail.catch_up().await;
            assert_eq!(*told.lock().unwrap(), round * 2_000);
        }
        server.write_all(b"and the last").await.unwrap();
        drop(server);
        tail.catch_up().await;
        following.await.unwrap();
        tail.catch_up().await;
        assert_eq!(*told.lock().unwrap(), 6_001);
        assert!(tail.shown().ends_with("and the last"));
    }

    #[test]
    fn a_line_without_end_is_bounded() {
        let told = told(&[vec![b'x'; LINE_BYTES], vec![b'y'; 10], b"\nnext".to_vec()]);
        assert_eq!(
            (told[0].len(), told[1].as_slice()),
            (LINE_BYTES, b"next".as_slice())
        );
    }
}
