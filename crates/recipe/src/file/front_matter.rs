//! Front matter: the line grammar that recipes were written for, and YAML where that grammar does not reach.
//!
//! The line grammar knows `key: value` at the margin, lists of `- item` and two levels of indented pairs. A value that is
//! indented otherwise is YAML. Where a value means one thing by the grammar and another by YAML, the grammar wins and a
//! note says so.

use serde_json::{Map, Value};

use crate::note::Note;

/// Splits a text into front matter and the rest.
pub(super) fn split(text: &str) -> Option<(&str, &str)> {
    let mut at = 0;
    let mut start = None;
    for line in text.split_inclusive('\n') {
        let end = at + line.len();
        match start {
            None if line.trim() != "---" => return None,
            None => start = Some(end),
            Some(start) if line.trim() == "---" => return Some((text.get(start..at)?, text.get(end..)?)),
            Some(_) => {}
        }
        at = end;
    }
    None
}

/// Returns the index of the line that closes the front matter.
pub(crate) fn end_of_front_matter(lines: &[&str]) -> Option<usize> {
    if lines.first()?.trim() != "---" {
        return None;
    }
    lines
        .iter()
        .skip(1)
        .position(|line| line.trim() == "---")
        .map(|at| at + 1)
}

/// Splits a line at the margin into key and value.
pub(crate) fn key_line(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once(':')?;
    let mut chars = key.chars();
    let starts = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    let legal = chars.all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'));
    let separated = value.is_empty() || value.starts_with([' ', '\t']);
    (starts && legal && separated).then(|| (key, value.trim()))
}

/// Holds a key and what is indented below it.
struct Block<'a> {
    key: &'a str,
    value: &'a str,
    below: Vec<&'a str>,
}

/// Reads the fields of front matter.
pub(super) fn read(text: &str, notes: &mut Vec<Note>) -> Map<String, Value> {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    let mut rejected = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim_end_matches('\r');
        let indented = line.starts_with([' ', '\t']);
        let item_at_margin = line.starts_with("- ") || line == "-";
        if line.trim().is_empty() || (indented || item_at_margin) && !blocks.is_empty() {
            if let Some(block) = blocks.last_mut() {
                block.below.push(line);
            }
        } else if line.starts_with('#') {
            continue;
        } else if let Some((key, value)) = key_line(line) {
            blocks.push(Block {
                key,
                value,
                below: Vec::new(),
            });
        } else {
            rejected.push(number + 2);
        }
    }
    let mut fields = Map::new();
    for block in blocks {
        let value = block.read(notes);
        if fields.insert(block.key.to_owned(), value).is_some() {
            notes.push(Note::warning(format!(
                "{} is written twice; the last one counts.",
                block.key
            )));
        }
    }
    if !rejected.is_empty() {
        adopt_rejected(text, &rejected, &mut fields, notes);
    }
    if let Some(Value::String(args)) = fields.get("args") {
        let declarations = pentad_template::split_declarations(args);
        fields.insert("args".to_owned(), Value::from(declarations));
    }
    if let Some(defaults) = fields.get("defaults").and_then(pairs_of_list) {
        fields.insert("defaults".to_owned(), Value::Object(defaults));
    }
    fields
}

/// Turns a list of `name: value` into a mapping.
fn pairs_of_list(value: &Value) -> Option<Map<String, Value>> {
    let mut map = Map::new();
    for item in value.as_array()? {
        match item {
            Value::String(text) => {
                let (name, value) = key_line(text)?;
                map.insert(name.to_owned(), scalar(value));
            }
            Value::Object(pairs) => map.extend(pairs.clone()),
            _ => return None,
        }
    }
    Some(map)
}

/// Takes keys that only YAML can read, such as quoted ones.
fn adopt_rejected(text: &str, rejected: &[usize], fields: &mut Map<String, Value>, notes: &mut Vec<Note>) {
    let mut adopted = Vec::new();
    if let Some(Value::Object(whole)) = yaml(text) {
        for (key, value) in whole {
            if !fields.contains_key(&key) {
                adopted.push(key.clone());
                fields.insert(key, value);
            }
        }
    }
    if adopted.is_empty() {
        let lines: Vec<String> = rejected.iter().map(ToString::to_string).collect();
        notes.push(Note::warning(format!(
            "Front matter line {} is not understood and has no effect; write key: value.",
            lines.join(", ")
        )));
    }
}

