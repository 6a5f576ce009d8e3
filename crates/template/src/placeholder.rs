//! Placeholders: `{name}`, `{name:type=default}`, `{a??b}`, `{flag?yes:no}`, `{list[0]}`, `{n+1}`.
//!
//! A text is read once into segments; filling it in looks at values only. Values are filled in after parsing, never
//! before, so a value cannot change the shape of a template.

use std::cell::Cell;

use serde_json::Value;

use crate::args::ArgType;
use crate::error::ExpandError;
use crate::expression::{Expression, looks_arithmetic};
use crate::value::{Values, is_falsy, placeholder_text, plain_text};

const MAX_DEPTH: usize = 5;
const MAX_SUBSTITUTIONS: usize = 100_000;
const MAX_TEXT_BYTES: usize = 16 * 1024 * 1024;

/// Finds values by name.
pub trait Lookup {
    /// Returns the value of a name, if it has one.
    fn get(&self, name: &str) -> Option<&Value>;
}

impl Lookup for Values {
    fn get(&self, name: &str) -> Option<&Value> {
        Self::get(self, name)
    }
}

pub(crate) fn is_name_start(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

pub(crate) fn is_name_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// Tells whether a text can be the name of a value.
pub fn is_name(text: &str) -> bool {
    text.chars().next().is_some_and(is_name_start) && text.chars().all(is_name_part)
}

/// Is a name, possibly negated; a text that is no name is never true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    negated: bool,
    name: Option<String>,
}

impl Condition {
    /// Reads `name` or `!name`.
    pub fn read(text: &str) -> Self {
        let text = text.trim_matches(crate::words::is_space);
        let (negated, rest) = match text.strip_prefix('!') {
            Some(rest) => (true, rest.trim_start_matches(crate::words::is_space)),
            None => (false, text),
        };
        Self {
            negated,
            name: is_name(rest).then(|| rest.to_owned()),
        }
    }

    /// Returns the name it asks for.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Tells whether it holds for the values.
    pub fn holds(&self, values: &impl Lookup) -> bool {
        let value = self.name.as_deref().and_then(|name| values.get(name));
        is_falsy(value) == self.negated
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ListIndex {
    At(usize),
    Named(String),
}

/// Is what stands between the braces, understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Slot {
    Nullish {
        name: String,
        fallback: String,
    },
    Ternary {
        condition: Condition,
        yes: String,
        no: String,
    },
    Index {
        name: String,
        index: ListIndex,
    },
    Simple {
        name: String,
        declared: Option<ArgType>,
        default: Option<String>,
        otherwise: Option<Expression>,
    },
    Arithmetic(Expression),
    Unknown,
}

/// Holds one placeholder and its text as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placeholder {
    pub(crate) content: String,
    pub(crate) slot: Slot,
}

impl Placeholder {
    fn read(content: &str) -> Self {
        Self {
            content: content.to_owned(),
            slot: read_slot(content),
        }
    }
}

fn read_slot(content: &str) -> Slot {
    if let Some((name, fallback)) = content.split_once("??")
        && is_name(name)
    {
        return Slot::Nullish {
            name: name.to_owned(),
            fallback: fallback.to_owned(),
        };
    }
    if let Some((condition, branches)) = content.split_once('?')
        && !condition.is_empty()
        && !condition.contains(':')
        && let Some((yes, no)) = branches.split_once(':')
    {
        let condition = Condition::read(condition);
        return Slot::Ternary {
            condition,
            yes: yes.to_owned(),
            no: no.to_owned(),
        };
    }
    if let Some(slot) = read_index(content) {
        return slot;
    }
    if let Some(slot) = read_simple(content) {
        return slot;
    }
    if looks_arithmetic(content) {
        return Slot::Arithmetic(Expression::read(content));
    }
    Slot::Unknown
}

fn read_index(content: &str) -> Option<Slot> {
    let (name, rest) = content.split_once('[')?;
    let index = rest.strip_suffix(']')?;
    if !is_name(name) || index.is_empty() {
        return None;
    }
    let index = if index.chars().all(|c| c.is_ascii_digit()) {
        ListIndex::At(index.parse().unwrap_or(usize::MAX))
    } else if is_name(index) {
        ListIndex::Named(index.to_owned())
    } else {
        return None;
    };
    Some(Slot::Index {
        name: name.to_owned(),
        index,
    })
}

