//! Texts of values.
//!
//! Templates were written against JavaScript's rules for turning a value into text, so authors rely on them:
//! `1e21` prints as `1e+21`, a list inside a default joins with commas, and `"no"` is false.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::{Map, Number, Value};

/// Holds the values of one call, by argument name.
pub type Values = Map<String, Value>;

/// Returns a number as JavaScript prints it.
pub fn number_text(number: &Number) -> String {
    match (number.as_i64(), number.as_u64(), number.as_f64()) {
        (Some(int), _, _) => int.to_string(),
        (None, Some(int), _) => int.to_string(),
        (None, None, Some(float)) => float_text(float),
        (None, None, None) => number.to_string(),
    }
}

fn float_text(float: f64) -> String {
    if float == 0.0 {
        return "0".to_owned();
    }
    let sign = if float < 0.0 { "-" } else { "" };
    let scientific = format!("{:e}", float.abs());
    let Some((mantissa, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let point = exponent.parse::<i32>().unwrap_or(0).saturating_add(1);
    let zeros = |n: i32| "0".repeat(usize::try_from(n).unwrap_or(0));
    let split = |at: i32| {
        let at = usize::try_from(at).unwrap_or(0);
        let head: String = digits.chars().take(at).collect();
        let tail: String = digits.chars().skip(at).collect();
        (head, tail)
    };
    if (count..=21).contains(&point) {
        format!("{sign}{digits}{}", zeros(point - count))
    } else if (1..=21).contains(&point) {
        let (head, tail) = split(point);
        format!("{sign}{head}.{tail}")
    } else if (-5..=0).contains(&point) {
        format!("{sign}0.{}{digits}", zeros(-point))
    } else {
        let (head, tail) = split(1);
        let dot = if tail.is_empty() { "" } else { "." };
        let power = point - 1;
        let plus = if power < 0 { "" } else { "+" };
        format!("{sign}{head}{dot}{tail}e{plus}{power}")
    }
}

/// Returns the plain text of a value: a list joins with commas, a mapping is its JSON text.
pub fn plain_text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Null => Cow::Borrowed(""),
        Value::Bool(true) => Cow::Borrowed("true"),
        Value::Bool(false) => Cow::Borrowed("false"),
        Value::Number(number) => Cow::Owned(number_text(number)),
        Value::String(text) => Cow::Borrowed(text),
        Value::Array(items) => {
            let mut out = String::new();
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                out.push_str(&plain_text(item));
            }
            Cow::Owned(out)
        }
        Value::Object(_) => Cow::Owned(json_text(value)),
    }
}

/// Returns the text that a bare placeholder yields: like [`plain_text`], but a list is its JSON text.
pub fn placeholder_text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Array(_) => Cow::Owned(json_text(value)),
        other => plain_text(other),
    }
}

fn json_text(value: &Value) -> String {
    let mut out = String::new();
    write_json(value, &mut out);
    out
}

fn write_json(value: &Value, out: &mut String) {
    match value {
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_json(item, out);
            }
            out.push(']');
        }
        Value::Object(map) => {
            out.push('{');
            for (index, (key, item)) in map.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_json(&Value::String(key.clone()), out);
                out.push(':');
                write_json(item, out);
            }
            out.push('}');
        }
        Value::Number(number) => out.push_str(&number_text(number)),
        // Writing to a string cannot fail.
        scalar => drop(write!(out, "{scalar}")),
    }
}

/// Tells whether a value counts as false: missing, null, false, or the text of nothing, `0`, `false` or `no`.
pub fn is_falsy(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null | Value::Bool(false)) => true,
        Some(Value::Bool(true) | Value::Object(_)) => false,
        Some(other) => {
            let text = plain_text(other);
            let trimmed = text.trim();
            trimmed.is_empty()
                || trimmed == "0"
                || trimmed.eq_ignore_ascii_case("false")
                || trimmed.eq_ignore_ascii_case("no")
        }
    }
}
