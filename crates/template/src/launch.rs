//! How commands are started: the seam between templates and processes.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

/// Is what a command reads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Input {
    /// Its stdin is closed.
    #[default]
    None,
    /// Its stdin has these bytes.
    Bytes(Arc<[u8]>),
}

impl Input {
    /// Returns the bytes, none if stdin is closed.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::None => &[],
            Self::Bytes(bytes) => bytes,
        }
    }
}

/// Holds what a command wrote: head and tail in memory, the whole in a file if it was long.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stream {
    /// Is the beginning, or everything if nothing was left out.
    pub head: Vec<u8>,
    /// Is the end, if something between was left out.
    pub tail: Vec<u8>,
    /// Is the number of bytes written.
    pub total_bytes: u64,
    /// Tells that something between head and tail is not in memory.
    pub truncated: bool,
    /// Is the file that has everything.
    pub file: Option<PathBuf>,
}

impl Stream {
    /// Returns a stream that is complete in memory.
    pub fn complete(bytes: impl Into<Vec<u8>>) -> Self {
        let head = bytes.into();
        let total_bytes = u64::try_from(head.len()).unwrap_or(u64::MAX);
        Self {
            head,
            total_bytes,
            ..Self::default()
        }
    }

    /// Returns the text, saying how much was left out and where it is.
    pub fn text(&self) -> String {
        let head = String::from_utf8_lossy(&self.head);
        if !self.truncated {
            return head.into_owned();
        }
        let kept = u64::try_from(self.head.len() + self.tail.len()).unwrap_or(u64::MAX);
        let left_out = self.total_bytes.saturating_sub(kept);
        let whole = match &self.file {
            Some(file) => format!("; everything is in {}", file.display()),
            None => String::new(),
        };
        let tail = String::from_utf8_lossy(&self.tail);
        format!("{head}\n[{left_out} bytes left out{whole}]\n{tail}")
    }
}

/// Asks for one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchRequest {
    /// Is the command and its arguments; never empty.
    pub argv: Vec<String>,
    /// Is what it reads.
    pub stdin: Input,
    /// Is the time after which its whole process tree is ended.
    pub timeout: Option<Duration>,
    /// Names the step in reports.
    pub label: Option<String>,
}

/// Says how a process ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Launched {
    /// Is the exit status; without meaning if a signal ended the process.
    pub code: i32,
    /// Is the signal that ended it.
    pub signal: Option<i32>,
    /// Tells that we ended it, by time limit or cancellation.
    pub killed: bool,
    /// Is what it wrote to stdout.
    pub stdout: Stream,
    /// Is what it wrote to stderr.
    pub stderr: Stream,
}

impl Launched {
    /// Returns the code that counts: a process that was killed, by us or by a signal, did not succeed.
    pub fn effective_code(&self) -> i32 {
        match (self.signal, self.killed) {
            (Some(signal), _) => 128 + signal,
            (None, true) if self.code == 0 => 1,
            (None, _) => self.code,
        }
    }
}

/// Starts processes.
///
/// A process that cannot be started is a result with a code and the reason on stderr, as a shell gives it, so that
/// failure scopes and retries treat it like any other failure. `launch` returns only when the whole process tree is gone,
/// also after the time limit or cancellation.
#[async_trait]
pub trait Launcher: Send + Sync {
    /// Runs one process to its end.
    async fn launch(&self, request: LaunchRequest, cancel: &CancellationToken) -> Launched;

    /// Returns everything a stream has, for the next step; more than `limit` bytes is an error.
    async fn read_all(&self, stream: &Stream, limit: u64) -> io::Result<Vec<u8>> {
        if stream.total_bytes > limit {
            return Err(io::Error::other(format!(
                "the output has {} bytes; the next step can read at most {limit}",
                stream.total_bytes
            )));
        }
        if stream.truncated {
            return Err(io::Error::other("a part of the output was not kept"));
        }
        Ok(stream.head.clone())
    }
}

/// Tells the time and waits, so that tests need not.
#[async_trait]
pub trait Clock: Send + Sync {
    /// Returns the time since a fixed moment.
    fn now(&self) -> Duration;
    /// Waits.
    async fn sleep(&self, duration: Duration);
}

/// Is the clock of the machine.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    start: std::time::Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self {
            start: std::time::Instant::now(),
        }
    }
}

#[async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}
