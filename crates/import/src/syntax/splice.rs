//! Cutting pieces out of a text by byte offsets.

use std::ops::Range;

/// A text and what is to be cut out of it or replaced.
pub struct Splice<'t> {
    text: &'t str,
    cuts: Vec<(Range<usize>, String)>,
}

impl<'t> Splice<'t> {
    /// Starts with nothing to cut.
    pub const fn new(text: &'t str) -> Self {
        Self {
            text,
            cuts: Vec::new(),
        }
    }

    /// Cuts `range` out and puts `new` there.
    pub fn replace(&mut self, range: Range<usize>, new: String) {
        self.cuts.push((range, new));
    }

    /// Cuts `range` out.
    pub fn cut(&mut self, range: Range<usize>) {
        self.replace(range, String::new());
    }

    /// Returns the text without what was cut; `None` when two cuts overlap or an offset is inside a character.
    pub fn finish(mut self) -> Option<String> {
        self.cuts.sort_by_key(|(range, _)| (range.start, range.end));
        let mut out = String::with_capacity(self.text.len());
        let mut at = 0;
        for (range, new) in &self.cuts {
            out.push_str(self.text.get(at..range.start)?);
            out.push_str(new);
            at = range.end;
        }
        out.push_str(self.text.get(at..)?);
        Some(out)
    }
}

/// Returns where the line of `offset` starts.
pub fn line_start(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().get(..offset).unwrap_or_default();
    before
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |at| at + 1)
}

/// Returns where the line of `offset` ends, its line break included.
pub fn line_end(text: &str, offset: usize) -> usize {
    let after = text.as_bytes().get(offset..).unwrap_or_default();
    let found = after.iter().position(|byte| *byte == b'\n');
    found.map_or(text.len(), |at| offset + at + 1)
}

/// Tells whether nothing but spaces stands in `range`.
pub fn is_blank(text: &str, range: Range<usize>) -> bool {
    text.get(range).is_some_and(|part| part.trim().is_empty())
}
