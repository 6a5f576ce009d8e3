//! Cutting bytes to text without ever splitting a character.

use std::fmt::Write as _;

/// What is left of a text that was cut in its middle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// The beginning, or everything if nothing was cut.
    pub head: String,
    /// The end, empty if nothing was cut.
    pub tail: String,
    /// How many bytes of the source are in neither.
    pub omitted_bytes: u64,
}

/// Returns the first `head` and the last `tail` bytes as text, cut on character boundaries.
///
/// The limits are bytes of the *result*: each invalid sequence counts as the three bytes of its
/// replacement character. A text that fits both limits together is returned whole.
#[must_use]
pub fn truncate_utf8(bytes: &[u8], head: usize, tail: usize) -> Cut {
    let (whole, taken) = prefix(bytes, head.saturating_add(tail));
    if taken == bytes.len() {
        return Cut {
            head: whole,
            tail: String::new(),
            omitted_bytes: 0,
        };
    }
    let (head, taken) = prefix(bytes, head);
    let (tail, kept) = suffix(bytes.get(taken..).unwrap_or_default(), tail);
    Cut {
        head,
        tail,
        omitted_bytes: (bytes.len() - taken - kept) as u64,
    }
}

/// Returns the text of the longest prefix that fits, and how many source bytes it stands for.
pub(crate) fn prefix(bytes: &[u8], limit: usize) -> (String, usize) {
    let mut text = String::new();
    let mut taken = 0;
    for chunk in bytes.utf8_chunks() {
        let room = limit - text.len();
        let end = chunk.valid().floor_char_boundary(room);
        let fitting = chunk.valid().get(..end).unwrap_or_default();
        text.push_str(fitting);
        taken += fitting.len();
        let replaced = char::REPLACEMENT_CHARACTER.len_utf8();
        if fitting.len() < chunk.valid().len() || text.len() + replaced > limit {
            break;
        }
        if !chunk.invalid().is_empty() {
            text.push(char::REPLACEMENT_CHARACTER);
            taken += chunk.invalid().len();
        }
    }
    (text, taken)
}

/// Returns the text of the longest suffix that fits, and how many source bytes it stands for.
pub(crate) fn suffix(bytes: &[u8], limit: usize) -> (String, usize) {
    // The text is never shorter than its source, so no more than this can fit.
    let window = bytes.get(bytes.len().saturating_sub(limit)..).unwrap_or_default();
    let window = if window.len() < bytes.len() {
        skip_partial_start(window)
    } else {
        window
    };
    let total: usize = window
        .utf8_chunks()
        .map(|chunk| chunk.valid().len() + replaced_len(&chunk))
        .sum();
    let mut excess = total.saturating_sub(limit);
    let mut text = String::new();
    let mut kept = 0;
    for chunk in window.utf8_chunks() {
        let start = chunk.valid().ceil_char_boundary(excess.min(chunk.valid().len()));
        let fitting = chunk.valid().get(start..).unwrap_or_default();
        excess = excess.saturating_sub(start);
        text.push_str(fitting);
        kept += fitting.len();
        if !chunk.invalid().is_empty() {
            if excess == 0 {
                text.push(char::REPLACEMENT_CHARACTER);
                kept += chunk.invalid().len();
            }
            excess = excess.saturating_sub(replaced_len(&chunk));
        }
    }
    (text, kept)
}

fn replaced_len(chunk: &std::str::Utf8Chunk<'_>) -> usize {
    if chunk.invalid().is_empty() {
        0
    } else {
        char::REPLACEMENT_CHARACTER.len_utf8()
    }
}

/// Returns the bytes without the rest of a character that began before them.
pub(crate) fn skip_partial_start(bytes: &[u8]) -> &[u8] {
    let rest = bytes
        .iter()
        .take(3)
        .take_while(|byte| **byte & 0b1100_0000 == 0b1000_0000)
        .count();
    bytes.get(rest..).unwrap_or_default()
}

/// Returns the bytes without the beginning of a character that goes on after them.
pub(crate) fn skip_partial_end(bytes: &[u8]) -> &[u8] {
    for back in 1..=bytes.len().min(3) {
        let at = bytes.len() - back;
        let needed = match bytes.get(at) {
            Some(0b1100_0000..=0b1101_1111) => 2,
            Some(0b1110_0000..=0b1110_1111) => 3,
            Some(0b1111_0000..=0b1111_0111) => 4,
            Some(0b1000_0000..=0b1011_1111) => continue,
            _ => return bytes,
        };
        return if needed > back {
            bytes.get(..at).unwrap_or_default()
        } else {
            bytes
        };
    }
    bytes
}

/// A captured stream as a person or a model reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// The beginning, or everything.
    pub head: String,
    /// The end, empty if nothing was left out.
    pub tail: String,
    /// How many bytes of the stream are in neither.
    pub omitted_bytes: u64,
    /// The length of the whole stream.
    pub total_bytes: u64,
    /// The lines of the whole stream.
    pub total_lines: u64,
}

impl View {
    /// Returns how many bytes of the stream are shown.
    #[must_use]
    pub fn shown_bytes(&self) -> u64 {
        self.total_bytes - self.omitted_bytes
    }

    /// Returns the text with a line that says what was left out and where it can be read.
    #[must_use]
    pub fn text(&self, address: Option<&str>) -> String {
        let mut text = self.head.clone();
        if self.omitted_bytes == 0 {
            return text;
        }
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        let (omitted, total, lines) = (self.omitted_bytes, self.total_bytes, self.total_lines);
        let _ = write!(
            text,
            "[{omitted} of {total} bytes ({lines} lines in all) left out"
        );
        if let Some(address) = address {
            let _ = write!(text, "; read {address} for the rest");
        }
        text.push_str("]\n");
        text.push_str(&self.tail);
        text
    }
}

#[cfg(test)]
mod tests;
