//! Masking secret values in everything that is shown or kept.

mod stream;

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use aho_corasick::{AhoCorasick, MatchKind};
use pentad_model::Refusal;
use serde_json::Value;

/// Values shorter than this are not masked: they would mask half of every text.
const MIN_BYTES: usize = 6;
const MASK: &str = "[secret]";

/// Knows the secret values of this home and masks them. Clones share what they know.
#[derive(Clone, Default)]
pub struct Redactor(Arc<RwLock<Arc<Known>>>);

/// The values, and what finds them.
#[derive(Default)]
struct Known {
    values: usize,
    finder: Option<Finder>,
}

/// Finds values, the longest one where several begin.
struct Finder {
    words: AhoCorasick,
    longest: usize,
}

impl Known {
    fn of(values: &[String]) -> Self {
        let words = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(values);
        let longest = values.iter().map(String::len).max().unwrap_or(0);
        let finder = match words {
            Ok(words) if !values.is_empty() => Some(Finder { words, longest }),
            Ok(_) => None,
            Err(error) => {
                tracing::error!(%error, "secret values are longer than can be looked for, and are not masked");
                None
            }
        };
        Self {
            values: values.len(),
            finder,
        }
    }
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Redactor({} values)", self.known().values)
    }
}

impl Redactor {
    /// Returns a redactor of these values.
    #[must_use]
    pub fn new(values: impl IntoIterator<Item = String>) -> Self {
        let redactor = Self::default();
        redactor.replace(values);
        redactor
    }

    /// Masks these values from now on, longest first; values under six bytes are left out.
    pub fn replace(&self, values: impl IntoIterator<Item = String>) {
        let mut values: Vec<String> = values.into_iter().filter(|v| v.len() >= MIN_BYTES).collect();
        values.sort();
        values.dedup();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(Known::of(&values));
    }

    fn known(&self) -> Arc<Known> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Masks secret values in a text.
    #[must_use]
    pub fn text(&self, text: String) -> String {
        match &self.known().finder {
            Some(finder) if finder.words.is_match(&text) => {
                let mut masked = String::with_capacity(text.len());
                finder.words.replace_all_with(&text, &mut masked, |_, _, out| {
                    out.push_str(MASK);
                    true
                });
                masked
            }
            _ => text,
        }
    }

    /// Writes a masked copy of a file beside it; nothing when there is nothing to mask in it.
    ///
    /// # Errors
    /// Fails when the file cannot be read or the copy not be written.
    pub(crate) fn file(&self, path: &Path) -> std::io::Result<Option<PathBuf>> {
        match &self.known().finder {
            Some(finder) => stream::masked_copy(finder, path),
            None => Ok(None),
        }
    }

    /// Masks secret values in all strings and keys of a value.
    #[must_use]
    pub fn value(&self, value: Value) -> Value {
        if self.known().finder.is_none() {
            return value;
        }
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(list) => Value::Array(list.into_iter().map(|item| self.value(item)).collect()),
            Value::Object(map) => Value::Object(
                map.into_iter()
                    .map(|(key, item)| (self.text(key), self.value(item)))
                    .collect(),
            ),
            other => other,
        }
    }

    /// Masks secret values in a refusal.
    #[must_use]
    pub fn refusal(&self, refusal: Refusal) -> Refusal {
        if self.known().finder.is_none() {
            return refusal;
        }
        Refusal {
            kind: refusal.kind,
            subject: self.text(refusal.subject),
            message: self.text(refusal.message),
            supported: refusal.supported.into_iter().map(|s| self.text(s)).collect(),
            next: refusal.next.into_iter().map(|s| self.text(s)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn secret_values_are_masked_wherever_they_stand() {
        let redactor = Redactor::new(["hunter2-canary".to_owned(), "short".to_owned()]);
        let value = json!({"a": ["x hunter2-canary y", 1], "hunter2-canary": "short"});
        assert_eq!(
            redactor.value(value),
            json!({"a": ["x [secret] y", 1], "[secret]": "short"})
        );
        assert!(!format!("{redactor:?}").contains("hunter2"));
    }
}
