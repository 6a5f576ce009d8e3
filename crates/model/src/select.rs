//! Choosing a part of a text: the options `lines`, `bytes` and `grep`, parsed once.

use crate::options::Options;
use crate::refusal::{Refusal, RefusalKind};

/// A range of lines (from 1) or bytes (from 0).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span {
    /// From the first to the last number, both included; without a last one to the end.
    From(u64, Option<u64>),
    /// The last so many.
    Last(u64),
}

/// What part of a text is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    /// Only these lines.
    pub lines: Option<Span>,
    /// Only these bytes; cut inwards to character boundaries.
    pub bytes: Option<Span>,
    /// Only lines that match, after `lines` chose; a regular expression, not yet compiled.
    pub grep: Option<String>,
}

impl Selection {
    /// Reads the view options of a `read`.
    ///
    /// # Errors
    /// Refuses malformed ranges, and `bytes` together with `lines` or `grep`.
    pub fn parse(options: &Options) -> Result<Self, Refusal> {
        let lines = options
            .text("lines")
            .map(|text| span("lines", text, 1))
            .transpose()?;
        let bytes = options
            .text("bytes")
            .map(|text| span("bytes", text, 0))
            .transpose()?;
        let grep = options.text("grep").map(str::to_owned);
        if bytes.is_some() && (lines.is_some() || grep.is_some()) {
            let message = "bytes cannot be combined with lines or grep.";
            return Err(Refusal::new(RefusalKind::BadRequest, "bytes", message));
        }
        Ok(Self { lines, bytes, grep })
    }

    /// Tells whether everything is wanted.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.lines.is_none() && self.bytes.is_none() && self.grep.is_none()
    }
}

fn span(key: &str, text: &str, first: u64) -> Result<Span, Refusal> {
    let wrong = || {
        Refusal::new(
            RefusalKind::BadRequest,
            key,
            format!("'{text}' is no range of {key}."),
        )
        .supported(["10-20", "10-", "-20", "10"])
    };
    let number = |part: &str| part.trim().parse::<u64>().map_err(|_| wrong());
    match text.trim().split_once('-') {
        None => number(text).and_then(|n| {
            if n < first {
                Err(wrong())
            } else {
                Ok(Span::From(n, Some(n)))
            }
        }),
        Some(("", last)) => number(last).map(Span::Last),
        Some((from, "")) => number(from).map(|from| Span::From(from.max(first), None)),
        Some((from, to)) => {
            let (from, to) = (number(from)?.max(first), number(to)?);
            if to < from {
                Err(wrong())
            } else {
                Ok(Span::From(from, Some(to)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_have_four_spellings() {
        assert_eq!(span("lines", "10-20", 1).unwrap(), Span::From(10, Some(20)));
        assert_eq!(span("lines", "10-", 1).unwrap(), Span::From(10, None));
        assert_eq!(span("lines", "-20", 1).unwrap(), Span::Last(20));
        assert_eq!(span("lines", "7", 1).unwrap(), Span::From(7, Some(7)));
        for text in ["", "-", "a-b", "20-10", "0", "1-2-3", "−5"] {
            assert!(span("lines", text, 1).is_err(), "{text}");
        }
    }
}
