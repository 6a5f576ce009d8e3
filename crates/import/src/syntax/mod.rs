//! The three forms in which clients write configuration, and changing a map of servers in each without touching a
//! byte outside of the entries that go.
//!
//! Every form is read into the same kind of value. A change cuts the entries out of the text and puts one in their
//! place; then the new text is read again, and must say exactly what was meant. So whatever the cutting does not
//! foresee ends in a refusal, never in a broken file.

mod jsonc;
mod splice;
mod toml;
mod yaml;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use self::splice::Splice;

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Syntax {
    /// JSON, with comments and trailing commas if there are any.
    Jsonc,
    /// TOML.
    Toml,
    /// YAML.
    Yaml,
}

/// Why a text cannot be read or changed. No variant holds a piece of the text, which may be full of keys.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SyntaxError {
    /// The text is not of its form.
    #[error("line {line} is not valid {form}: {reason}")]
    Invalid {
        /// The form.
        form: &'static str,
        /// Where, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// The text is not made of what a client writes.
    #[error("{0}")]
    Shape(&'static str),
}

/// One change of one map of servers.
#[derive(Debug, Clone, PartialEq)]
pub struct MapEdit {
    /// The keys that lead to the map.
    pub path: Vec<String>,
    /// The entries that go; never empty.
    pub remove: Vec<String>,
    /// The entry that takes the place of the first one that goes.
    pub insert: Option<(String, Value)>,
}

/// A change of one map of servers, to be taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapRestore {
    /// The keys that lead to the map.
    pub path: Vec<String>,
    /// The entries that went.
    pub removed: Vec<String>,
    /// The entry that was put in their place.
    pub entry: Option<String>,
}

impl From<&MapEdit> for MapRestore {
    fn from(edit: &MapEdit) -> Self {
        Self {
            path: edit.path.clone(),
            removed: edit.remove.clone(),
            entry: edit.insert.as_ref().map(|(name, _)| name.clone()),
        }
    }
}

impl Syntax {
    /// Returns the form's name for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Jsonc => "JSON",
            Self::Toml => "TOML",
            Self::Yaml => "YAML",
        }
    }

    /// Reads a text.
    ///
    /// # Errors
    /// Says where the text is not of its form.
    pub fn read(self, text: &str) -> Result<Value, SyntaxError> {
        match self {
            Self::Jsonc => jsonc::read(text),
            Self::Toml => toml::read(text),
            Self::Yaml => yaml::read(text),
        }
    }

    /// Returns `text` with the changes made and every other byte as it was.
    ///
    /// # Errors
    /// Fails when the text cannot be read, or is written in a way that cannot be changed safely.
    pub fn edit(self, text: &str, edits: &[MapEdit]) -> Result<String, SyntaxError> {
        let mut meant = self.read(text)?;
        let mut changed = text.to_owned();
        for edit in edits {
            apply(&mut meant, edit)?;
            changed = match self {
                Self::Jsonc => jsonc::edit(&changed, edit)?,
                Self::Toml => toml::edit(&changed, edit)?,
                Self::Yaml => yaml::edit(&changed, edit)?,
            };
        }
        self.checked(changed, &meant)
    }

    /// Returns `now` with entries put back as they stand in `old`, and every other byte as it is.
    ///
    /// # Errors
    /// Fails when a text cannot be read, or when the maps are not as the changes left them.
    pub fn restore(self, now: &str, old: &str, changes: &[MapRestore]) -> Result<String, SyntaxError> {
        let (mut meant, before) = (self.read(now)?, self.read(old)?);
        let mut changed = now.to_owned();
        for change in changes {
            take_back(&mut meant, &before, change)?;
            changed = match self {
                Self::Jsonc => jsonc::restore(&changed, old, change)?,
                Self::Toml => toml::restore(&changed, old, change)?,
                Self::Yaml => yaml::restore(&changed, old, change)?,
            };
        }
        self.checked(changed, &meant)
    }

    fn checked(self, changed: String, meant: &Value) -> Result<String, SyntaxError> {
        match self.read(&changed) {
            Ok(said) if said == *meant => Ok(changed),
            Ok(_) | Err(_) => Err(SyntaxError::Shape(
                "it is written in a way that cannot be changed without touching the rest",
            )),
        }
    }
}

/// Returns what stands at the end of `path`.
#[must_use]
pub fn at<'v>(value: &'v Value, path: &[String]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, key| value.get(key))
}

const GONE: SyntaxError = SyntaxError::Shape("the servers are not where they were");

fn map_at<'v>(value: &'v mut Value, path: &[String]) -> Result<&'v mut Map<String, Value>, SyntaxError> {
    path.iter()
        .try_fold(value, |value, key| value.get_mut(key))
        .and_then(Value::as_object_mut)
        .ok_or(GONE)
}

fn take_back(value: &mut Value, before: &Value, change: &MapRestore) -> Result<(), SyntaxError> {
    let map = map_at(value, &change.path)?;
    if let Some(entry) = &change.entry {
        map.remove(entry).ok_or(GONE)?;
    }
    let old = at(before, &change.path).ok_or(GONE)?;
    for name in &change.removed {
        if map.contains_key(name) {
            return Err(SyntaxError::Shape("a server of the same name was added since"));
        }
        map.insert(name.clone(), old.get(name).ok_or(GONE)?.clone());
    }
    Ok(())
}

fn apply(value: &mut Value, edit: &MapEdit) -> Result<(), SyntaxError> {
    let map = map_at(value, &edit.path)?;
    for name in &edit.remove {
        map.remove(name).ok_or(GONE)?;
    }
    if let Some((name, entry)) = &edit.insert {
        map.insert(name.clone(), entry.clone());
    }
    Ok(())
}

/// Returns the line break that `text` uses.
fn line_break(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

#[cfg(test)]
mod tests;
