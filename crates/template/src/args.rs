//! Argument declarations: `name[:type][=default]`.

use serde_json::{Value, json};

use crate::value::{Values, number_text, plain_text};
use crate::words::is_space;

/// Is the type of an argument.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ArgType {
    /// Any text.
    #[default]
    String,
    /// A path; the same as text, but said in samples.
    Path,
    /// A whole number.
    Int,
    /// A number.
    Number,
    /// True or false.
    Bool,
    /// A list.
    Array,
    /// One of the texts.
    Enum(Vec<String>),
}

impl ArgType {
    /// Reads a type at the start of a text and returns what follows it.
    pub(crate) fn read_prefix(text: &str) -> Option<(Self, &str)> {
        let end = text
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(text.len());
        let (word, rest) = text.split_at_checked(end)?;
        let simple = match word {
            "string" => Self::String,
            "path" => Self::Path,
            "int" => Self::Int,
            "number" => Self::Number,
            "bool" => Self::Bool,
            "array" => Self::Array,
            "enum" => {
                let (inside, rest) = rest.strip_prefix('(')?.split_once(')')?;
                let values: Vec<String> = inside
                    .split(',')
                    .map(str::trim)
                    .filter(|v| !v.is_empty())
                    .map(str::to_owned)
                    .collect();
                return (!values.is_empty()).then_some((Self::Enum(values), rest));
            }
            _ => return None,
        };
        Some((simple, rest))
    }

    fn read(text: &str) -> Option<Self> {
        Self::read_prefix(text)
            .filter(|(_, rest)| rest.is_empty())
            .map(|(parsed, _)| parsed)
    }

    /// Returns the word that names the type in a declaration.
    pub fn word(&self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Path => "path",
            Self::Int => "int",
            Self::Number => "number",
            Self::Bool => "bool",
            Self::Array => "array",
            Self::Enum(_) => "enum",
        }
    }

    /// Returns the JSON Schema of a value of this type.
    pub fn schema(&self) -> Value {
        match self {
            Self::String | Self::Path => json!({"type": "string"}),
            Self::Int => json!({"type": "integer"}),
            Self::Number => json!({"type": "number"}),
            Self::Bool => json!({"type": "boolean"}),
            Self::Array => json!({"type": "array", "items": {}}),
            Self::Enum(values) => json!({"type": "string", "enum": values}),
        }
    }

    fn accepts_default(&self, text: &str) -> bool {
        match self {
            Self::String | Self::Path => true,
            Self::Int => is_int_text(text),
            Self::Number => is_number_text(text),
            Self::Bool => bool_word(text).is_some(),
            Self::Array => matches!(serde_json::from_str(text), Ok(Value::Array(_))),
            Self::Enum(values) => values.iter().any(|value| value == text),
        }
    }

    /// Returns a default written as text as the JSON value a caller would send.
    pub(crate) fn default_value(&self, text: &str) -> Value {
        let parsed = match self {
            Self::Int | Self::Number => serde_json::from_str::<Value>(text).ok().filter(Value::is_number),
            Self::Bool => bool_word(text).map(Value::Bool),
            Self::Array => serde_json::from_str::<Value>(text).ok().filter(Value::is_array),
            Self::String | Self::Path | Self::Enum(_) => None,
        };
        parsed.unwrap_or_else(|| Value::String(text.to_owned()))
    }

    /// Returns a value as the template wants it, or why it cannot be taken.
    pub(crate) fn normalize(&self, name: &str, value: &Value) -> Result<Value, ArgumentError> {
        let wrong = |wanted: &str| ArgumentError::Type {
            name: name.to_owned(),
            wanted: wanted.to_owned(),
        };
        if value.is_null() {
            return Ok(Value::String(String::new()));
        }
        let text = plain_text(value);
        match self {
            Self::String | Self::Path => {
                Ok(Value::String(crate::value::placeholder_text(value).into_owned()))
            }
            Self::Int => match value {
                Value::Number(number) if number.as_f64().is_some_and(|n| n.fract() == 0.0) => {
                    Ok(Value::String(number_text(number)))
                }
                Value::String(text) if is_int_text(text.trim()) => Ok(Value::String(text.trim().to_owned())),
                _ => Err(wrong("an integer")),
            },
            Self::Number => match value {
                Value::Number(number) => Ok(Value::String(number_text(number))),
                Value::String(text) if is_number_text(text.trim()) => {
                    Ok(Value::String(text.trim().to_owned()))
                }
                _ => Err(wrong("a number")),
            },
            Self::Bool => match value {
                Value::Bool(truth) => Ok(Value::String(truth.to_string())),
                Value::String(text) => bool_word(text.trim())
                    .map(|truth| Value::String(truth.to_string()))
                    .ok_or_else(|| wrong("a boolean")),
                _ => Err(wrong("a boolean")),
            },
            Self::Array => match value {
                Value::Array(_) => Ok(value.clone()),
                Value::String(text) => serde_json::from_str::<Value>(text)
                    .ok()
                    .filter(Value::is_array)
                    .ok_or_else(|| wrong("an array")),
                _ => Err(wrong("an array")),
            },
            Self::Enum(values) => {
                if values.iter().any(|allowed| *allowed == text) {
                    Ok(Value::String(text.into_owned()))
                } else {
                    Err(wrong(&format!("one of: {}", values.join(", "))))
                }
            }
        }
    }
}