fn read_simple(content: &str) -> Option<Slot> {
    let end = content.find(|c| !is_name_part(c)).unwrap_or(content.len());
    let (name, rest) = content.split_at_checked(end)?;
    if !is_name(name) {
        return None;
    }
    let (declared, rest) = match rest.strip_prefix(':') {
        Some(typed) => {
            let (declared, rest) = ArgType::read_prefix(typed)?;
            (Some(declared), rest)
        }
        None => (None, rest),
    };
    let default = match rest.strip_prefix('=') {
        Some(default) => Some(default.to_owned()),
        None if rest.is_empty() => None,
        None => return None,
    };
    // `{a-1}` is a name first; without such a value it is a subtraction.
    let otherwise =
        (declared.is_none() && default.is_none() && name.contains('-')).then(|| Expression::read(content));
    Some(Slot::Simple {
        name: name.to_owned(),
        declared,
        default,
        otherwise,
    })
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Segment {
    Text(String),
    Placeholder(Placeholder),
}

/// Holds a text whose placeholders were read once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pattern {
    segments: Vec<Segment>,
    /// Is a guess at the filled length, so that most texts are built in one allocation.
    expected_bytes: usize,
}

/// Is the guess at the length of one value.
const EXPECTED_VALUE_BYTES: usize = 24;

impl Pattern {
    /// Reads a text; braces that enclose nothing, or more braces, stay as they are.
    pub fn read(text: &str) -> Self {
        let mut segments = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(open) = rest.find('{') {
            let (before, from_brace) = rest.split_at_checked(open).unwrap_or((rest, ""));
            literal.push_str(before);
            let after = from_brace.strip_prefix('{').unwrap_or_default();
            match after.find(['{', '}']) {
                Some(end) if end > 0 && after.get(end..).is_some_and(|tail| tail.starts_with('}')) => {
                    if !literal.is_empty() {
                        segments.push(Segment::Text(std::mem::take(&mut literal)));
                    }
                    let content = after.get(..end).unwrap_or_default();
                    segments.push(Segment::Placeholder(Placeholder::read(content)));
                    rest = after.get(end + 1..).unwrap_or_default();
                }
                _ => {
                    literal.push('{');
                    rest = after;
                }
            }
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            segments.push(Segment::Text(literal));
        }
        let expected_bytes = segments
            .iter()
            .map(|segment| match segment {
                Segment::Text(text) => text.len(),
                Segment::Placeholder(_) => EXPECTED_VALUE_BYTES,
            })
            .sum();
        Self {
            segments,
            expected_bytes,
        }
    }

