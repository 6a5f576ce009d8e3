//! Cutting text on character boundaries; the only place that does.

/// Returns the longest prefix of at most `bytes` bytes that ends on a character boundary.
#[must_use]
pub fn prefix(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or("")
}

/// Returns the longest suffix of at most `bytes` bytes that starts on a character boundary.
#[must_use]
pub fn suffix(text: &str, bytes: usize) -> &str {
    let mut start = text.len().saturating_sub(bytes);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    text.get(start..).unwrap_or("")
}

/// Returns `text`, or its beginning and `…` when it is longer than `bytes`.
#[must_use]
pub fn excerpt(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    format!("{}…", prefix(text, bytes.saturating_sub('…'.len_utf8())))
}

/// Returns the first sentence of `text` on one line, at most `bytes` long.
#[must_use]
pub fn first_sentence(text: &str, bytes: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let end = line.find(". ").map_or(line.len(), |at| at + 1);
    excerpt(prefix(&line, end), bytes)
}

/// Shows control, zero-width and bidirectional characters of foreign text as `\u{…}`; line breaks and tabs stay.
#[must_use]
pub fn visible(text: &str) -> String {
    let hidden = |c: char| {
        (c.is_control() && !matches!(c, '\n' | '\t'))
            || matches!(c, '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{2064}')
            || matches!(c, '\u{2066}'..='\u{2069}' | '\u{FEFF}' | '\u{E0000}'..='\u{E007F}')
    };
    if !text.contains(hidden) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\r' => {}
            c if hidden(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn o04_cuts_never_split_a_character(text in "\\PC{0,40}", n in 0_usize..200) {
            prop_assert!(prefix(&text, n).len() <= n);
            prop_assert!(text.starts_with(prefix(&text, n)));
            prop_assert!(suffix(&text, n).len() <= n);
            prop_assert!(text.ends_with(suffix(&text, n)));
            prop_assert!(excerpt(&text, n.max(3)).len() <= n.max(3).max(text.len().min(n)));
        }
    }

    #[test]
    fn hidden_characters_become_visible() {
        assert_eq!(
            visible("a\u{200b}b\u{202e}c\r\nd\u{7}"),
            "a\\u{200b}b\\u{202e}c\nd\\u{7}"
        );
    }

    #[test]
    fn a_summary_is_one_line() {
        assert_eq!(first_sentence("Reads a file.\n Then more.", 140), "Reads a file.");
        assert_eq!(first_sentence("no stop\nhere", 140), "no stop here");
    }
}
