//! Selections that must see lines: the last ones, and those that match.

use std::collections::VecDeque;

use pentad_model::select::Span;
use regex::bytes::Regex;

use super::collect::{Collector, ring};
use super::{MIN_TEXT, SelectError, SelectLimits, Selected, inwards};

/// Most matches that are remembered while nobody knows which lines are the last ones.
const MATCHES: usize = 1 << 17;
/// Most numbers of matching lines that are reported.
const NUMBERS: usize = 1000;

/// Keeps the end of a text: so many bytes or lines of it.
#[derive(Debug)]
pub(super) struct TailLines {
    ring: VecDeque<u8>,
    cap: usize,
    bytes: Option<u64>,
    lines: u64,
    starts: VecDeque<u64>,
    at_start: bool,
}

impl TailLines {
    pub(super) fn bytes(count: u64, cap: usize) -> Self {
        Self {
            ring: VecDeque::new(),
            cap: usize::try_from(count).map_or(cap, |count| count.min(cap)),
            bytes: Some(count),
            lines: 0,
            starts: VecDeque::new(),
            at_start: true,
        }
    }

    pub(super) const fn lines(count: u64, cap: usize) -> Self {
        Self {
            ring: VecDeque::new(),
            cap,
            bytes: None,
            lines: count,
            starts: VecDeque::new(),
            at_start: true,
        }
    }

    pub(super) fn feed(&mut self, offset: u64, chunk: &[u8]) {
        ring(&mut self.ring, chunk, self.cap);
        if self.bytes.is_some() {
            return;
        }
        let keep = usize::try_from(self.lines).map_or(self.cap, |lines| lines.min(self.cap));
        for (at, byte) in chunk.iter().enumerate() {
            if self.at_start && keep > 0 {
                if self.starts.len() == keep {
                    self.starts.pop_front();
                }
                self.starts.push_back(offset + at as u64);
            }
            self.at_start = *byte == b'\n';
        }
    }

    pub(super) fn finish(mut self, total_lines: u64, total_bytes: u64) -> Selected {
        let start = match self.bytes {
            Some(count) => total_bytes.saturating_sub(count),
            None if self.lines >= total_lines => 0,
            None => self.starts.front().copied().unwrap_or(total_bytes),
        };
        let selected = total_bytes - start;
        let kept = self.ring.len() as u64;
        let skip = usize::try_from(kept.saturating_sub(selected)).unwrap_or(usize::MAX);
        self.ring.drain(..skip.min(self.ring.len()));
        let held: Vec<u8> = self.ring.into();
        let short = selected > held.len() as u64;
        let cut_start = short || (self.bytes.is_some() && start > 0);
        let (text, dropped) = super::decode(&held, cut_start, false);
        let shown = held.len() as u64 - dropped.0 - dropped.1;
        if short {
            return Selected {
                text: format!("… {} bytes left out …\n{text}", selected - shown),
                shown_bytes: shown,
                selected_bytes: selected,
                ..Selected::default()
            };
        }
        Selected {
            text,
            shown_bytes: shown,
            selected_bytes: shown,
            ..Selected::default()
        }
    }
}

/// Where matching lines go.
#[derive(Debug)]
enum Kept {
    /// Straight to the result.
    Through(Collector),
    /// Held back, since only the end tells which lines are the last.
    Held {
        last: u64,
        matches: VecDeque<(u64, Vec<u8>, u64)>,
        bytes: usize,
        cap: usize,
        emptied: usize,
    },
}

/// Assembles lines, at most `line_cap` bytes of each, and keeps those that match.
#[derive(Debug)]
pub(super) struct LineFeed {
    regex: Regex,
    first: u64,
    last: u64,
    line: Vec<u8>,
    length: u64,
    number: u64,
    line_cap: usize,
    kept: Kept,
    matched: u64,
    numbers: Vec<u64>,
    numbered: bool,
}

impl LineFeed {
    pub(super) fn new(regex: Regex, lines: Option<Span>, limits: &SelectLimits) -> Self {
        let cap = limits.text_bytes.max(MIN_TEXT);
        let (first, last) = match lines {
            Some(Span::From(first, last)) => (first, last.unwrap_or(u64::MAX)),
            _ => (1, u64::MAX),
        };
        let kept = match lines {
            Some(Span::Last(last)) => Kept::Held {
                last,
                matches: VecDeque::new(),
                bytes: 0,
                cap,
                emptied: 0,
            },
            _ => Kept::Through(Collector::new(cap)),
        };
        Self {
            regex,
            first,
            last,
            line: Vec::new(),
            length: 0,
            number: 1,
            line_cap: limits.line_bytes.max(MIN_TEXT),
            kept,
            matched: 0,
            numbers: Vec::new(),
            numbered: limits.numbered,
        }
    }

