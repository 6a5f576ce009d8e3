//! What is learnt of the whole source while it streams by: its size, its lines, whether it is text.

/// The running account.
#[derive(Debug)]
pub(super) struct Scan {
    bytes: u64,
    newlines: u64,
    last: u8,
    pending: Vec<u8>,
    is_text: bool,
}

/// The account of a whole source.
#[derive(Debug, Clone, Copy)]
pub(super) struct Totals {
    pub(super) bytes: u64,
    pub(super) lines: u64,
    pub(super) is_text: bool,
}

impl Default for Scan {
    fn default() -> Self {
        Self {
            bytes: 0,
            newlines: 0,
            last: b'\n',
            pending: Vec::new(),
            is_text: true,
        }
    }
}

impl Scan {
    /// Returns how many bytes were fed.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn feed(&mut self, chunk: &[u8]) {
        self.bytes += chunk.len() as u64;
        self.newlines += chunk.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.last = chunk.last().copied().unwrap_or(self.last);
        if self.is_text {
            self.is_text = !chunk.contains(&0) && self.is_utf8(chunk);
        }
    }

    fn is_utf8(&mut self, chunk: &[u8]) -> bool {
        if self.pending.is_empty() {
            return Self::check(chunk, &mut self.pending);
        }
        let mut joined = std::mem::take(&mut self.pending);
        joined.extend_from_slice(chunk);
        Self::check(&joined, &mut self.pending)
    }

    /// Checks `bytes`; the beginning of a character at their end is left in `pending`.
    fn check(bytes: &[u8], pending: &mut Vec<u8>) -> bool {
        match std::str::from_utf8(bytes) {
            Ok(_) => true,
            Err(error) if error.error_len().is_none() => {
                pending.extend_from_slice(bytes.get(error.valid_up_to()..).unwrap_or(&[]));
                true
            }
            Err(_) => false,
        }
    }

    pub(super) fn finish(self) -> Totals {
        let open_line = u64::from(self.bytes > 0 && self.last != b'\n');
        Totals {
            bytes: self.bytes,
            lines: self.newlines + open_line,
            is_text: self.is_text && self.pending.is_empty(),
        }
    }
}
