//! Masking secret values in everything that is shown or kept.

use std::sync::{Arc, PoisonError, RwLock};

use pentad_model::Refusal;
use serde_json::Value;

/// Values shorter than this are not masked: they would mask half of every text.
const MIN_BYTES: usize = 6;
const MASK: &str = "[secret]";

/// Knows the secret values of this home and masks them. Clones share what they know.
#[derive(Clone, Default)]
pub struct Redactor(Arc<RwLock<Arc<[String]>>>);

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Redactor({} values)", self.values().len())
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
        values.sort_by_key(|v| std::cmp::Reverse(v.len()));
        values.dedup();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = values.into();
    }

    fn values(&self) -> Arc<[String]> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Masks secret values in a text.
    #[must_use]
    pub fn text(&self, text: String) -> String {
        self.values().iter().fold(text, |text, secret| {
            if text.contains(secret.as_str()) {
                text.replace(secret.as_str(), MASK)
            } else {
                text
            }
        })
    }

    /// Masks secret values in all strings and keys of a value.
    #[must_use]
    pub fn value(&self, value: Value) -> Value {
        if self.values().is_empty() {
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
        if self.values().is_empty() {
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
