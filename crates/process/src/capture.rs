//! Reading a stream to its end in bounded memory.
//!
//! The first and the last bytes are kept; what lies between is in the spill file, if there is one.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tokio::fs::File;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio_util::sync::CancellationToken;

/// The bytes of one read; as much as a pipe holds.
const CHUNK: usize = 64 * 1024;
/// How much more is read, without waiting, from a stream that is to be left.
const LAST_LOOK: usize = 1024 * 1024;

/// How much of a stream is kept, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaptureLimits {
    /// How many of the first bytes are kept in memory.
    pub head_bytes: usize,
    /// How many of the last bytes are kept in memory.
    pub tail_bytes: usize,
    /// The file that takes the whole stream once memory cannot; made only then.
    pub spill: Option<PathBuf>,
    /// The most that the file may take.
    pub spill_cap: u64,
}

/// What was kept of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captured {
    /// The first bytes.
    pub head: Vec<u8>,
    /// The last bytes, without those that are in the head.
    pub tail: Vec<u8>,
    /// The length of the whole stream.
    pub total_bytes: u64,
    /// The lines of the whole stream; a last one without its newline counts.
    pub total_lines: u64,
    /// The file with the stream from its beginning, if memory could not hold it all.
    pub spilled: Option<PathBuf>,
    /// Whether the file ends before the stream did.
    pub spill_truncated: bool,
    /// Why the file is missing or cut, or the stream could not be read further.
    pub problem: Option<String>,
    /// Whether somebody still held the stream open when it was left.
    pub left_open: bool,
}

impl Captured {
    /// Returns how many bytes lie between head and tail.
    #[must_use]
    pub fn omitted_bytes(&self) -> u64 {
        self.total_bytes - (self.head.len() + self.tail.len()) as u64
    }
}

/// Reads a stream to its end.
pub async fn capture(reader: impl AsyncRead + Unpin, limits: CaptureLimits) -> Captured {
    capture_until(reader, limits, &CancellationToken::new()).await
}

/// Reads a stream to its end, or until `stop`; what is there by then is still read.
pub async fn capture_until(
    mut reader: impl AsyncRead + Unpin,
    limits: CaptureLimits,
    stop: &CancellationToken,
) -> Captured {
    let mut sink = Sink::new(limits);
    let mut buffer = vec![0u8; CHUNK];
    let mut last_look = None;
    loop {
        let read = match last_look {
            None => tokio::select! {
                biased;
                () = stop.cancelled() => {
                    last_look = Some(LAST_LOOK);
                    continue;
                }
                read = reader.read(&mut buffer) => read,
            },
            Some(0) => Err(io::ErrorKind::TimedOut.into()),
            Some(_) => tokio::time::timeout(Duration::ZERO, reader.read(&mut buffer))
                .await
                .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())),
        };
        match read {
            Ok(0) => break,
            Ok(count) => {
                sink.take(buffer.get(..count).unwrap_or_default()).await;
                last_look = last_look.map(|left: usize| left.saturating_sub(count));
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if last_look.is_some() && error.kind() == io::ErrorKind::TimedOut => {
                sink.captured.left_open = true;
                break;
            }
            Err(error) => {
                sink.note(format!("The stream could not be read to its end: {error}."));
                break;
            }
        }
    }
    sink.finish().await
}

struct Sink {
    limits: CaptureLimits,
    captured: Captured,
    tail: Ring,
    spill: Spill,
    last_byte: Option<u8>,
}

enum Spill {
    NotNeeded,
    Open { file: File, left: u64 },
    Closed,
}

impl Sink {
    fn new(limits: CaptureLimits) -> Self {
        let tail = Ring::new(limits.tail_bytes);
        Self {
            limits,
            captured: Captured::default(),
            tail,
            spill: Spill::NotNeeded,
            last_byte: None,
        }
    }

