//! Forms: what a connected server asks a person to fill in while a call of it runs.
//!
//! The words of a form are its server's: data, never an instruction. A form is flat, as the protocol has it: an object
//! whose members are texts, numbers, flags and choices.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::text::{excerpt, visible};

/// Most fields of one form.
const MAX_FIELDS: usize = 64;
/// Most choices of one field.
const MAX_CHOICES: usize = 500;
/// Longest name of a field, and longest value of a choice.
const MAX_NAME_BYTES: usize = 256;
/// Longest title, and longest description.
const MAX_TEXT_BYTES: usize = 1 << 10;
/// Longest message.
const MAX_MESSAGE_BYTES: usize = 4 << 10;

/// The keywords of a field that mean something to a flat form.
const KEYWORDS: [&str; 15] = [
    "type",
    "title",
    "description",
    "default",
    "enum",
    "enumNames",
    "oneOf",
    "items",
    "format",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
];

/// Why a form cannot be shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormError {
    /// The schema describes no object.
    #[error("the form is no object with fields")]
    NoObject,
    /// There are too many fields.
    #[error("the form has {0} fields; at most {MAX_FIELDS} are shown")]
    TooMany(usize),
    /// One field cannot be shown.
    #[error("the field '{name}' of the form {why}")]
    Field {
        /// Its name, bounded and with control characters shown.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
}

/// A form that a server wants to be filled in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Form {
    /// The server that asks, by its configured name.
    pub server: String,
    /// What it says, bounded and with control characters shown.
    pub message: String,
    /// The fields as a JSON Schema: an object whose members are flat.
    pub schema: Value,
}

/// One field of a form.
#[derive(Debug, Clone, PartialEq)]
pub struct Field<'a> {
    /// Its name: the key of its value in the answer.
    pub name: &'a str,
    /// What a person is shown in place of the name.
    pub title: Option<&'a str>,
    /// What it is for.
    pub description: Option<&'a str>,
    /// What it takes.
    pub kind: Kind<'a>,
    /// Whether it must be filled in.
    pub required: bool,
    /// What stands in it at first.
    pub default: Option<&'a Value>,
    /// Its format, for example `email` or `password`.
    pub format: Option<&'a str>,
}

/// What a field takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind<'a> {
    /// Text.
    Text,
    /// A number.
    Number,
    /// A whole number.
    Integer,
    /// Yes or no.
    Flag,
    /// One of these.
    Choice(Vec<Choice<'a>>),
    /// Any number of these.
    Choices(Vec<Choice<'a>>),
}

/// One thing that can be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice<'a> {
    /// Its value in the answer.
    pub value: &'a str,
    /// What a person is shown beside the value.
    pub title: Option<&'a str>,
}

/// What became of a form.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FormAnswer {
    /// Filled in, with these values.
    Accepted(Map<String, Value>),
    /// A person does not want to fill it in.
    Declined,
    /// Put away without a decision, or there was nobody to ask.
    Unanswered {
        /// Why, as a clause.
        why: String,
    },
}

impl FormAnswer {
    /// Returns the answer of nobody.
    pub fn unanswered(why: impl Into<String>) -> Self {
        Self::Unanswered { why: why.into() }
    }
}

impl fmt::Debug for FormAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Names only: values may be secrets.
            Self::Accepted(values) => f
                .debug_tuple("Accepted")
                .field(&values.keys().collect::<Vec<_>>())
                .finish(),
            Self::Declined => f.write_str("Declined"),
            Self::Unanswered { why } => f.debug_struct("Unanswered").field("why", why).finish(),
        }
    }
}

impl Form {
    /// Takes a server's form over: what has no meaning in a flat form is left out, and the words are made visible.
    ///
    /// # Errors
    /// Fails when a field is none that a person can be shown, or there are too many.
    pub fn new(server: &str, message: &str, schema: &Value) -> Result<Self, FormError> {
        let properties = schema
            .get("properties")
            .and_then(Value::as_object)
            .ok_or(FormError::NoObject)?;
        if properties.len() > MAX_FIELDS {
            return Err(FormError::TooMany(properties.len()));
        }
        let mut fields = Map::new();
        for (name, asked) in properties {
            let taken = field(name, asked).map_err(|why| FormError::Field {
                name: excerpt(&visible(name), MAX_NAME_BYTES),
                why,
            })?;
            fields.insert(name.clone(), taken);
        }
        let required = schema.get("required").and_then(Value::as_array);
        let required: Vec<Value> = required
            .into_iter()
            .flatten()
            .filter(|name| name.as_str().is_some_and(|name| fields.contains_key(name)))
            .cloned()
            .collect();
        let mut taken = Map::new();
        taken.insert("type".to_owned(), "object".into());
        taken.insert("properties".to_owned(), Value::Object(fields));
        if !required.is_empty() {
            taken.insert("required".to_owned(), Value::Array(required));
        }
        Ok(Self {
            server: server.to_owned(),
            message: excerpt(&visible(message), MAX_MESSAGE_BYTES),
            schema: Value::Object(taken),
        })
    }

