use std::io::{BufReader, Read};

use pentad_model::select::{Selection, Span};
use proptest::prelude::*;

use super::*;

fn pick(text: &[u8], selection: &Selection, cap: usize, buffer: usize) -> Selected {
    select(
        BufReader::with_capacity(buffer, text),
        selection,
        SelectLimits::of_bytes(cap),
    )
    .unwrap()
}

fn lines(span: Span) -> Selection {
    Selection {
        lines: Some(span),
        ..Selection::default()
    }
}

fn bytes(span: Span) -> Selection {
    Selection {
        bytes: Some(span),
        ..Selection::default()
    }
}

fn grep(pattern: &str, lines: Option<Span>) -> Selection {
    Selection {
        lines,
        grep: Some(pattern.to_owned()),
        ..Selection::default()
    }
}

/// The same choice over a text in memory, in the plainest way.
fn plainly(text: &str, selection: &Selection) -> String {
    if let Some(span) = selection.bytes {
        let (mut from, mut to) = match span {
            Span::From(from, to) => (from as usize, to.map_or(text.len(), |to| to as usize + 1)),
            Span::Last(count) => (text.len().saturating_sub(count as usize), text.len()),
        };
        from = from.min(text.len());
        to = to.min(text.len());
        while from < to && !text.is_char_boundary(from) {
            from += 1;
        }
        while to > from && !text.is_char_boundary(to) {
            to -= 1;
        }
        return text.get(from..to.max(from)).unwrap_or("").to_owned();
    }
    let all: Vec<&str> = text.split_inclusive('\n').collect();
    let chosen: Vec<&str> = match selection.lines {
        None => all,
        Some(Span::Last(count)) => {
            let skip = all.len().saturating_sub(count as usize);
            all.into_iter().skip(skip).collect()
        }
        Some(Span::From(first, last)) => all
            .into_iter()
            .enumerate()
            .filter(|(at, _)| {
                let number = *at as u64 + 1;
                number >= first && last.is_none_or(|last| number <= last)
            })
            .map(|(_, line)| line)
            .collect(),
    };
    match &selection.grep {
        None => chosen.concat(),
        Some(pattern) => {
            let regex = regex::Regex::new(pattern).unwrap();
            chosen
                .into_iter()
                .filter(|line| regex.is_match(line.trim_end_matches('\n').trim_end_matches('\r')))
                .collect()
        }
    }
}

fn span() -> impl Strategy<Value = Span> {
    prop_oneof![
        (0_u64..30, prop::option::of(0_u64..20))
            .prop_map(|(from, more)| Span::From(from, more.map(|m| from + m))),
        (0_u64..40).prop_map(Span::Last),
    ]
}

fn selection() -> impl Strategy<Value = Selection> {
    let pattern = prop::sample::select(vec!["a", "^$", "é|x", "b.*c", "\\d"]);
    prop_oneof![
        Just(Selection::default()),
        span().prop_map(bytes),
        span().prop_map(lines),
        (pattern, prop::option::of(span())).prop_map(|(pattern, span)| grep(pattern, span)),
    ]
}

proptest! {
    #[test]
    fn o10_a_streamed_choice_is_the_plain_one(
        text in "[abcé😀x1\\n]{0,60}", selection in selection(), buffer in 1_usize..9
    ) {
        let selected = pick(text.as_bytes(), &selection, 1 << 16, buffer);
        prop_assert_eq!(&selected.text, &plainly(&text, &selection));
        prop_assert_eq!(selected.total_bytes, text.len() as u64);
        prop_assert_eq!(selected.total_lines, text.lines().count() as u64);
        prop_assert_eq!(selected.shown_bytes, selected.text.len() as u64);
        prop_assert_eq!(selected.selected_bytes, selected.shown_bytes);
        prop_assert!(selected.is_text);
    }

    #[test]
    fn o09_limits_are_bytes_and_cuts_keep_characters(
        text in "[aé😀\\n]{100,400}", selection in selection(), buffer in 1_usize..200, cap in 64_usize..128
    ) {
        let selected = pick(text.as_bytes(), &selection, cap, buffer);
        let whole = plainly(&text, &selection);
        prop_assert!(selected.shown_bytes <= cap as u64);
        let broken = selected.text.contains(char::REPLACEMENT_CHARACTER);
        prop_assert!(!broken);
        if whole.len() <= cap {
            prop_assert_eq!(&selected.text, &whole);
        } else {
            // Head or tail is kept, and the count of what is missing is exact.
            let missing = whole.len() as u64 - selected.shown_bytes;
            let note = format!("… {missing} bytes left out …\n");
            let (head, tail) = selected.text.split_once(&note).expect("a note");
            prop_assert!(whole.starts_with(head.trim_end_matches('\n')));
            prop_assert!(whole.ends_with(tail));
            prop_assert_eq!(selected.selected_bytes, whole.len() as u64);
        }
    }

    #[test]
    fn any_bytes_are_taken(raw in prop::collection::vec(any::<u8>(), 0..300), selection in selection(),
                           buffer in 1_usize..50) {
        let selected = pick(&raw, &selection, 64, buffer);
        prop_assert_eq!(selected.is_text, std::str::from_utf8(&raw).is_ok_and(|text| !text.contains('\0')));
        prop_assert_eq!(selected.total_bytes, raw.len() as u64);
        prop_assert!(selected.text.len() < 64 * 3 + 60);
    }
}

