//! Errors of `config.toml`: where, which key, what is wrong, what to do.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml_edit::Item;

/// Why the configuration cannot be used or changed.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{file} cannot be read: {source}\nNext: check its owner and permissions")]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file says something that is not understood. It is kept as it is.
    #[error("{file}:{line}: {subject}{message}\nNext: {next}", subject = if .key.is_empty() { String::new() } else { format!("{}: ", .key) })]
    Invalid {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The dotted key; empty for a fault of syntax.
        key: String,
        /// What is wrong.
        message: String,
        /// What to do about it.
        next: String,
    },
    /// A change was refused or could not be written. Nothing was changed.
    #[error("{file} was not changed: {message}\nNext: {next}")]
    NotChanged {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        message: String,
        /// What to do about it.
        next: String,
    },
}

/// A contradiction between well-formed values.
pub(super) struct Contradiction {
    /// The key, one component an item.
    pub key: Vec<String>,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub next: String,
}

/// Returns the line (from 1) of a byte offset.
#[must_use]
pub fn line_at(text: &str, offset: usize) -> usize {
    let before = pentad_model::text::prefix(text, offset);
    before.matches('\n').count() + 1
}

/// Turns a parser's error into ours.
pub(super) fn syntax(text: &str, file: &Path, error: &toml_edit::TomlError) -> ConfigError {
    let offset = error.span().map_or(0, |span| span.start);
    ConfigError::Invalid {
        file: file.to_path_buf(),
        line: line_at(text, offset),
        key: String::new(),
        message: format!("this is not TOML: {}", one_line(error.message())),
        next: "repair that line; the file was left as it is".to_owned(),
    }
}

/// Turns an error of types or unknown keys into ours.
pub(super) fn meaning(text: &str, file: &Path, root: &Item, error: &toml_edit::de::Error) -> ConfigError {
    let span = error.span().unwrap_or(0..0);
    let message = one_line(error.message());
    let mut key = Vec::new();
    deepest_key(root, &span, &mut key);
    let (message, next) = match unknown(&message) {
        Some(unknown) => {
            if unknown.what == "key" && key.last().map(String::as_str) != Some(unknown.found) {
                key.push(unknown.found.to_owned());
            }
            unknown.explained()
        }
        None => (
            without_value(&message),
            "change that value; the file was left as it is".to_owned(),
        ),
    };
    ConfigError::Invalid {
        file: file.to_path_buf(),
        line: line_at(text, span.start),
        key: dotted(&key),
        message,
        next,
    }
}

/// Turns a contradiction into an error with the line of its key.
pub(super) fn contradiction(text: &str, file: &Path, root: &Item, found: Contradiction) -> ConfigError {
    ConfigError::Invalid {
        file: file.to_path_buf(),
        line: key_offset(root, &found.key).map_or(1, |offset| line_at(text, offset)),
        key: dotted(&found.key),
        message: found.message,
        next: found.next,
    }
}

fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Takes a rejected text out of serde's message: it may be a key that was pasted into the wrong place.
fn without_value(message: &str) -> String {
    let parts = ["invalid type: string ", "invalid value: string "]
        .iter()
        .find_map(|start| message.strip_prefix(start))
        .and_then(|rest| rest.rsplit_once(", expected "));
    match parts {
        Some((_, expected)) => format!("a string does not fit here: expected {expected}"),
        None => message.to_owned(),
    }
}

fn dotted(key: &[String]) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    key.iter()
        .map(|part| {
            if !part.is_empty() && part.chars().all(bare) {
                part.clone()
            } else {
                format!("{part:?}")
            }
        })
        .collect::<Vec<_>>()
        .join(".")
}

struct Unknown<'m> {
    found: &'m str,
    what: &'static str,
    expected: Vec<&'m str>,
}

impl Unknown<'_> {
    fn explained(&self) -> (String, String) {
        let message = format!("there is no such {}", self.what);
        let near = nearest(self.found, &self.expected);
        let list = self.expected.join(", ");
        let next = match near {
            Some(near) => format!("did you mean '{near}'? Supported here: {list}"),
            None => format!("supported here: {list}"),
        };
        (message, next)
    }
}

/// Reads serde's message about an unknown field or variant, which is the one place that lists what is known.
fn unknown(message: &str) -> Option<Unknown<'_>> {
    let (what, rest) = match message.strip_prefix("unknown field ") {
        Some(rest) => ("key", rest),
        None => ("value", message.strip_prefix("unknown variant ")?),
    };
    let mut quoted = rest.split('`').skip(1).step_by(2);
    let found = quoted.next()?;
    Some(Unknown {
        found,
        what,
        expected: quoted.collect(),
    })
}

fn nearest<'k>(text: &str, known: &[&'k str]) -> Option<&'k str> {
    known
        .iter()
        .map(|k| (strsim::damerau_levenshtein(&text.to_lowercase(), k), *k))
        .filter(|(distance, k)| *distance <= (k.len() / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, k)| k)
}

fn encloses(outer: Option<Range<usize>>, inner: &Range<usize>) -> bool {
    outer.is_some_and(|outer| outer.start <= inner.start && inner.end <= outer.end)
}

/// Pushes the keys that lead to the innermost item around `span`.
fn deepest_key(item: &Item, span: &Range<usize>, key: &mut Vec<String>) {
    if let Some(table) = item.as_table_like() {
        for (name, child) in table.iter() {
            let named = table.key(name).and_then(toml_edit::Key::span);
            if encloses(named, span) {
                key.push(name.to_owned());
                return;
            }
            let before = key.len();
            key.push(name.to_owned());
            deepest_key(child, span, key);
            if key.len() > before + 1 || encloses(child.span(), span) {
                return;
            }
            key.truncate(before);
        }
    } else if let Some(tables) = item.as_array_of_tables() {
        for (at, table) in tables.iter().enumerate() {
            let before = key.len();
            key.push((at + 1).to_string());
            deepest_key(&Item::Table(table.clone()), span, key);
            if key.len() > before + 1 || encloses(table.span(), span) {
                return;
            }
            key.truncate(before);
        }
    }
}

fn key_offset(root: &Item, key: &[String]) -> Option<usize> {
    let mut item = root;
    let mut offset = None;
    for part in key {
        let table = item.as_table_like()?;
        let Some((found, child)) = table.get_key_value(part) else {
            break;
        };
        offset = found.span().map(|span| span.start).or(offset);
        item = child;
    }
    offset
}
