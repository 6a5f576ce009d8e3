//! The text of an event or run that a search looks through.

use pentad_model::{EventBody, text};
use serde_json::Value;

/// Bytes of one record's text that are searched.
const MAX_TEXT_BYTES: usize = 64 << 10;

/// Returns the text of an event: what a person or model wrote or read, without ids, hashes and keys.
pub(crate) fn of_event(body: &EventBody) -> String {
    let mut out = String::new();
    match body {
        EventBody::Called { arguments, .. } => add_value(&mut out, arguments),
        EventBody::Intent { act, .. } => add(&mut out, act),
        EventBody::Returned { text, value, .. } => {
            add(&mut out, text);
            if let Some(value) = value {
                add_value(&mut out, value);
            }
        }
        EventBody::RunStarted { title } => add(&mut out, title),
        EventBody::RunStatus { error, .. } => {
            if let Some(error) = error {
                add(&mut out, &error.message);
            }
        }
        EventBody::PlanSet { plan } => {
            if let Some(title) = &plan.title {
                add(&mut out, title);
            }
            for step in &plan.steps {
                add(&mut out, &step.label);
            }
        }
        EventBody::Promoted { tool, .. } => add(&mut out, tool),
        EventBody::Approval { act, .. } => add(&mut out, act),
        EventBody::Log { source, text, .. } => {
            add(&mut out, source);
            add(&mut out, text);
        }
        EventBody::Note { text } => add(&mut out, text),
    }
    out
}

/// Adds a text on a line of its own.
pub(crate) fn add(out: &mut String, text: &str) {
    if text.is_empty() || out.len() >= MAX_TEXT_BYTES {
        return;
    }
    if !out.is_empty() {
        out.push('\n');
    }
    out.push_str(text::prefix(text, MAX_TEXT_BYTES - out.len().min(MAX_TEXT_BYTES)));
}

/// Adds the strings and numbers of a value.
pub(crate) fn add_value(out: &mut String, value: &Value) {
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::Number(number) => add(out, &number.to_string()),
        Value::String(text) => add(out, text),
        Value::Array(items) => items.iter().for_each(|item| add_value(out, item)),
        Value::Object(map) => map.values().for_each(|item| add_value(out, item)),
    }
}
