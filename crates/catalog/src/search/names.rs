//! The exact-name tier: whoever writes a tool's name finds that tool first.

use std::collections::HashMap;

use pentad_model::text::prefix;
use strsim::osa_distance;

use super::tokens::words;

/// Names shorter than this take no typing error: too many of them are one letter apart.
const MIN_TYPO_CHARS: usize = 5;
/// Words of a query that are looked up as names.
const MAX_PARTS: usize = 32;

/// How a name was met; a better meeting always ranks above a worse one, whatever the texts say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Meeting {
    /// A word of the query is a name but for one letter.
    PartTypo,
    /// The whole query is a name but for one letter.
    WholeTypo,
    /// A word of the query is a name.
    Part,
    /// The whole query is a name.
    Whole,
}

impl Meeting {
    pub(super) const fn bonus(self) -> f32 {
        match self {
            Self::PartTypo => 1_000.0,
            Self::WholeTypo => 2_000.0,
            Self::Part => 3_000.0,
            Self::Whole => 4_000.0,
        }
    }
}

/// Returns a name without case and separators.
pub(super) fn key(name: &str) -> String {
    words(name).concat()
}

/// What of a query is looked up as a name: the whole, and each word that looks like one.
pub(super) struct Wanted {
    whole: Option<String>,
    parts: Vec<String>,
}

impl Wanted {
    pub(super) fn of(query: &str) -> Self {
        let trimmed = |word: &str| {
            word.trim_matches(|c: char| !c.is_alphanumeric() && c != '_')
                .to_owned()
        };
        let written: Vec<String> = query
            .split_whitespace()
            .map(trimmed)
            .filter(|w| !w.is_empty())
            .collect();
        let few = written.len() <= 3;
        let parts = written
            .iter()
            .filter(|word| few || is_identifier(word))
            .map(|word| key(word))
            .filter(|key| !key.is_empty())
            .take(MAX_PARTS)
            .collect();
        let whole = key(prefix(query, 256));
        Self {
            whole: (!whole.is_empty()).then_some(whole),
            parts,
        }
    }

    fn meets(&self, name: &str) -> Option<Meeting> {
        if self.whole.as_deref() == Some(name) {
            return Some(Meeting::Whole);
        }
        self.parts
            .iter()
            .any(|part| part == name)
            .then_some(Meeting::Part)
    }

    fn nearly_meets(&self, name: &str, chars: usize) -> Option<Meeting> {
        if chars < MIN_TYPO_CHARS {
            return None;
        }
        if self
            .whole
            .as_deref()
            .is_some_and(|whole| one_apart(whole, name, chars))
        {
            return Some(Meeting::WholeTypo);
        }
        self.parts
            .iter()
            .any(|part| one_apart(part, name, chars))
            .then_some(Meeting::PartTypo)
    }
}

/// Tells whether a word of a sentence is written like a tool's name: with a separator, a digit or a hump.
fn is_identifier(word: &str) -> bool {
    let inner_upper = word.chars().skip(1).any(char::is_uppercase) && word.chars().any(char::is_lowercase);
    inner_upper || word.contains(|c: char| matches!(c, '_' | '/' | '.' | '-' | ':') || c.is_ascii_digit())
}

fn one_apart(wanted: &str, name: &str, chars: usize) -> bool {
    wanted.len().abs_diff(name.len()) <= 4
        && wanted.chars().count().abs_diff(chars) <= 1
        && osa_distance(wanted, name) == 1
}

/// The names of one source: with and without the source, and the last component alone.
#[derive(Default)]
pub(super) struct Names {
    by_key: HashMap<String, Vec<u32>>,
    /// Keys with their number of characters, to look for typing errors.
    lengths: Vec<(usize, String)>,
}

impl Names {
    pub(super) fn insert(&mut self, source: &str, name: &str, document: u32) {
        let mut keys = vec![key(name), key(&format!("{source}/{name}"))];
        if let Some((_, last)) = name.rsplit_once('/') {
            keys.push(key(last));
        }
        keys.dedup();
        for key in keys.into_iter().filter(|key| !key.is_empty()) {
            self.by_key.entry(key).or_default().push(document);
        }
    }

    pub(super) fn seal(&mut self) {
        self.lengths = self
            .by_key
            .keys()
            .map(|key| (key.chars().count(), key.clone()))
            .collect();
        self.lengths.sort_unstable();
    }

    /// Gives each met document to `take`; typing errors only when `typos`.
    pub(super) fn meet(&self, wanted: &Wanted, typos: bool, mut take: impl FnMut(u32, Meeting)) {
        for exact in wanted.whole.iter().chain(&wanted.parts) {
            if let (Some(documents), Some(meeting)) = (self.by_key.get(exact), wanted.meets(exact)) {
                documents.iter().for_each(|document| take(*document, meeting));
            }
        }
        if !typos {
            return;
        }
        let lengths: Vec<usize> = wanted
            .whole
            .iter()
            .chain(&wanted.parts)
            .map(|w| w.chars().count())
            .collect();
        for wanted_chars in lengths {
            let from = self
                .lengths
                .partition_point(|(chars, _)| chars + 1 < wanted_chars);
            for (chars, name) in self.lengths.iter().skip(from) {
                if *chars > wanted_chars + 1 {
                    break;
                }
                if let (Some(meeting), Some(documents)) =
                    (wanted.nearly_meets(name, *chars), self.by_key.get(name))
                {
                    documents.iter().for_each(|document| take(*document, meeting));
                }
            }
        }
    }
}
