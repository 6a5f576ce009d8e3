//! Splits a command line into words.
//!
//! No shell: quotes group, a backslash protects white space, quotes and itself, and nothing else means anything.
//! Splitting comes before substitution, so a value can never become two words.

/// Holds one word and whether it was written as an empty pair of quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitWord {
    /// Is the text with quotes and escapes taken away.
    pub text: String,
    /// Tells that the author wrote `''` or `""`: such a word stays even though it is empty.
    pub literally_empty: bool,
}

/// Tells whether a character separates words.
pub fn is_space(c: char) -> bool {
    matches!(
        c,
        '\t' | '\n' | '\u{b}' | '\u{c}' | '\r' | ' ' | '\u{a0}' | '\u{1680}' | '\u{2000}'
            ..='\u{200a}' | '\u{2028}' | '\u{2029}' | '\u{202f}' | '\u{205f}' | '\u{3000}' | '\u{feff}'
    )
}

/// Splits a command line into words; an unterminated quote ends with the text.
pub fn split_words(line: &str) -> Vec<SplitWord> {
    let mut words = Vec::new();
    let mut current = String::new();
    let mut active = false;
    let mut quote: Option<char> = None;
    let mut chars = line.chars().peekable();
    let mut finish = |current: &mut String, active: &mut bool| {
        if std::mem::take(active) {
            let text = std::mem::take(current);
            let literally_empty = text.is_empty();
            words.push(SplitWord {
                text,
                literally_empty,
            });
        }
    };
    while let Some(c) = chars.next() {
        match (quote, c) {
            (None | Some('"'), '\\') => {
                active = true;
                match chars.peek() {
                    Some(&next) if is_space(next) || matches!(next, '\'' | '"' | '\\') => {
                        current.push(next);
                        chars.next();
                    }
                    _ => current.push('\\'),
                }
            }
            (Some(open), _) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                active = true;
            }
            (None, _) if is_space(c) => finish(&mut current, &mut active),
            _ => {
                current.push(c);
                active = true;
            }
        }
    }
    finish(&mut current, &mut active);
    words
}

/// Returns a word as a shell would need it, for display only.
pub fn quote_for_display(word: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
    if !word.is_empty() && word.chars().all(safe) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}
