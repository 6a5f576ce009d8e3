//! Keeping the head and the tail of what is pushed, within a limit.

use std::collections::VecDeque;

use super::Selected;

/// Keeps at most `cap` bytes: all of it, or the first and the last half.
#[derive(Debug)]
pub(super) struct Collector {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    head_cap: usize,
    tail_cap: usize,
    pushed: u64,
}

impl Collector {
    pub(super) const fn new(cap: usize) -> Self {
        Self {
            head: Vec::new(),
            tail: VecDeque::new(),
            head_cap: cap / 2,
            tail_cap: cap - cap / 2,
            pushed: 0,
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.pushed += bytes.len() as u64;
        let room = self.head_cap.saturating_sub(self.head.len()).min(bytes.len());
        let (first, rest) = bytes.split_at_checked(room).unwrap_or((bytes, &[]));
        self.head.extend_from_slice(first);
        ring(&mut self.tail, rest, self.tail_cap);
    }

    /// Returns the kept bytes as text. `cut_start` and `cut_end` tell that the source goes on there, so a broken
    /// character at that end is the cut's doing and is left out.
    pub(super) fn finish(mut self, cut_start: bool, cut_end: bool) -> Selected {
        let kept = (self.head.len() + self.tail.len()) as u64;
        if kept == self.pushed {
            self.head.extend(self.tail);
            let (text, dropped) = decode(&self.head, cut_start, cut_end);
            let shown = kept - dropped.0 - dropped.1;
            return Selected {
                text,
                shown_bytes: shown,
                selected_bytes: shown,
                ..Selected::default()
            };
        }
        let tail: Vec<u8> = self.tail.into();
        let (head, at_head) = decode(&self.head, cut_start, true);
        let (tail, at_tail) = decode(&tail, true, cut_end);
        let shown = kept - at_head.0 - at_head.1 - at_tail.0 - at_tail.1;
        // Halves of characters at the ends of the choice were never part of it.
        let selected = self.pushed - at_head.0 - at_tail.1;
        let missing = selected - shown;
        Selected {
            text: format!("{head}\n… {missing} bytes left out …\n{tail}"),
            shown_bytes: shown,
            selected_bytes: selected,
            ..Selected::default()
        }
    }
}

/// Appends to a ring of at most `cap` bytes.
pub(super) fn ring(ring: &mut VecDeque<u8>, bytes: &[u8], cap: usize) {
    let skip = bytes.len().saturating_sub(cap);
    let bytes = bytes.get(skip..).unwrap_or(&[]);
    let over = (ring.len() + bytes.len()).saturating_sub(cap);
    ring.drain(..over.min(ring.len()));
    ring.extend(bytes);
}

/// Decodes bytes as UTF-8, leaving out the halves of characters at cut ends; returns how many bytes that were at the
/// start and at the end.
pub(super) fn decode(bytes: &[u8], cut_start: bool, cut_end: bool) -> (String, (u64, u64)) {
    let halves = if cut_start {
        bytes
            .iter()
            .take(3)
            .take_while(|byte| **byte & 0xC0 == 0x80)
            .count()
    } else {
        0
    };
    let part = bytes.get(halves..).unwrap_or(&[]);
    let end = if cut_end { whole_end(part) } else { part.len() };
    let dropped = (halves as u64, (part.len() - end) as u64);
    let part = part.get(..end).unwrap_or(&[]);
    (String::from_utf8_lossy(part).into_owned(), dropped)
}

/// Returns where the last whole character ends, when only its continuation bytes are missing.
fn whole_end(bytes: &[u8]) -> usize {
    for back in 1..=bytes.len().min(3) {
        let at = bytes.len() - back;
        let Some(byte) = bytes.get(at) else { break };
        let length = match byte {
            0xC0..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF7 => 4,
            0x80..=0xBF => continue,
            _ => break,
        };
        return if length > back { at } else { bytes.len() };
    }
    bytes.len()
}
