//! Control fields: numbers that may be written as text with placeholders.

use serde_json::Value;

use crate::error::ExpandError;
use crate::placeholder::{Condition, Lookup, Pattern, Slot};
use crate::value::{is_falsy, plain_text};
use crate::words::is_space;

/// Is what a control field must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Milliseconds or another number that is not negative.
    NonNegative,
    /// A whole number that is not negative.
    Count,
    /// A whole number of at least one.
    Positive,
}

/// Is the value of a control field: a number, or a text that becomes one.
#[derive(Debug, Clone, PartialEq)]
pub enum Control {
    /// A number.
    Number(f64),
    /// A text with or without placeholders.
    Text(Pattern),
}

impl Control {
    /// Reads a field; null counts as zero, anything but a number or a text is not a control value.
    pub fn read(value: &Value) -> Option<Self> {
        match value {
            Value::Null => Some(Self::Number(0.0)),
            Value::Number(number) => number.as_f64().map(Self::Number),
            Value::String(text) => Some(Self::Text(Pattern::read(text))),
            _ => None,
        }
    }

    pub(crate) fn pattern(&self) -> Option<&Pattern> {
        match self {
            Self::Number(_) => None,
            Self::Text(pattern) => Some(pattern),
        }
    }

    /// Returns the number; an empty text means that the field is not set.
    pub fn resolve(
        &self,
        field: &'static str,
        wanted: Wanted,
        values: &impl Lookup,
    ) -> Result<Option<f64>, ExpandError> {
        let number = match self {
            Self::Number(number) => Some(*number),
            Self::Text(pattern) => {
                let text = pattern.fill(values, field)?;
                if text.is_empty() {
                    return Ok(None);
                }
                script_number(&text)
            }
        };
        let refuse = |wanted| Err(ExpandError::Control { field, wanted });
        match number.filter(|n| n.is_finite() && *n >= 0.0) {
            None => refuse("a non-negative number"),
            Some(n) if wanted == Wanted::Count && n.fract() != 0.0 => refuse("a non-negative integer"),
            Some(n) if wanted == Wanted::Positive && (n.fract() != 0.0 || n < 1.0) => {
                refuse("a positive integer")
            }
            Some(n) => Ok(Some(n)),
        }
    }
}

/// Reads a text as JavaScript's `Number` does: blanks around it, `0x`, `0o`, `0b`, exponents; the empty text is zero.
pub(crate) fn script_number(text: &str) -> Option<f64> {
    let text = text.trim_matches(is_space);
    if text.is_empty() {
        return Some(0.0);
    }
    for (prefix, radix) in [("0x", 16), ("0X", 16), ("0o", 8), ("0O", 8), ("0b", 2), ("0B", 2)] {
        if let Some(digits) = text.strip_prefix(prefix) {
            if digits.starts_with('+') {
                return None;
            }
            return u64::from_str_radix(digits, radix).ok().map(|n| n as f64);
        }
    }
    let plain = text
        .chars()
        .all(|c| c.is_ascii_digit() || matches!(c, '+' | '-' | '.' | 'e' | 'E'));
    if plain { text.parse().ok() } else { None }
}

/// Is the `when` of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum When {
    /// Written as true or false.
    Fixed(bool),
    /// A name or a negated name.
    Condition(Condition),
    /// Exactly one placeholder.
    Placeholder(Pattern),
}

impl When {
    /// Reads the field; only booleans and texts are conditions.
    pub fn read(value: &Value) -> Option<Self> {
        match value {
            Value::Bool(fixed) => Some(Self::Fixed(*fixed)),
            Value::String(text) => {
                let trimmed = text.trim_matches(is_space);
                if trimmed.is_empty() {
                    return Some(Self::Fixed(false));
                }
                let pattern = Pattern::read(trimmed);
                if pattern.single().is_some() {
                    return Some(Self::Placeholder(pattern));
                }
                Some(Self::Condition(Condition::read(trimmed)))
            }
            _ => None,
        }
    }

    /// Tells whether the node runs.
    ///
    /// A placeholder that cannot be filled in means no; only an index outside its list is an error.
    pub fn holds(&self, values: &impl Lookup) -> Result<bool, ExpandError> {
        match self {
            Self::Fixed(fixed) => Ok(*fixed),
            Self::Condition(condition) => Ok(condition.holds(values)),
            Self::Placeholder(pattern) => match pattern.fill(values, "command template") {
                Ok(text) => Ok(!is_falsy(Some(&Value::String(text)))),
                Err(error) => match pattern.single().map(|placeholder| &placeholder.slot) {
                    Some(Slot::Index { .. }) => Err(error),
                    _ => Ok(false),
                },
            },
        }
    }
}