/// A source that makes its bytes up: as large as one likes, and nothing of it is in memory.
struct Endless {
    left: u64,
    line: &'static [u8],
    at: usize,
}

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        for slot in buffer.iter_mut().take(count) {
            *slot = self.line.get(self.at).copied().unwrap_or(b'x');
            self.at = (self.at + 1) % self.line.len();
        }
        self.left -= count as u64;
        Ok(count)
    }
}

#[test]
fn a_line_without_end_is_never_held() {
    let source = Endless {
        left: 4 << 20,
        line: b"no line break ",
        at: 0,
    };
    let limits = SelectLimits {
        line_bytes: 100,
        ..SelectLimits::of_bytes(256)
    };
    let selected = select(
        BufReader::with_capacity(1 << 16, source),
        &grep("line", None),
        &limits,
    )
    .unwrap();
    assert_eq!((selected.total_lines, selected.matched), (1, Some(1)));
    assert!(
        selected.text.ends_with("… 4194204 bytes of this line left out\n"),
        "{}",
        selected.text
    );
    assert!(selected.text.len() < 256);
}

#[test]
fn the_last_matches_are_counted_though_only_some_are_shown() {
    let text: String = (1..=1000).map(|n| format!("line {n}\n")).collect();
    let selected = pick(text.as_bytes(), &grep("line", Some(Span::Last(500))), 100, 64);
    assert_eq!(selected.matched, Some(500));
    assert_eq!(selected.matched_lines.first(), Some(&501));
    assert!(
        selected.text.ends_with("line 999\nline 1000\n"),
        "{}",
        selected.text
    );
    assert!(selected.text.starts_with("… "));
    assert_eq!(
        selected.selected_bytes,
        plainly(&text, &lines(Span::Last(500))).len() as u64
    );
}

#[test]
fn models_get_line_numbers() {
    let limits = SelectLimits {
        numbered: true,
        ..SelectLimits::of_bytes(1000)
    };
    let selected = select("a\nb\nab\n".as_bytes(), &grep("a", None), &limits).unwrap();
    assert_eq!(selected.text, "1: a\n3: ab\n");
    assert_eq!(selected.matched_lines, [1, 3]);
}

#[test]
fn broken_and_huge_patterns_are_refused() {
    let limits = SelectLimits::of_bytes(100);
    for pattern in ["(", "a{100000}{100000}", "\\p{Nope}"] {
        let error = select("x".as_bytes(), &grep(pattern, None), &limits).unwrap_err();
        let refusal = error.refusal("file:x");
        assert_eq!(refusal.subject, "grep");
        assert_eq!(refusal.next.len(), 1, "{refusal:?}");
    }
}

#[test]
fn a_cancelled_scan_ends() {
    let limits = SelectLimits::of_bytes(100);
    limits.cancel.cancel();
    let error = select("x".as_bytes(), &Selection::default(), &limits).unwrap_err();
    assert!(matches!(error, SelectError::Canceled));
}

#[test]
fn a_range_of_a_very_large_file_is_sought() {
    use std::io::Write as _;
    let mut file = tempfile::tempfile().unwrap();
    let size: u64 = 10 << 30;
    file.set_len(size).unwrap();
    file.seek(SeekFrom::Start(5 << 30)).unwrap();
    file.write_all("ünique".as_bytes()).unwrap();
    let from = (5 << 30) + 1;
    let limits = SelectLimits::of_bytes(100);
    let part = bytes(Span::From(from, Some(from + 5)));
    let selected = select_file(file.try_clone().unwrap(), size, &part, &limits).unwrap();
    assert_eq!(selected.text, "nique");
    assert_eq!((selected.total_bytes, selected.total_lines), (size, 0));
}
