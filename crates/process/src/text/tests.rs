use proptest::prelude::*;

use super::*;

fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        any::<char>().prop_map(|c| c.to_string().into_bytes()),
        Just("e\u{301}".as_bytes().to_vec()),
        Just("👩‍👩‍👧".as_bytes().to_vec()),
        Just("\u{10FFFF}".as_bytes().to_vec()),
        Just("line\n".as_bytes().to_vec()),
        proptest::collection::vec(any::<u8>(), 1..5),
        Just(vec![0xF0, 0x9F, 0x98]),
        Just(vec![0xC3]),
    ];
    proptest::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn o04_a_cut_keeps_its_limits_and_never_splits_a_character(
        bytes in pieces(),
        head in 0usize..120,
        tail in 0usize..120,
    ) {
        let cut = truncate_utf8(&bytes, head, tail);
        let whole = String::from_utf8_lossy(&bytes).into_owned();
        if whole.len() <= head + tail {
            prop_assert_eq!(cut, Cut { head: whole, tail: String::new(), omitted_bytes: 0 });
        } else {
            prop_assert!(cut.head.len() <= head && cut.tail.len() <= tail);
            prop_assert!(whole.starts_with(&cut.head), "{:?} is no prefix of {:?}", cut.head, whole);
            prop_assert!(whole.ends_with(&cut.tail), "{:?} is no suffix of {:?}", cut.tail, whole);
            prop_assert!(cut.omitted_bytes > 0);
        }
    }

    #[test]
    fn o04_valid_text_loses_less_than_one_character_at_each_limit(
        text in "\\PC*",
        head in 0usize..40,
        tail in 0usize..40,
    ) {
        let cut = truncate_utf8(text.as_bytes(), head, tail);
        let kept = cut.head.len() + cut.tail.len();
        prop_assert_eq!(kept as u64 + cut.omitted_bytes, text.len() as u64);
        if cut.omitted_bytes > 0 {
            prop_assert!(cut.head.len() + 4 > head && cut.tail.len() + 4 > tail);
        }
    }

    #[test]
    fn parts_of_valid_text_are_valid_after_their_ends_are_trimmed(text in "\\PC*", at in 0usize..200) {
        let at = at.min(text.len());
        let (before, after) = text.as_bytes().split_at(at);
        prop_assert!(std::str::from_utf8(skip_partial_end(before)).is_ok());
        prop_assert!(std::str::from_utf8(skip_partial_start(after)).is_ok());
    }
}

#[test]
fn o09_limits_are_bytes_not_characters() {
    let cut = truncate_utf8("😀😀😀😀".as_bytes(), 6, 7);
    assert_eq!(
        cut,
        Cut {
            head: "😀".into(),
            tail: "😀".into(),
            omitted_bytes: 8
        }
    );
    let cut = truncate_utf8(&[0xFF; 10], 7, 0);
    assert_eq!(
        cut,
        Cut {
            head: "\u{FFFD}\u{FFFD}".into(),
            tail: String::new(),
            omitted_bytes: 8
        }
    );
}