    async fn take(&mut self, chunk: &[u8]) {
        let capacity = (self.limits.head_bytes + self.limits.tail_bytes) as u64;
        if matches!(self.spill, Spill::NotNeeded) && self.captured.total_bytes + chunk.len() as u64 > capacity
        {
            self.open_spill().await;
        }
        self.spill(chunk).await;
        self.captured.total_bytes += chunk.len() as u64;
        self.captured.total_lines += newlines(chunk);
        self.last_byte = chunk.last().copied().or(self.last_byte);
        let room = self.limits.head_bytes - self.captured.head.len();
        let (first, rest) = chunk.split_at(room.min(chunk.len()));
        self.captured.head.extend(first);
        self.tail.push(rest);
    }

    /// Makes the file and writes what memory has held so far, which is everything.
    async fn open_spill(&mut self) {
        self.spill = Spill::Closed;
        let Some(path) = self.limits.spill.clone() else {
            return;
        };
        match create(&path).await {
            Ok(file) => {
                self.spill = Spill::Open {
                    file,
                    left: self.limits.spill_cap,
                };
                self.captured.spilled = Some(path);
                let held = [&*self.captured.head, &*self.tail.to_vec()].concat();
                self.spill(&held).await;
            }
            Err(error) => {
                let path = path.display();
                self.note(format!(
                    "The whole output is not kept, {path} cannot be made: {error}."
                ));
            }
        }
    }

    async fn spill(&mut self, chunk: &[u8]) {
        let Spill::Open { file, left } = &mut self.spill else {
            return;
        };
        let fitting = chunk.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
        let written = file.write_all(chunk.get(..fitting).unwrap_or_default()).await;
        *left -= fitting as u64;
        if fitting < chunk.len() {
            self.captured.spill_truncated = true;
        }
        if let Err(error) = written {
            self.captured.spill_truncated = true;
            self.spill = Spill::Closed;
            self.note(format!("The file with the whole output is cut: {error}."));
        } else if self.captured.spill_truncated {
            self.close_spill().await;
        }
    }

    async fn close_spill(&mut self) {
        if let Spill::Open { mut file, .. } = std::mem::replace(&mut self.spill, Spill::Closed)
            && let Err(error) = file.flush().await
        {
            self.captured.spill_truncated = true;
            self.note(format!("The file with the whole output is cut: {error}."));
        }
    }

    fn note(&mut self, problem: String) {
        self.captured.problem.get_or_insert(problem);
    }

    async fn finish(mut self) -> Captured {
        self.close_spill().await;
        if self.last_byte.is_some_and(|byte| byte != b'\n') {
            self.captured.total_lines += 1;
        }
        self.captured.tail = self.tail.to_vec();
        self.captured
    }
}

/// Makes the file for its owner alone: output may hold what others must not read.
async fn create(path: &std::path::Path) -> io::Result<File> {
    File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .await
}

fn newlines(chunk: &[u8]) -> u64 {
    chunk.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// The last bytes of a stream, at a cost that does not depend on how many are kept.
struct Ring {
    bytes: Vec<u8>,
    capacity: usize,
    /// Where the next byte goes once the ring is full.
    next: usize,
}

impl Ring {
    fn new(capacity: usize) -> Self {
        Self {
            bytes: Vec::new(),
            capacity,
            next: 0,
        }
    }

    fn push(&mut self, chunk: &[u8]) {
        let mut chunk = chunk
            .get(chunk.len().saturating_sub(self.capacity)..)
            .unwrap_or_default();
        let growth = (self.capacity - self.bytes.len()).min(chunk.len());
        let (first, rest) = chunk.split_at(growth);
        self.bytes.extend(first);
        chunk = rest;
        while !chunk.is_empty() {
            let room = (self.capacity - self.next).min(chunk.len());
            let (first, rest) = chunk.split_at(room);
            if let Some(place) = self.bytes.get_mut(self.next..self.next + room) {
                place.copy_from_slice(first);
            }
            self.next = (self.next + room) % self.capacity;
            chunk = rest;
        }
    }

    fn to_vec(&self) -> Vec<u8> {
        let (newest, oldest) = self.bytes.split_at(self.next);
        [oldest, newest].concat()
    }
}

#[cfg(test)]
mod tests;
