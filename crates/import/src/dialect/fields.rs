//! Taking the keys of an entry one by one, so that what nobody took can be named.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Map, Value};

use super::Stays;

/// The keys of an entry.
pub struct Fields<'v> {
    map: &'v Map<String, Value>,
    taken: BTreeSet<&'static str>,
}

impl<'v> Fields<'v> {
    pub const fn new(map: &'v Map<String, Value>) -> Self {
        Self {
            map,
            taken: BTreeSet::new(),
        }
    }

    /// Takes whatever stands under `key`; null is nothing.
    pub fn take(&mut self, key: &'static str) -> Option<&'v Value> {
        self.taken.insert(key);
        self.map.get(key).filter(|value| !value.is_null())
    }

    pub fn text(&mut self, key: &'static str) -> Result<Option<&'v str>, Stays> {
        let Some(value) = self.take(key) else {
            return Ok(None);
        };
        value.as_str().map(Some).ok_or_else(|| wrong(key, "a text"))
    }

    pub fn texts(&mut self, key: &'static str) -> Result<Vec<String>, Stays> {
        let Some(value) = self.take(key) else {
            return Ok(Vec::new());
        };
        let items = value.as_array();
        let list = items.and_then(|items| items.iter().map(scalar).collect());
        list.ok_or_else(|| wrong(key, "a list of texts"))
    }

    /// Takes a map of names to values; a value that is null is no entry.
    pub fn pairs(&mut self, key: &'static str) -> Result<Vec<(String, String)>, Stays> {
        let Some(value) = self.take(key) else {
            return Ok(Vec::new());
        };
        let map = value.as_object().ok_or_else(|| wrong(key, "a map of texts"))?;
        map.iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| {
                let value = scalar(value).ok_or_else(|| wrong(key, "a map of texts"))?;
                Ok((name.clone(), value))
            })
            .collect()
    }

    pub fn flag(&mut self, key: &'static str) -> Result<Option<bool>, Stays> {
        let Some(value) = self.take(key) else {
            return Ok(None);
        };
        value
            .as_bool()
            .map(Some)
            .ok_or_else(|| wrong(key, "true or false"))
    }

    /// Takes a length of time; one that is no such thing is left out rather than guessed.
    pub fn period(&mut self, key: &'static str, seconds_of_one: f64) -> Option<Duration> {
        let number = self.map.get(key)?.as_f64()? * seconds_of_one;
        if !(0.001..=30.0 * 86_400.0).contains(&number) {
            return None;
        }
        self.taken.insert(key);
        Duration::try_from_secs_f64(number).ok()
    }

    /// Takes keys that say nothing about how the server runs.
    pub fn ignore(&mut self, keys: &[&'static str]) {
        self.taken.extend(keys);
    }

    /// Refuses the entry for a key that changes what runs, unless it is false or empty.
    pub fn refuse(&mut self, key: &'static str, reason: &str) -> Result<(), Stays> {
        match self.take(key) {
            None | Some(Value::Bool(false)) => Ok(()),
            Some(Value::String(text)) if text.is_empty() => Ok(()),
            Some(_) => Err(Stays::because(reason)),
        }
    }

    /// Returns the keys that nobody took and that say something.
    pub fn left(self) -> Vec<String> {
        let empty = |value: &Value| match value {
            Value::Null => true,
            Value::Array(items) => items.is_empty(),
            Value::Object(map) => map.is_empty(),
            Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        };
        self.map
            .iter()
            .filter(|(key, value)| !self.taken.contains(key.as_str()) && !empty(value))
            .map(|(key, _)| pentad_model::text::excerpt(key, 40))
            .collect()
    }
}

fn wrong(key: &str, expected: &str) -> Stays {
    Stays::because(format!("its {key} is not {expected}"))
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
