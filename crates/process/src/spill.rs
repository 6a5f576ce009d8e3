//! Reading parts of a spilled stream.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use crate::text::{skip_partial_end, skip_partial_start};

/// How much of one line is looked at and shown; a longer one is cut.
const LINE_CAP: usize = 64 * 1024;

/// Which part of a stream is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpillRange {
    /// Lines, counted from 1.
    Lines {
        /// The first line.
        first: u64,
        /// How many lines.
        count: u64,
    },
    /// Bytes, counted from 0.
    Bytes {
        /// The first byte.
        start: u64,
        /// How many bytes.
        count: u64,
    },
    /// Every line that holds this text, with its number.
    Grep {
        /// The text, literally.
        text: String,
        /// Whether letters match whatever their case (ASCII only).
        ignore_case: bool,
        /// The line to start from, counted from 1.
        first: u64,
    },
}

/// A part of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpillPart {
    /// The part as text; what is no text is replaced.
    pub text: String,
    /// Where to go on if the byte limit cut this part short: a line, or a byte for
    /// [`SpillRange::Bytes`].
    pub next: Option<u64>,
}

/// Reads a part of a spilled stream, at most `max_bytes` of it before replacement of invalid characters.
///
/// Blocks on the disk and reads the file from its beginning for lines and searches, in constant memory.
pub fn read_spill(path: &Path, range: &SpillRange, max_bytes: usize) -> io::Result<SpillPart> {
    let file = File::open(path)?;
    match range {
        SpillRange::Bytes { start, count } => read_bytes(file, *start, *count, max_bytes),
        SpillRange::Lines { first, count } => {
            let end = first.saturating_add(*count);
            collect(file, max_bytes, |number, line, out| {
                if number >= end {
                    return Keep::Stop;
                }
                if number >= *first {
                    out.extend(line);
                    return Keep::Kept;
                }
                Keep::Passed
            })
        }
        SpillRange::Grep {
            text,
            ignore_case,
            first,
        } => {
            let wanted = fold(text.as_bytes(), *ignore_case);
            collect(file, max_bytes, |number, line, out| {
                if number < *first || !holds(&fold(line, *ignore_case), &wanted) {
                    return Keep::Passed;
                }
                out.extend(format!("{number}:").into_bytes());
                out.extend(line);
                Keep::Kept
            })
        }
    }
}

fn read_bytes(mut file: File, start: u64, count: u64, max_bytes: usize) -> io::Result<SpillPart> {
    file.seek(SeekFrom::Start(start))?;
    let asked = count.min(max_bytes as u64);
    let mut bytes = Vec::new();
    file.by_ref().take(asked).read_to_end(&mut bytes)?;
    let cut_short = asked < count && file.read(&mut [0])? > 0;
    // Cut on a character where the caller did not choose the end, so that the next part starts with it.
    let shown = if cut_short {
        skip_partial_end(&bytes)
    } else {
        &bytes
    };
    let next = cut_short.then(|| start + shown.len() as u64);
    let shown = if start > 0 {
        skip_partial_start(shown)
    } else {
        shown
    };
    Ok(SpillPart {
        text: String::from_utf8_lossy(shown).into_owned(),
        next,
    })
}

enum Keep {
    Passed,
    Kept,
    Stop,
}

/// Offers every line to `choose`, which appends what it wants of it.
fn collect(
    file: File,
    max_bytes: usize,
    mut choose: impl FnMut(u64, &[u8], &mut Vec<u8>) -> Keep,
) -> io::Result<SpillPart> {
    let mut reader = BufReader::with_capacity(64 * 1024, file);
    let mut out = Vec::new();
    let mut line = Vec::new();
    let mut next = None;
    for number in 1u64.. {
        if !read_line(&mut reader, &mut line)? {
            break;
        }
        let before = out.len();
        match choose(number, &line, &mut out) {
            Keep::Stop => break,
            Keep::Passed => {}
            Keep::Kept if out.len() > max_bytes => {
                // The first line is shown in part rather than never.
                if before > 0 {
                    out.truncate(before);
                    next = Some(number);
                } else {
                    out.truncate(max_bytes);
                    out.truncate(skip_partial_end(&out).len());
                    next = Some(number + 1);
                }
                break;
            }
            Keep::Kept => {}
        }
    }
    Ok(SpillPart {
        text: String::from_utf8_lossy(&out).into_owned(),
        next,
    })
}

