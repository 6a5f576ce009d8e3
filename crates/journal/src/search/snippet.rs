//! Text around a match.

use pentad_model::text;

/// Characters on either side of a match.
const AROUND: usize = 80;
/// Most bytes of a snippet.
const MAX_BYTES: usize = 240;

/// Returns the text around the first place of `word`, on one line; the beginning where the index saw a match that
/// plain comparison does not, such as one without its accents.
pub(super) fn around(text: &str, word: &str) -> String {
    let parts: Vec<String> = word
        .split(|c: char| !c.is_alphanumeric())
        .filter(|part| !part.is_empty())
        .map(str::to_lowercase)
        .collect();
    let tokens = tokens(text);
    let at = tokens.windows(parts.len().max(1)).find(|window| {
        window
            .iter()
            .zip(&parts)
            .all(|((_, token), part)| token.to_lowercase() == *part)
    });
    let start = at.and_then(<[_]>::first).map_or(0, |(at, _)| *at);
    let end = at
        .and_then(<[_]>::last)
        .map_or(start, |(at, token)| at + token.len());
    let (before, match_on) = text.split_at_checked(start).unwrap_or(("", text));
    let (matched, after) = match_on.split_at_checked(end - start).unwrap_or((match_on, ""));
    cut(before, matched, after)
}

/// Returns the words of a text and where they begin.
fn tokens(text: &str) -> Vec<(usize, &str)> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|token| !token.is_empty())
        .map(|token| (token.as_ptr().addr() - text.as_ptr().addr(), token))
        .collect()
}

fn cut(before: &str, matched: &str, after: &str) -> String {
    let matched = text::prefix(matched, MAX_BYTES / 2);
    let room = (MAX_BYTES - matched.len()) / 2 - '…'.len_utf8();
    let left_from = before
        .char_indices()
        .rev()
        .nth(AROUND - 1)
        .map_or(0, |(at, _)| at);
    let right_to = after.char_indices().nth(AROUND).map_or(after.len(), |(at, _)| at);
    let left = text::suffix(before.get(left_from..).unwrap_or(""), room);
    let right = text::prefix(after.get(..right_to).unwrap_or(""), room);
    let mut out = String::new();
    if left.len() < before.len() {
        out.push('…');
    }
    for part in [left, matched, right] {
        out.extend(part.chars().map(|c| if c.is_whitespace() { ' ' } else { c }));
    }
    if right.len() < after.len() {
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_snippet_shows_both_sides_of_the_match() {
        let text = format!(
            "{} the Needle.rs\nstands here {}",
            "ä".repeat(300),
            "z".repeat(300)
        );
        let snippet = around(&text, "needle.rs");
        assert!(snippet.starts_with('…') && snippet.ends_with('…'), "{snippet}");
        assert!(snippet.contains("the Needle.rs stands here"), "{snippet}");
        assert!(snippet.len() <= MAX_BYTES);
        assert_eq!(around("one two", "TWO"), "one two");
        assert_eq!(around("", "x"), "");
    }

    proptest! {
        #[test]
        fn o04_any_text_gives_a_bounded_snippet(text in "(\\PC|\\s){0,400}", word in "\\PC{1,12}") {
            prop_assert!(around(&text, &word).len() <= MAX_BYTES);
        }
    }
}