    /// Returns the fields in the server's order.
    #[must_use]
    pub fn fields(&self) -> Vec<Field<'_>> {
        let required = self.schema.get("required").and_then(Value::as_array);
        let is_required =
            |name: &str| required.is_some_and(|names| names.iter().any(|n| n.as_str() == Some(name)));
        let properties = self.schema.get("properties").and_then(Value::as_object);
        properties
            .into_iter()
            .flatten()
            .filter_map(|(name, taken)| {
                let text = |key: &str| taken.get(key).and_then(Value::as_str);
                Some(Field {
                    name,
                    title: text("title"),
                    description: text("description"),
                    kind: kind(taken)?,
                    required: is_required(name),
                    default: taken.get("default"),
                    format: text("format"),
                })
            })
            .collect()
    }

    /// Returns the names of the fields, for a journal or a list.
    #[must_use]
    pub fn names(&self) -> String {
        let properties = self.schema.get("properties").and_then(Value::as_object);
        let names: Vec<&str> = properties
            .into_iter()
            .flatten()
            .map(|(name, _)| name.as_str())
            .collect();
        if names.is_empty() {
            "no fields".to_owned()
        } else {
            names.join(", ")
        }
    }
}

/// Takes one field over, or says why it cannot be shown.
fn field(name: &str, asked: &Value) -> Result<Value, &'static str> {
    if name.is_empty() || name.len() > MAX_NAME_BYTES || visible(name) != name || name.contains('\n') {
        return Err("has a name that cannot be shown");
    }
    let asked = asked.as_object().ok_or("is not described")?;
    let mut taken = Map::new();
    for keyword in KEYWORDS {
        let Some(value) = asked.get(keyword) else { continue };
        let value = match (keyword, value) {
            ("title" | "description", Value::String(text)) => shown(text).into(),
            ("enumNames", Value::Array(names)) => names.iter().map(title_of).collect(),
            ("oneOf", Value::Array(options)) => options.iter().map(option).collect(),
            ("items", Value::Object(items)) => self::items(items),
            _ => value.clone(),
        };
        taken.insert(keyword.to_owned(), value);
    }
    let taken = Value::Object(taken);
    match kind(&taken) {
        None => Err("is neither text, number, flag nor choice"),
        Some(Kind::Choice(choices) | Kind::Choices(choices)) if choices.is_empty() => {
            Err("offers nothing to choose from")
        }
        Some(Kind::Choice(choices) | Kind::Choices(choices)) if choices.len() > MAX_CHOICES => {
            Err("offers too much to choose from")
        }
        Some(Kind::Choice(choices) | Kind::Choices(choices))
            if choices.iter().any(|choice| choice.value.len() > MAX_NAME_BYTES) =>
        {
            Err("offers a choice that is too long")
        }
        Some(_) => Ok(taken),
    }
}

fn shown(text: &str) -> String {
    excerpt(&visible(text), MAX_TEXT_BYTES)
}

fn title_of(name: &Value) -> Value {
    name.as_str().map_or(Value::Null, |name| shown(name).into())
}

/// Takes over one choice with a title.
fn option(asked: &Value) -> Value {
    let mut taken = Map::new();
    if let Some(value) = asked.get("const") {
        taken.insert("const".to_owned(), value.clone());
    }
    let title = asked.get("title").or_else(|| asked.get("const"));
    if let Some(title) = title.and_then(Value::as_str) {
        taken.insert("title".to_owned(), shown(title).into());
    }
    Value::Object(taken)
}

/// Takes over what a list may hold.
fn items(asked: &Map<String, Value>) -> Value {
    let mut taken = Map::new();
    for keyword in ["type", "enum"] {
        if let Some(value) = asked.get(keyword) {
            taken.insert(keyword.to_owned(), value.clone());
        }
    }
    for keyword in ["anyOf", "oneOf"] {
        if let Some(Value::Array(options)) = asked.get(keyword) {
            taken.insert(keyword.to_owned(), options.iter().map(option).collect());
        }
    }
    Value::Object(taken)
}

/// Reads what a field takes.
fn kind(field: &Value) -> Option<Kind<'_>> {
    match field.get("type").and_then(Value::as_str)? {
        "string" => choices(field).map_or(Some(Kind::Text), |choices| Some(Kind::Choice(choices?))),
        "number" => Some(Kind::Number),
        "integer" => Some(Kind::Integer),
        "boolean" => Some(Kind::Flag),
        "array" => choices(field.get("items")?)?.map(Kind::Choices),
        _ => None,
    }
}

/// Reads what may be chosen; nothing where everything may be, and nothing inside where a choice is no text.
#[allow(
    clippy::option_option,
    reason = "no choices and unreadable choices are two things"
)]
fn choices(of: &Value) -> Option<Option<Vec<Choice<'_>>>> {
    if let Some(Value::Array(values)) = of.get("enum") {
        let titles = of.get("enumNames").and_then(Value::as_array);
        let choices = values.iter().enumerate().map(|(at, value)| {
            Some(Choice {
                value: value.as_str()?,
                title: titles.and_then(|titles| titles.get(at)?.as_str()),
            })
        });
        return Some(choices.collect());
    }
    let options = of.get("oneOf").or_else(|| of.get("anyOf"))?.as_array()?;
    let read = options.iter().map(|option| {
        Some(Choice {
            value: option.get("const")?.as_str()?,
            title: option.get("title").and_then(Value::as_str),
        })
    });
    Some(read.collect())
}

#[cfg(test)]
mod tests;
