//! Taking a part of a text while it streams by: bounded memory whatever the size of the text or of its lines.

mod collect;
mod lines;
mod scan;

use std::io::{self, BufRead, Read, Seek, SeekFrom};

use pentad_model::refusal::{Refusal, RefusalKind};
use pentad_model::select::{Selection, Span};
use regex::bytes::{Regex, RegexBuilder};
use tokio_util::sync::CancellationToken;

use self::collect::{Collector, decode};
use self::lines::{LineFeed, TailLines};
use self::scan::Scan;

/// Smallest limit of a text or line.
const MIN_TEXT: usize = 64;
/// Largest compiled form of a pattern.
const PATTERN_BYTES: usize = 1 << 20;
/// A file larger than this is not counted when only a range of bytes is wanted.
const COUNTED_BYTES: u64 = 64 << 20;

/// Why nothing could be selected.
#[derive(Debug, thiserror::Error)]
pub enum SelectError {
    /// The pattern of `grep` is no regular expression.
    #[error("'{pattern}' is no regular expression: {reason}")]
    Pattern {
        /// What was given.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The last lines were asked for with a pattern, and too many of them match.
    #[error("more than {0} of the last lines match; choose the lines by number, for example lines 1-100000")]
    TooManyMatches(usize),
    /// The source could not be read.
    #[error("the text could not be read: {0}")]
    Read(#[from] io::Error),
    /// The act was cancelled.
    #[error("the read was cancelled")]
    Canceled,
}

impl SelectError {
    /// Returns the refusal of a read of `subject`.
    #[must_use]
    pub fn refusal(&self, subject: &str) -> Refusal {
        match self {
            Self::Pattern { .. } => Refusal::new(RefusalKind::BadRequest, "grep", format!("{self}."))
                .next_step("escape . * + ? ( ) [ ] { } ^ $ | \\ with a backslash to match them literally"),
            Self::TooManyMatches(_) => Refusal::new(
                RefusalKind::TooLarge,
                "lines",
                crate::trouble::sentence(&self.to_string()),
            ),
            Self::Read(error) => crate::trouble::from_io(subject, error),
            Self::Canceled => Refusal::new(RefusalKind::Timeout, subject, "The read was cancelled."),
        }
    }
}

/// How much a selection may keep.
#[derive(Debug, Clone)]
pub struct SelectLimits {
    /// Most bytes of text; of more, head and tail are kept.
    pub text_bytes: usize,
    /// Longest line that `grep` looks at.
    pub line_bytes: usize,
    /// Puts its number before each line that `grep` found, for callers that go on from it.
    pub numbered: bool,
    /// Ends the scan of a long source.
    pub cancel: CancellationToken,
}

impl SelectLimits {
    /// Returns limits for a text that is in memory already.
    #[must_use]
    pub fn of_bytes(text_bytes: usize) -> Self {
        Self {
            text_bytes,
            line_bytes: 64 << 10,
            numbered: false,
            cancel: CancellationToken::new(),
        }
    }
}

impl From<usize> for SelectLimits {
    fn from(text_bytes: usize) -> Self {
        Self::of_bytes(text_bytes)
    }
}

impl From<&Self> for SelectLimits {
    fn from(limits: &Self) -> Self {
        limits.clone()
    }
}

/// A selected part of a text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selected {
    /// The part; where it is longer than the limit, head and tail around a line that says what is missing.
    pub text: String,
    /// Bytes of the source in `text`.
    pub shown_bytes: u64,
    /// Bytes that the selection chose, at least; more than `shown_bytes` when `text` was cut.
    pub selected_bytes: u64,
    /// Bytes of the whole source.
    pub total_bytes: u64,
    /// Lines of the whole source; zero when they were not counted.
    pub total_lines: u64,
    /// How many lines matched `grep`.
    pub matched: Option<u64>,
    /// The numbers of the first thousand matching lines.
    pub matched_lines: Vec<u64>,
    /// False when the scanned source is not UTF-8 or contains NUL: it is binary, or damaged.
    pub is_text: bool,
}

impl Selected {
    /// Tells whether `text` is the whole source.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.matched.is_none() && self.shown_bytes == self.total_bytes
    }
}

/// Selects from a stream. Every byte of the source is read once; none is kept that is not shown.
///
/// Ranges of lines and bytes come as they are; ranges of bytes are cut inwards to character boundaries; `grep` keeps
/// whole lines, of which only the first `line_bytes` are looked at and shown. What is not UTF-8 is shown as U+FFFD.
///
/// # Errors
/// Fails on a broken pattern, on errors of the source, and when cancelled.
pub fn select<R: BufRead>(
    source: R,
    selection: &Selection,
    limits: impl Into<SelectLimits>,
) -> Result<Selected, SelectError> {
    let limits = limits.into();
    drain(source, Sink::new(selection, &limits)?, &limits)
}

fn drain<R: BufRead>(mut source: R, mut sink: Sink, limits: &SelectLimits) -> Result<Selected, SelectError> {
    let mut scan = Scan::default();
    loop {
        if limits.cancel.is_cancelled() {
            return Err(SelectError::Canceled);
        }
        let chunk = match source.fill_buf() {
            Ok(chunk) => chunk,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        };
        if chunk.is_empty() {
            break;
        }
        sink.feed(scan.bytes(), chunk)?;
        scan.feed(chunk);
        let used = chunk.len();
        source.consume(used);
    }
    let totals = scan.finish();
    let mut selected = sink.finish(totals.lines, totals.bytes)?;
    selected.total_bytes = totals.bytes;
    selected.total_lines = totals.lines;
    selected.is_text = totals.is_text;
    Ok(selected)
}