    pub(super) fn feed(&mut self, chunk: &[u8]) -> Result<(), SelectError> {
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            if self.number > self.last {
                return Ok(());
            }
            let room = self.line_cap.saturating_sub(self.line.len()).min(piece.len());
            self.line.extend_from_slice(piece.get(..room).unwrap_or(&[]));
            self.length += piece.len() as u64;
            if piece.last() == Some(&b'\n') {
                self.end_line()?;
            }
        }
        Ok(())
    }

    fn end_line(&mut self) -> Result<(), SelectError> {
        let number = self.number;
        let length = self.length;
        let line = std::mem::take(&mut self.line);
        self.number += 1;
        self.length = 0;
        if number < self.first || number > self.last {
            self.line = line;
            self.line.clear();
            return Ok(());
        }
        let bare = line.strip_suffix(b"\n").unwrap_or(&line);
        let bare = bare.strip_suffix(b"\r").unwrap_or(bare);
        if self.regex.is_match(bare) {
            let shown = if length > line.len() as u64 {
                let head = inwards(&line, false, true);
                let rest = length - head.len() as u64;
                format!("{head}… {rest} bytes of this line left out\n").into_bytes()
            } else {
                line.clone()
            };
            let shown = if self.numbered {
                [format!("{number}: ").as_bytes(), &shown].concat()
            } else {
                shown
            };
            self.keep(number, shown, length)?;
        }
        self.line = line;
        self.line.clear();
        Ok(())
    }

    fn keep(&mut self, number: u64, shown: Vec<u8>, length: u64) -> Result<(), SelectError> {
        match &mut self.kept {
            Kept::Through(out) => {
                self.matched += 1;
                if self.numbers.len() < NUMBERS {
                    self.numbers.push(number);
                }
                out.push(&shown);
                Ok(())
            }
            Kept::Held {
                last,
                matches,
                bytes,
                cap,
                emptied,
            } => {
                while matches
                    .front()
                    .is_some_and(|(n, ..)| n.saturating_add(*last) <= number)
                {
                    if let Some((_, text, _)) = matches.pop_front() {
                        *bytes -= text.len();
                        *emptied = emptied.saturating_sub(1);
                    }
                }
                *bytes += shown.len();
                matches.push_back((number, shown, length));
                // Only the newest texts can be shown; of older matches number and length are enough.
                while let Some((_, text, _)) = matches.get_mut(*emptied)
                    && *bytes >= *cap + text.len()
                {
                    *bytes -= text.len();
                    *text = Vec::new();
                    *emptied += 1;
                }
                if matches.len() > MATCHES {
                    return Err(SelectError::TooManyMatches(MATCHES));
                }
                Ok(())
            }
        }
    }

    pub(super) fn finish(mut self, total_lines: u64) -> Result<Selected, SelectError> {
        if self.length > 0 && self.number <= self.last {
            self.end_line()?;
        }
        match self.kept {
            Kept::Through(out) => Ok(Selected {
                matched: Some(self.matched),
                matched_lines: self.numbers,
                ..out.finish(false, false)
            }),
            Kept::Held {
                last, matches, cap, ..
            } => {
                let first = total_lines.saturating_sub(last);
                let mut out = TailText::new(cap);
                let mut numbers = Vec::new();
                let mut matched = 0;
                for (number, text, length) in matches.into_iter().filter(|(number, ..)| *number > first) {
                    matched += 1;
                    if numbers.len() < NUMBERS {
                        numbers.push(number);
                    }
                    out.push(&text, length);
                }
                Ok(Selected {
                    matched: Some(matched),
                    matched_lines: numbers,
                    ..out.finish()
                })
            }
        }
    }
}

/// The end of a list of matched lines.
struct TailText {
    ring: VecDeque<u8>,
    cap: usize,
    length: u64,
}

impl TailText {
    const fn new(cap: usize) -> Self {
        Self {
            ring: VecDeque::new(),
            cap,
            length: 0,
        }
    }

    fn push(&mut self, text: &[u8], length: u64) {
        ring(&mut self.ring, text, self.cap);
        self.length += length;
    }

    fn finish(self) -> Selected {
        let held: Vec<u8> = self.ring.into();
        let short = self.length > held.len() as u64;
        let (text, dropped) = super::decode(&held, short, false);
        let shown = held.len() as u64 - dropped.0 - dropped.1;
        let text = if short {
            format!("… {} bytes left out …\n{text}", self.length.saturating_sub(shown))
        } else {
            text
        };
        Selected {
            text,
            shown_bytes: shown.min(self.length),
            selected_bytes: self.length,
            ..Selected::default()
        }
    }
}
