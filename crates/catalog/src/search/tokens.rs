//! From text to terms: Unicode folding, identifier splitting, stemming, and bigrams where words have no spaces.

use rust_stemmers::{Algorithm, Stemmer};
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Words that say nothing about which tool is meant.
const STOP: &[&str] = &[
    "a", "an", "and", "are", "as", "at", "be", "by", "can", "for", "from", "how", "i", "if", "in", "into",
    "is", "it", "its", "me", "my", "of", "on", "or", "our", "please", "so", "some", "that", "the", "their",
    "then", "this", "to", "tool", "tools", "us", "use", "used", "using", "want", "was", "we", "what", "when",
    "which", "will", "with", "you", "your",
];

/// Longest word that becomes a term; longer ones are encoded data.
const MAX_WORD_CHARS: usize = 64;

/// Returns `text` without diacritics, compatibility forms unified.
fn fold(text: &str) -> String {
    if text.is_ascii() {
        return text.to_owned();
    }
    text.nfkd().filter(|c| !is_combining_mark(*c)).nfc().collect()
}

/// Tells whether a character belongs to a script that is written without spaces between words, or (Hangul) glues
/// particles to them.
const fn is_bigram_script(c: char) -> bool {
    matches!(c,
        '\u{3040}'..='\u{30FF}' | '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}'
        | '\u{AC00}'..='\u{D7AF}' | '\u{1100}'..='\u{11FF}' | '\u{20000}'..='\u{323AF}'
        | '\u{0E00}'..='\u{0E7F}')
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Lower,
    Upper,
    Digit,
    Bigram,
    Other,
}

fn class(c: char) -> Class {
    if is_bigram_script(c) {
        Class::Bigram
    } else if c.is_numeric() {
        Class::Digit
    } else if c.is_uppercase() {
        Class::Upper
    } else if c.is_alphabetic() {
        Class::Lower
    } else {
        Class::Other
    }
}

/// Returns the lower-case words of a text: split at everything that is no letter or digit, between letters and
/// digits, at camelCase humps (`getHTTPResponse` is get, http, response) and at changes of script.
pub(crate) fn words(text: &str) -> Vec<String> {
    let folded = fold(text);
    let chars: Vec<char> = folded.chars().collect();
    let mut words = Vec::new();
    let mut word = String::new();
    for (at, &c) in chars.iter().enumerate() {
        let this = class(c);
        let previous = at.checked_sub(1).and_then(|i| chars.get(i)).map(|p| class(*p));
        let next = chars.get(at + 1).map(|n| class(*n));
        let starts = match (previous, this) {
            (_, Class::Other) => true,
            (Some(Class::Upper), Class::Upper) => next == Some(Class::Lower),
            (Some(Class::Upper), Class::Lower) => false,
            (Some(p), t) => p != t,
            (None, _) => true,
        };
        if starts && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if this != Class::Other {
            word.extend(c.to_lowercase());
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// Turns texts into index terms.
pub(super) struct Terms {
    stemmer: Stemmer,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            stemmer: Stemmer::create(Algorithm::English),
        }
    }
}

impl Terms {
    /// Gives each term of `text` to `take`, in order.
    pub(super) fn each(&self, text: &str, mut take: impl FnMut(String)) {
        for word in words(text) {
            if word.chars().next().is_some_and(is_bigram_script) {
                bigrams(&word, &mut take);
            } else if word.chars().count() <= MAX_WORD_CHARS && !STOP.contains(&word.as_str()) {
                if word.is_ascii() && word.len() > 2 {
                    take(self.stemmer.stem(&word).into_owned());
                } else {
                    take(word);
                }
            }
        }
    }

    /// Returns the distinct terms of a query in order; all words when it has stop words only.
    pub(super) fn of_query(&self, query: &str) -> Vec<String> {
        let mut terms = Vec::new();
        let mut add = |term: String| {
            if !terms.contains(&term) {
                terms.push(term);
            }
        };
        self.each(query, &mut add);
        if terms.is_empty() {
            words(query).into_iter().for_each(|word| terms.push(word));
        }
        terms.truncate(64);
        terms
    }
}

fn bigrams(word: &str, take: &mut impl FnMut(String)) {
    let chars: Vec<char> = word.chars().collect();
    if let [single] = chars.as_slice() {
        take(single.to_string());
    }
    for pair in chars.windows(2) {
        take(pair.iter().collect());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn terms(text: &str) -> Vec<String> {
        let mut out = Vec::new();
        Terms::default().each(text, |t| out.push(t));
        out
    }

    #[test]
    fn identifiers_split_at_humps_digits_dots_and_underscores() {
        assert_eq!(
            words("getHTTPResponse_v2.list"),
            ["get", "http", "response", "v", "2", "list"]
        );
        assert_eq!(words("create_issue-now"), ["create", "issue", "now"]);
        assert_eq!(words("Café Über"), ["cafe", "uber"]);
        assert_eq!(words("ﬁle１"), ["file", "1"]);
        assert!(words("--__//").is_empty());
    }

    #[test]
    fn english_words_are_stemmed_and_others_become_bigrams() {
        assert_eq!(terms("creating the issues"), ["creat", "issu"]);
        assert_eq!(terms("天気予報"), ["天気", "気予", "予報"]);
        assert_eq!(terms("날씨"), ["날씨"]);
    }

    proptest! {
        #[test]
        fn any_text_has_terms_without_panic(text in "\\PC{0,80}") {
            for word in words(&text) {
                prop_assert!(!word.is_empty());
            }
            let _ = Terms::default().of_query(&text);
        }
    }
}