impl Block<'_> {
    fn read(&self, notes: &mut Vec<Note>) -> Value {
        let below: Vec<&str> = self
            .below
            .iter()
            .copied()
            .filter(|line| !line.trim().is_empty())
            .collect();
        let content: Vec<&str> = below
            .iter()
            .copied()
            .filter(|line| !line.trim_start().starts_with('#'))
            .collect();
        if content.is_empty() {
            return self.scalar(notes);
        }
        let by_grammar = if self.value.is_empty() {
            nested(&content)
        } else {
            None
        };
        let by_yaml = yaml(&format!(
            "{}: {}\n{}\n",
            self.key,
            self.value,
            self.below.join("\n")
        ))
        .and_then(|whole| whole.get(self.key).cloned());
        match (by_grammar, by_yaml) {
            (Some(grammar), Some(yaml)) => {
                let pairs = yaml
                    .as_array()
                    .is_some_and(|items| items.iter().all(Value::is_object));
                if grammar != yaml && !pairs {
                    notes.push(Note::warning(format!(
                        "{} reads as {grammar}; as YAML it would be {yaml}. Quote it to be sure.",
                        self.key
                    )));
                }
                grammar
            }
            (Some(grammar), None) => grammar,
            (None, Some(yaml)) => yaml,
            (None, None) => {
                notes.push(Note::warning(format!(
                    "What is indented below {} is not understood.",
                    self.key
                )));
                scalar(self.value)
            }
        }
    }

    fn scalar(&self, notes: &mut Vec<Note>) -> Value {
        let grammar = scalar(self.value);
        let doubtful = self.value.contains(" #")
            || self
                .value
                .starts_with(['\'', '"', '&', '*', '!', '0', '+', '.', '~']);
        if doubtful
            && let Some(yaml) = yaml(&format!("{}: {}\n", self.key, self.value))
            && let Some(yaml) = yaml.get(self.key)
            && *yaml != grammar
        {
            notes.push(Note::warning(format!(
                "{} reads as {grammar}; as YAML it would be {yaml}. Quote it to be sure.",
                self.key
            )));
        }
        grammar
    }
}

fn yaml(text: &str) -> Option<Value> {
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options::<Value>(text, options).ok()
}

/// Reads one value as the line grammar does.
fn scalar(text: &str) -> Value {
    let enclosed = |open: char, close: char| text.starts_with(open) && text.ends_with(close);
    if enclosed('{', '}') || enclosed('[', ']') {
        return serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()));
    }
    for quote in ['"', '\''] {
        if text.len() >= 2 && enclosed(quote, quote) {
            let inner = text.get(1..text.len() - 1).unwrap_or_default();
            return Value::String(inner.to_owned());
        }
    }
    match text {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        "null" => Value::Null,
        _ => decimal(text).unwrap_or_else(|| Value::String(text.to_owned())),
    }
}

fn decimal(text: &str) -> Option<Value> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let all_digits = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit());
    let plain = match digits.split_once('.') {
        Some((whole, fraction)) => all_digits(whole) && all_digits(fraction),
        None => all_digits(digits),
    };
    // A leading zero is no number in JSON; such a text is more likely a code than a quantity.
    if plain {
        serde_json::from_str(text).ok()
    } else {
        None
    }
}

/// Reads indented lines as the line grammar does: a list of scalars, or pairs with one further level.
fn nested(lines: &[&str]) -> Option<Value> {
    let one_indent = lines
        .iter()
        .map(|line| indent(line))
        .all(|width| Some(width) == lines.first().map(|l| indent(l)));
    if one_indent && let Some(items) = lines.iter().map(|line| item(line)).collect::<Option<Vec<_>>>() {
        return Some(Value::Array(items.into_iter().map(scalar).collect()));
    }
    pairs(lines)
}

fn item(line: &str) -> Option<&str> {
    let line = line.trim();
    line.strip_prefix("- ")
        .or_else(|| (line == "-").then_some(""))
        .map(str::trim)
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

fn pairs(lines: &[&str]) -> Option<Value> {
    let mut map = Map::new();
    let mut open: Option<(String, Map<String, Value>)> = None;
    for line in lines {
        let (key, value) = key_line(line.trim_start())?;
        match (indent(line), &mut open) {
            (2, _) => {
                if let Some((key, inner)) = open.take() {
                    map.insert(key, Value::Object(inner));
                }
                if value.is_empty() {
                    open = Some((key.to_owned(), Map::new()));
                } else {
                    map.insert(key.to_owned(), scalar(value));
                }
            }
            (4, Some((_, inner))) if !value.is_empty() => {
                inner.insert(key.to_owned(), scalar(value));
            }
            _ => return None,
        }
    }
    if let Some((key, inner)) = open {
        map.insert(
            key,
            if inner.is_empty() {
                Value::String(String::new())
            } else {
                Value::Object(inner)
            },
        );
    }
    Some(Value::Object(map))
}
