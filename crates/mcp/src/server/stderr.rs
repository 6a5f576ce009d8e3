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
#[derive(Debug, Default)]
pub struct StderrTail {
    bytes: Mutex<VecDeque<u8>>,
}

impl StderrTail {
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
        let whole = String::from_utf8_lossy(&bytes);
        text::visible(text::suffix(whole.trim(), SHOWN_BYTES))
    }
}