/// Is the `repeat` of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repeat {
    /// A fixed count.
    Count(u32),
    /// The length of a list among the values.
    LengthOf(String),
}

const REPEAT_NUMBER: &str = "a positive integer";
const REPEAT_TEXT: &str = "a positive integer or {array.length}";

impl Repeat {
    /// Reads the field.
    pub fn read(value: &Value) -> Result<Self, ExpandError> {
        let refuse = |wanted| {
            Err(ExpandError::Control {
                field: "repeat",
                wanted,
            })
        };
        match value {
            Value::Number(number) => match number.as_f64() {
                Some(n) if n >= 1.0 && n.fract() == 0.0 && n <= f64::from(u32::MAX) => {
                    Ok(Self::Count(n as u32))
                }
                _ => refuse(REPEAT_NUMBER),
            },
            Value::String(text) => {
                let text = text.trim_matches(is_space);
                if !text.is_empty() && text.chars().all(|c| c.is_ascii_digit()) {
                    return text
                        .parse()
                        .map_or_else(|_| refuse(REPEAT_NUMBER), |n| Ok(Self::Count(n)));
                }
                let inner = text.strip_prefix('{').unwrap_or(text);
                let inner = inner.strip_suffix('}').unwrap_or(inner);
                match inner.strip_suffix(".length") {
                    Some(name) if crate::placeholder::is_name(name) => Ok(Self::LengthOf(name.to_owned())),
                    _ => refuse(REPEAT_TEXT),
                }
            }
            _ => refuse(REPEAT_NUMBER),
        }
    }

    /// Returns the count; `None` if the list is not among the values.
    pub fn resolve(&self, values: &impl Lookup) -> Result<Option<u32>, ExpandError> {
        match self {
            Self::Count(count) => Ok(Some(*count)),
            Self::LengthOf(name) => match values.get(name) {
                None => Ok(None),
                Some(Value::Array(items)) => Ok(Some(u32::try_from(items.len()).unwrap_or(u32::MAX))),
                Some(_) => Err(ExpandError::Control {
                    field: "repeat",
                    wanted: REPEAT_TEXT,
                }),
            },
        }
    }
}

/// Is the name of a value that a repeat gives to each copy.
pub(crate) fn is_repeat_name(name: &str) -> bool {
    matches!(name.trim_start_matches('_'), "index" | "prev" | "next" | "repeat")
}

/// Returns the values that copy `index` of `count` can use.
pub fn repeat_values(index: u32, count: u32) -> crate::value::Values {
    let last = count.saturating_sub(1);
    let numbers = [
        ("index", index),
        ("next", if index >= last { 0 } else { index + 1 }),
        ("prev", if index == 0 { last } else { index - 1 }),
        ("repeat", count),
    ];
    let mut values = crate::value::Values::new();
    for (name, number) in numbers {
        for underscores in 0..=6_usize {
            let width = if underscores == 0 { 0 } else { underscores + 1 };
            let key = format!("{}{name}", "_".repeat(underscores));
            values.insert(key, Value::String(format!("{number:0>width$}")));
        }
    }
    values
}

/// Resolves the defaults of a node against those around it: a default that is exactly one placeholder takes the value.
pub fn inherit_defaults(
    own: &crate::value::Values,
    inherited: &crate::value::Values,
) -> crate::value::Values {
    let resolve = |value: &Value| -> Value {
        let Value::String(text) = value else {
            return value.clone();
        };
        let pattern = Pattern::read(text);
        let found = match pattern.single().map(|placeholder| &placeholder.slot) {
            Some(Slot::Simple {
                name,
                declared: None,
                default: None,
                ..
            }) => inherited.get(name),
            Some(Slot::Index { name, index }) => crate::placeholder::element(inherited, name, index),
            _ => None,
        };
        found.unwrap_or(value).clone()
    };
    let mut merged = inherited.clone();
    for (name, value) in own {
        merged.insert(name.clone(), resolve(value));
    }
    merged
}

/// Returns a default as a leaf sees it: always a text.
pub(crate) fn default_text(value: &Value) -> Value {
    match value {
        Value::String(_) => value.clone(),
        other => Value::String(plain_text(other).into_owned()),
    }
}