fn is_int_text(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit())
}

fn is_number_text(text: &str) -> bool {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let digits = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit());
    match unsigned.split_once('.') {
        Some((whole, fraction)) => (whole.is_empty() || digits(whole)) && digits(fraction),
        None => digits(unsigned),
    }
}

fn bool_word(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" => Some(true),
        "false" | "0" | "no" => Some(false),
        _ => None,
    }
}

/// Says why an argument or its declaration was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentError {
    /// A value has the wrong type.
    #[error("Argument {name} must be {wanted}.")]
    Type {
        /// Is the argument.
        name: String,
        /// Says what it must be.
        wanted: String,
    },
    /// A declared default does not fit the declared type.
    #[error("Invalid default for {name}:{kind}")]
    Default {
        /// Is the argument.
        name: String,
        /// Is the type's word.
        kind: &'static str,
    },
    /// An argument is declared twice.
    #[error("Duplicate argument: {name}")]
    Duplicate {
        /// Is the argument.
        name: String,
    },
}

/// Declares one argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declaration {
    /// Is the argument's name.
    pub name: String,
    /// Is its type.
    pub kind: ArgType,
    /// Is its default, as text.
    pub default: Option<String>,
    /// Is a type that nobody knows: it counts as text and is reported.
    pub unknown_type: Option<String>,
}

impl Declaration {
    /// Reads one declaration; an unknown type counts as text.
    pub fn read(text: &str) -> Self {
        let (head, default) = match find_outside_parentheses(text, '=') {
            Some((head, default)) => (head, Some(default.to_owned())),
            None => (text, None),
        };
        let head = head.trim_matches(is_space);
        if let Some((name, kind)) = head.split_once(':')
            && !name.is_empty()
        {
            let kind = kind.trim_matches(is_space);
            let parsed = ArgType::read(kind);
            let unknown_type = parsed.is_none().then(|| kind.to_owned());
            let name = name.trim_matches(is_space).to_owned();
            return Self {
                name,
                kind: parsed.unwrap_or_default(),
                default,
                unknown_type,
            };
        }
        Self {
            name: head.to_owned(),
            kind: ArgType::String,
            default,
            unknown_type: None,
        }
    }

    /// Returns the declaration without its default, the form that is stored.
    pub fn text(&self) -> String {
        match &self.kind {
            ArgType::String => self.name.clone(),
            ArgType::Enum(values) => format!("{}:enum({})", self.name, values.join(",")),
            other => format!("{}:{}", self.name, other.word()),
        }
    }
}

fn find_outside_parentheses(text: &str, wanted: char) -> Option<(&str, &str)> {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ if c == wanted && depth == 0 => {
                return Some((text.get(..at)?, text.get(at + c.len_utf8()..)?));
            }
            _ => {}
        }
    }
    None
}

/// Splits a text list of declarations.
///
/// A comma separates outside brackets, and only if a declaration follows: in `greeting=hello, dear friend` and in
/// `sizes:array=[1,2]` the comma belongs to the default.
pub fn split_declarations(text: &str) -> Vec<String> {
    let mut pieces: Vec<String> = Vec::new();
    let mut current = String::new();
    let mut depth = 0_usize;
    for c in text.chars() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                push_piece(&mut pieces, &std::mem::take(&mut current));
                continue;
            }
            _ => {}
        }
        current.push(c);
    }
    push_piece(&mut pieces, &current);
    pieces
        .into_iter()
        .map(|piece| piece.trim_matches(is_space).to_owned())
        .filter(|p| !p.is_empty())
        .collect()
}

fn push_piece(pieces: &mut Vec<String>, piece: &str) {
    let head = piece
        .split(['=', ':'])
        .next()
        .unwrap_or_default()
        .trim_matches(is_space);
    let continues = !piece.trim_matches(is_space).is_empty() && !crate::placeholder::is_name(head);
    match pieces.last_mut() {
        Some(last) if continues && last.contains('=') => {
            last.push(',');
            last.push_str(piece);
        }
        _ => pieces.push(piece.to_owned()),
    }
}

/// Reads a text list of declarations strictly: no duplicates, and defaults must fit their types.
pub fn read_declarations(text: &str) -> Result<Vec<Declaration>, ArgumentError> {
    let mut declarations: Vec<Declaration> = Vec::new();
    for piece in split_declarations(text) {
        let declaration = Declaration::read(&piece);
        if declarations.iter().any(|known| known.name == declaration.name) {
            return Err(ArgumentError::Duplicate {
                name: declaration.name,
            });
        }
        if let Some(default) = &declaration.default
            && !declaration.kind.accepts_default(default)
        {
            return Err(ArgumentError::Default {
                name: declaration.name,
                kind: declaration.kind.word(),
            });
        }
        declarations.push(declaration);
    }
    Ok(declarations)
}

/// Normalizes the values whose types are known; others pass unchanged.
pub fn normalize_values<'t>(
    values: &Values,
    type_of: impl Fn(&str) -> Option<&'t ArgType>,
) -> Result<Values, ArgumentError> {
    let mut normalized = Values::new();
    for (name, value) in values {
        let value = match type_of(name) {
            Some(kind) => kind.normalize(name, value)?,
            None => value.clone(),
        };
        normalized.insert(name.clone(), value);
    }
    Ok(normalized)
}
