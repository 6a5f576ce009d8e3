//! Reads lines up to a cap, in constant memory beyond it.

use std::collections::VecDeque;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};

use super::salvage::{Salvage, salvage, salvage_tail};

/// How much of the start and of the end of an oversized line is kept to find the id in.
const EDGE_BYTES: usize = 512;
const BUFFER_BYTES: usize = 64 << 10;
const NEWLINE: u8 = b'\n';

/// The outcome of reading one line.
pub enum LineRead {
    Line(Vec<u8>),
    /// What came after the last line end; whole only if the peer left a line end out.
    Last(Vec<u8>),
    Oversized(OversizedLine),
    End,
    Failed(std::io::Error),
}

/// What is left of a line that was longer than the cap.
pub struct OversizedLine {
    pub head: Vec<u8>,
    tail: VecDeque<u8>,
    pub bytes: u64,
    pub limit: usize,
}

impl OversizedLine {
    /// Looks for the id where serializers put it: among the first members, or as the last one.
    pub fn salvage(&self) -> Salvage {
        let mut found = salvage(&self.head);
        if found.id.is_none() {
            let tail: Vec<u8> = self.tail.iter().copied().collect();
            found.id = salvage_tail(&tail);
            found.has_id |= found.id.is_some();
        }
        found
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        let keep = bytes
            .get(bytes.len().saturating_sub(EDGE_BYTES)..)
            .unwrap_or_default();
        self.tail.extend(keep);
        let excess = self.tail.len().saturating_sub(EDGE_BYTES);
        self.tail.drain(..excess);
    }
}

/// A line reader whose `next` may be dropped at any await without losing bytes.
pub struct BoundedLines<R> {
    input: BufReader<R>,
    line: Vec<u8>,
    oversized: Option<OversizedLine>,
    limit: usize,
}

impl<R: AsyncRead + Unpin> BoundedLines<R> {
    pub fn new(input: R, limit: usize) -> Self {
        Self {
            input: BufReader::with_capacity(BUFFER_BYTES, input),
            line: Vec::new(),
            oversized: None,
            limit,
        }
    }

    /// Reads up to the next line end; the line end is not part of the line.
    ///
    /// What stands after the last line end is told apart: it may be a whole message or one that was cut off.
    pub async fn next(&mut self) -> LineRead {
        loop {
            let available = match self.input.fill_buf().await {
                Ok(available) => available,
                Err(error) => return LineRead::Failed(error),
            };
            if available.is_empty() {
                return match self.take() {
                    LineRead::Line(line) if line.is_empty() => LineRead::End,
                    LineRead::Line(line) => LineRead::Last(line),
                    _ => LineRead::End,
                };
            }
            let end = available.iter().position(|byte| *byte == NEWLINE);
            let part = available
                .get(..end.unwrap_or(available.len()))
                .unwrap_or_default();
            let consumed = part.len() + usize::from(end.is_some());
            append(&mut self.line, &mut self.oversized, part, self.limit);
            self.input.consume(consumed);
            if end.is_some() {
                return self.take();
            }
        }
    }

    fn take(&mut self) -> LineRead {
        match self.oversized.take() {
            Some(line) => LineRead::Oversized(line),
            None => LineRead::Line(std::mem::take(&mut self.line)),
        }
    }
}

fn append(line: &mut Vec<u8>, oversized: &mut Option<OversizedLine>, part: &[u8], limit: usize) {
    if let Some(over) = oversized {
        over.push(part);
        return;
    }
    if line.len().saturating_add(part.len()) <= limit {
        line.extend_from_slice(part);
        return;
    }
    let mut head = std::mem::take(line);
    let mut over = OversizedLine {
        head: Vec::new(),
        tail: VecDeque::new(),
        bytes: 0,
        limit,
    };
    over.push(&head);
    over.push(part);
    head.extend_from_slice(part.get(..part.len().min(EDGE_BYTES)).unwrap_or_default());
    head.truncate(EDGE_BYTES);
    head.shrink_to_fit();
    over.head = head;
    *oversized = Some(over);
}