/// Reads one line with its newline, keeping no more than the cap; false at the end of the file.
fn read_line(reader: &mut BufReader<File>, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let mut any = false;
    loop {
        let available = reader.fill_buf()?;
        if available.is_empty() {
            return Ok(any);
        }
        any = true;
        let end = available.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
        let part = available
            .get(..end.unwrap_or(available.len()))
            .unwrap_or_default();
        let room = LINE_CAP.saturating_sub(line.len());
        line.extend(part.iter().take(room));
        let used = part.len();
        reader.consume(used);
        if end.is_some() {
            if line.last() != Some(&b'\n') {
                line.truncate(skip_partial_end(line).len());
                line.push(b'\n');
            }
            return Ok(true);
        }
    }
}

fn fold(bytes: &[u8], ignore_case: bool) -> Vec<u8> {
    if ignore_case {
        bytes.to_ascii_lowercase()
    } else {
        bytes.to_vec()
    }
}

fn holds(line: &[u8], wanted: &[u8]) -> bool {
    wanted.is_empty() || line.windows(wanted.len()).any(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(content: &[u8], range: &SpillRange, max_bytes: usize) -> (String, Option<u64>) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out");
        std::fs::write(&path, content).unwrap();
        let part = read_spill(&path, range, max_bytes).unwrap();
        (part.text, part.next)
    }

    fn part(text: &str, next: Option<u64>) -> (String, Option<u64>) {
        (text.to_owned(), next)
    }

    #[test]
    fn o10_lines_bytes_and_matches_can_be_asked_for() {
        let content = "one\ntwo é\nthree\nTWO again\nlast".as_bytes();
        let lines = |first, count| SpillRange::Lines { first, count };
        assert_eq!(read(content, &lines(2, 2), 100), part("two é\nthree\n", None));
        assert_eq!(read(content, &lines(5, 9), 100), part("last", None));
        assert_eq!(read(content, &lines(9, 9), 100), part("", None));
        assert_eq!(read(content, &lines(1, 9), 11), part("one\ntwo é\n", Some(3)));
        assert_eq!(read(content, &lines(2, 9), 5), part("two ", Some(3)));
        let bytes = |start, count| SpillRange::Bytes { start, count };
        assert_eq!(read(content, &bytes(4, 3), 100), part("two", None));
        assert_eq!(read(content, &bytes(4, 30), 5), part("two ", Some(8)));
        assert_eq!(read(content, &bytes(8, 3), 100), part("é\n", None));
        assert_eq!(read(content, &bytes(99, 3), 100), part("", None));
        let grep = |ignore_case, first| SpillRange::Grep {
            text: "two".into(),
            ignore_case,
            first,
        };
        assert_eq!(read(content, &grep(false, 1), 100), part("2:two é\n", None));
        assert_eq!(
            read(content, &grep(true, 1), 100),
            part("2:two é\n4:TWO again\n", None)
        );
        assert_eq!(read(content, &grep(true, 1), 12), part("2:two é\n", Some(4)));
        assert_eq!(read(content, &grep(true, 3), 100), part("4:TWO again\n", None));
    }

    #[test]
    fn a_line_without_end_is_cut_and_the_next_one_is_found() {
        let mut content = vec![b'x'; 3 * LINE_CAP];
        content.extend(b"\nsecond\n");
        let found = read(
            &content,
            &SpillRange::Grep {
                text: "second".into(),
                ignore_case: false,
                first: 1,
            },
            99,
        );
        assert_eq!(found, part("2:second\n", None));
        let (line, next) = read(&content, &SpillRange::Lines { first: 1, count: 1 }, usize::MAX);
        assert_eq!((line.len(), next), (LINE_CAP + 1, None));
    }
}
