//! Reading an argument object field by field; what is left over is refused.

use serde_json::{Map, Value};

use super::Verb;
use crate::refusal::{Refusal, RefusalKind};

/// An argument object under inspection.
pub(super) struct Fields<'a> {
    verb: Verb,
    map: &'a Map<String, Value>,
}

/// Names the JSON type of a value.
pub(crate) const fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Returns the nearest of `known` to `text`, when it is near.
pub(crate) fn nearest<'k>(text: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    known
        .into_iter()
        .map(|k| {
            (
                strsim::damerau_levenshtein(&text.to_lowercase(), &k.to_lowercase()),
                k,
            )
        })
        .filter(|(distance, k)| *distance <= (k.len().max(3) / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, k)| k)
}

impl<'a> Fields<'a> {
    /// Opens `arguments`, which must be an object with no keys but `known`.
    pub(super) fn open(
        verb: Verb,
        arguments: &'a Value,
        known: &'static [&'static str],
    ) -> Result<Self, Refusal> {
        let Value::Object(map) = arguments else {
            let message = format!("{verb} takes an object, not {}.", type_name(arguments));
            return Err(
                Refusal::new(RefusalKind::BadRequest, verb.name(), message).supported(known.iter().copied())
            );
        };
        if let Some(key) = map.keys().find(|key| !known.contains(&key.as_str())) {
            let message = format!("{verb} has no argument '{}'.", crate::text::excerpt(key, 80));
            let refusal =
                Refusal::new(RefusalKind::BadRequest, key.as_str(), message).supported(known.iter().copied());
            return Err(match nearest(key, known.iter().copied()) {
                Some(near) => refusal.next_step(format!("did you mean '{near}'?")),
                None => refusal,
            });
        }
        Ok(Self { verb, map })
    }

    fn wrong(&self, key: &str, expected: &str, found: &Value) -> Refusal {
        let message = format!(
            "{}'s '{key}' must be {expected}, not {}.",
            self.verb,
            type_name(found)
        );
        Refusal::new(RefusalKind::BadRequest, key, message)
    }

    fn present(&self, key: &str) -> Option<&'a Value> {
        self.map.get(key).filter(|value| !value.is_null())
    }

    /// Returns a text, if present.
    pub(super) fn text(&self, key: &str) -> Result<Option<&'a str>, Refusal> {
        match self.present(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong(key, "a string", other)),
        }
    }

    /// Returns a text that must be there and not blank.
    pub(super) fn required(&self, key: &str) -> Result<&'a str, Refusal> {
        match self.text(key)?.map(str::trim) {
            Some(text) if !text.is_empty() => Ok(text),
            _ => Err(Refusal::new(
                RefusalKind::BadRequest,
                key,
                format!("{} needs '{key}'.", self.verb),
            )),
        }
    }

    /// Returns a boolean. A text such as `"true"` is refused: a mistyped switch must never act.
    pub(super) fn flag(&self, key: &str, default: bool) -> Result<bool, Refusal> {
        match self.map.get(key) {
            None => Ok(default),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(other) => Err(self.wrong(key, "true or false", other)),
        }
    }

    /// Returns an object; empty when absent.
    pub(super) fn object(&self, key: &str) -> Result<Map<String, Value>, Refusal> {
        match self.present(key) {
            None => Ok(Map::new()),
            Some(Value::Object(map)) => Ok(map.clone()),
            Some(other) => Err(self.wrong(key, "an object", other)),
        }
    }

    /// Returns a list of texts, if present.
    pub(super) fn texts(&self, key: &str) -> Result<Option<Vec<String>>, Refusal> {
        let Some(value) = self.present(key) else {
            return Ok(None);
        };
        let list = value
            .as_array()
            .ok_or_else(|| self.wrong(key, "a list of strings", value))?;
        list.iter()
            .map(|item| {
                item.as_str()
                    .map(str::to_owned)
                    .ok_or_else(|| self.wrong(key, "a list of strings", item))
            })
            .collect::<Result<_, _>>()
            .map(Some)
    }

    /// Returns the raw value, if present and not null.
    pub(super) fn value(&self, key: &str) -> Option<&'a Value> {
        self.present(key)
    }
}