/// Selects from a file of `size` bytes; a range of bytes of a very large one is sought, not scanned.
///
/// # Errors
/// Fails as [`select`] does.
pub(crate) fn select_file(
    mut file: std::fs::File,
    size: u64,
    selection: &Selection,
    limits: &SelectLimits,
) -> Result<Selected, SelectError> {
    let range = match selection.bytes {
        Some(Span::From(from, to)) if size > COUNTED_BYTES => Some((from.min(size), to)),
        Some(Span::Last(count)) if size > COUNTED_BYTES => Some((size.saturating_sub(count), None)),
        _ => None,
    };
    let Some((from, to)) = range else {
        return select(io::BufReader::with_capacity(64 << 10, file), selection, limits);
    };
    file.seek(SeekFrom::Start(from))?;
    let wanted = to.map_or(u64::MAX, |to| to.saturating_sub(from).saturating_add(1));
    let part = io::BufReader::with_capacity(64 << 10, file.take(wanted));
    let sink = Sink::Bytes {
        from: 0,
        to: u64::MAX,
        cut: (from > 0, from.saturating_add(wanted) < size),
        out: Collector::new(limits.text_bytes.max(MIN_TEXT)),
    };
    let mut selected = drain(part, sink, limits)?;
    selected.total_bytes = size;
    selected.total_lines = 0;
    Ok(selected)
}

/// Where the chosen bytes go.
enum Sink {
    /// A range of bytes.
    Bytes {
        from: u64,
        to: u64,
        /// Whether the source itself is a part of something, at its start and at its end.
        cut: (bool, bool),
        out: Collector,
    },
    /// The last bytes or lines.
    Tail(TailLines),
    /// A range of lines as they are.
    Lines {
        first: u64,
        last: u64,
        line: u64,
        out: Collector,
    },
    /// Matching lines.
    Matching(Box<LineFeed>),
}

impl Sink {
    fn new(selection: &Selection, limits: &SelectLimits) -> Result<Self, SelectError> {
        let cap = limits.text_bytes.max(MIN_TEXT);
        if let Some(pattern) = &selection.grep {
            let regex = compile(pattern)?;
            return Ok(Self::Matching(Box::new(LineFeed::new(
                regex,
                selection.lines,
                limits,
            ))));
        }
        Ok(match (selection.bytes, selection.lines) {
            (Some(Span::From(from, to)), _) => Self::Bytes {
                from,
                to: to.map_or(u64::MAX, |to| to.saturating_add(1)),
                cut: (false, false),
                out: Collector::new(cap),
            },
            (Some(Span::Last(count)), _) => Self::Tail(TailLines::bytes(count, cap)),
            (None, Some(Span::Last(count))) => Self::Tail(TailLines::lines(count, cap)),
            (None, Some(Span::From(first, last))) => Self::Lines {
                first,
                last: last.unwrap_or(u64::MAX),
                line: 1,
                out: Collector::new(cap),
            },
            (None, None) => Self::Bytes {
                from: 0,
                to: u64::MAX,
                cut: (false, false),
                out: Collector::new(cap),
            },
        })
    }

    fn feed(&mut self, offset: u64, chunk: &[u8]) -> Result<(), SelectError> {
        match self {
            Self::Bytes { from, to, out, .. } => {
                let clamp = |mark: u64| {
                    usize::try_from(mark.saturating_sub(offset)).map_or(chunk.len(), |at| at.min(chunk.len()))
                };
                out.push(chunk.get(clamp(*from)..clamp(*to)).unwrap_or(&[]));
                Ok(())
            }
            Self::Tail(tail) => {
                tail.feed(offset, chunk);
                Ok(())
            }
            Self::Lines {
                first,
                last,
                line,
                out,
            } => {
                for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
                    if *line > *last {
                        break;
                    }
                    if *line >= *first {
                        out.push(piece);
                    }
                    if piece.last() == Some(&b'\n') {
                        *line += 1;
                    }
                }
                Ok(())
            }
            Self::Matching(feed) => feed.feed(chunk),
        }
    }

    fn finish(self, total_lines: u64, total_bytes: u64) -> Result<Selected, SelectError> {
        match self {
            Self::Bytes { from, to, cut, out } => {
                Ok(out.finish(cut.0 || from > 0, cut.1 || to < total_bytes))
            }
            Self::Lines { out, .. } => Ok(out.finish(false, false)),
            Self::Tail(tail) => Ok(tail.finish(total_lines, total_bytes)),
            Self::Matching(feed) => feed.finish(total_lines),
        }
    }
}

fn compile(pattern: &str) -> Result<Regex, SelectError> {
    RegexBuilder::new(pattern)
        .size_limit(PATTERN_BYTES)
        .dfa_size_limit(PATTERN_BYTES)
        .build()
        .map_err(|error| SelectError::Pattern {
            pattern: pentad_model::text::excerpt(pattern, 200),
            reason: match error {
                regex::Error::CompiledTooBig(_) => "it is too large".to_owned(),
                other => other
                    .to_string()
                    .lines()
                    .last()
                    .unwrap_or("syntax")
                    .trim()
                    .to_owned(),
            },
        })
}

/// Decodes bytes that were cut at either end.
fn inwards(bytes: &[u8], cut_start: bool, cut_end: bool) -> String {
    decode(bytes, cut_start, cut_end).0
}

#[cfg(test)]
mod tests;