    pub(crate) fn placeholders(&self) -> impl Iterator<Item = &Placeholder> {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Placeholder(placeholder) => Some(placeholder),
            Segment::Text(_) => None,
        })
    }

    /// Returns the text if it has no placeholder.
    pub(crate) fn literal(&self) -> Option<&str> {
        match self.segments.as_slice() {
            [] => Some(""),
            [Segment::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Returns the placeholder if it is the whole text.
    pub(crate) fn single(&self) -> Option<&Placeholder> {
        match self.segments.as_slice() {
            [Segment::Placeholder(placeholder)] => Some(placeholder),
            _ => None,
        }
    }

    /// Fills in the values; `label` names the thing in the error for a missing value.
    pub fn fill(&self, values: &impl Lookup, label: &str) -> Result<String, ExpandError> {
        let fill = Fill {
            values,
            label,
            steps: Cell::new(0),
        };
        let mut out = String::with_capacity(self.expected_bytes);
        fill.pattern(self, 0, &mut out)?;
        Ok(out)
    }
}

/// Fills in the placeholders of a text.
pub fn substitute(text: &str, values: &impl Lookup) -> Result<String, ExpandError> {
    Pattern::read(text).fill(values, COMMAND_LABEL)
}

pub(crate) const COMMAND_LABEL: &str = "command template";

struct Fill<'a, L> {
    values: &'a L,
    label: &'a str,
    steps: Cell<usize>,
}

impl<L: Lookup> Fill<'_, L> {
    fn pattern(&self, pattern: &Pattern, depth: usize, out: &mut String) -> Result<(), ExpandError> {
        for segment in &pattern.segments {
            match segment {
                Segment::Text(text) => out.push_str(text),
                Segment::Placeholder(placeholder) => self.placeholder(placeholder, depth, out)?,
            }
            if out.len() > MAX_TEXT_BYTES {
                return Err(ExpandError::TooLarge {
                    limit: MAX_TEXT_BYTES,
                    unit: "bytes",
                });
            }
        }
        Ok(())
    }

    fn placeholder(
        &self,
        placeholder: &Placeholder,
        depth: usize,
        out: &mut String,
    ) -> Result<(), ExpandError> {
        self.steps.set(self.steps.get() + 1);
        if self.steps.get() > MAX_SUBSTITUTIONS {
            return Err(ExpandError::TooLarge {
                limit: MAX_SUBSTITUTIONS,
                unit: "substitutions",
            });
        }
        match &placeholder.slot {
            Slot::Nullish { name, fallback } => match self.values.get(name) {
                Some(value) if !is_falsy(Some(value)) => out.push_str(&plain_text(value)),
                _ => out.push_str(fallback),
            },
            Slot::Ternary { condition, yes, no } => {
                out.push_str(if condition.holds(self.values) { yes } else { no });
            }
            Slot::Index { name, index } => {
                let element = self
                    .element(name, index)
                    .ok_or_else(|| self.missing(placeholder))?;
                out.push_str(&plain_text(element));
            }
            Slot::Simple {
                name,
                default,
                otherwise,
                ..
            } => match (self.values.get(name), default, otherwise) {
                (Some(value), _, _) => self.value(name, value, depth, out)?,
                (None, Some(default), _) => out.push_str(default),
                (None, None, Some(expression)) => out.push_str(&expression.evaluate(self.values)?),
                (None, None, None) => return Err(self.missing(placeholder)),
            },
            Slot::Arithmetic(expression) => out.push_str(&expression.evaluate(self.values)?),
            Slot::Unknown => return Err(self.missing(placeholder)),
        }
        Ok(())
    }

    fn missing(&self, placeholder: &Placeholder) -> ExpandError {
        ExpandError::Missing {
            label: self.label.to_owned(),
            content: placeholder.content.clone(),
        }
    }

    fn element(&self, name: &str, index: &ListIndex) -> Option<&Value> {
        element(self.values, name, index)
    }

    /// Appends a value; a text whose placeholders can all be filled in is filled in again.
    fn value(&self, name: &str, value: &Value, depth: usize, out: &mut String) -> Result<(), ExpandError> {
        if depth > MAX_DEPTH {
            return Err(ExpandError::Recursion {
                name: name.to_owned(),
            });
        }
        if let Value::String(text) = value
            && text.contains('{')
        {
            let inner = Pattern::read(text);
            let mut placeholders = inner.placeholders().peekable();
            if placeholders.peek().is_some() && placeholders.all(|inner| self.resolves(inner)) {
                return self.pattern(&inner, depth + 1, out);
            }
        }
        out.push_str(&placeholder_text(value));
        Ok(())
    }

    fn resolves(&self, placeholder: &Placeholder) -> bool {
        match &placeholder.slot {
            Slot::Nullish { .. } | Slot::Ternary { .. } => true,
            Slot::Index { name, index } => self.element(name, index).is_some(),
            Slot::Simple {
                name,
                default,
                otherwise,
                ..
            } => {
                self.values.get(name).is_some()
                    || default.is_some()
                    || otherwise
                        .as_ref()
                        .is_some_and(|expression| expression.evaluate(self.values).is_ok())
            }
            Slot::Arithmetic(expression) => expression.evaluate(self.values).is_ok(),
            Slot::Unknown => false,
        }
    }
}

pub(crate) fn element<'v>(values: &'v impl Lookup, name: &str, index: &ListIndex) -> Option<&'v Value> {
    let Value::Array(items) = values.get(name)? else {
        return None;
    };
    match index {
        ListIndex::At(at) => items.get(*at),
        ListIndex::Named(name) => {
            let number = crate::control::script_number(&plain_text(values.get(name)?))?;
            // A float that is no exact index finds nothing.
            (number >= 0.0 && number.fract() == 0.0 && number < 9.0e15)
                .then(|| items.get(number as usize))
                .flatten()
        }
    }
}
