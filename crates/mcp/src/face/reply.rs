//! From an outcome to what an MCP client sees.

use pentad_model::outcome::Omitted;
use pentad_model::{Outcome, Part, Refusal, Status};
use rmcp::model::{CallToolResult, ContentBlock, ErrorCode, ErrorData, MetaObject};
use serde_json::{Value, json};

/// Renders an outcome. The text is the engine's bounded view; nothing is cut or added to it here.
pub fn outcome(outcome: Outcome) -> CallToolResult {
    let meta = facts(&outcome);
    let mut content = Vec::with_capacity(1 + outcome.parts.len());
    if !outcome.text.is_empty() || outcome.parts.is_empty() {
        content.push(ContentBlock::text(outcome.text));
    }
    content.extend(outcome.parts.into_iter().map(part));
    let mut result = match outcome.status {
        Status::Ok => CallToolResult::success(content),
        Status::Failed | Status::Refused | Status::Waiting => CallToolResult::error(content),
    };
    result.structured_content = structured(outcome.value, outcome.refusal.as_ref());
    result.with_meta(Some(meta))
}

/// Returns what is known about an invocation besides its result.
pub fn facts(outcome: &Outcome) -> MetaObject {
    let mut meta = MetaObject::new();
    meta.insert("pentad/call".to_owned(), json!(outcome.call));
    meta.insert("pentad/thread".to_owned(), json!(outcome.thread));
    if let Some(run) = &outcome.run {
        meta.insert("pentad/run".to_owned(), json!(run));
    }
    if let Some(omitted) = &outcome.omitted {
        meta.insert("pentad/omitted".to_owned(), left_out(omitted));
    }
    meta
}

/// Renders a refusal that came before any invocation.
pub fn refusal(refusal: &Refusal) -> CallToolResult {
    let mut result = CallToolResult::error(vec![ContentBlock::text(refusal.to_text())]);
    result.structured_content = structured(None, Some(refusal));
    result
}

/// Renders a refusal as a protocol error: its text for a person, itself for a program.
pub fn error(code: ErrorCode, refusal: &Refusal) -> ErrorData {
    ErrorData::new(code, refusal.to_text(), serde_json::to_value(refusal).ok())
}

/// A refusal is structured too, so that a program can act on its kind and next steps.
///
/// The result is always an object: older revisions allow nothing else, and would get a list as one more text, uncut.
fn structured(value: Option<Value>, refusal: Option<&Refusal>) -> Option<Value> {
    match (value, refusal) {
        (None, None) => None,
        (Some(value @ Value::Object(_)), None) => Some(value),
        (Some(value), None) => Some(json!({"value": value})),
        (None, Some(refusal)) => Some(json!({"refusal": refusal})),
        (Some(Value::Object(mut map)), Some(refusal)) => {
            map.entry("refusal").or_insert_with(|| json!(refusal));
            Some(Value::Object(map))
        }
        (Some(value), Some(refusal)) => Some(json!({"value": value, "refusal": refusal})),
    }
}

fn part(part: Part) -> ContentBlock {
    match part {
        Part::Image {
            mime,
            data: Some(data),
            ..
        } => ContentBlock::image(data, mime),
        Part::Audio {
            mime,
            data: Some(data),
            ..
        } => ContentBlock::audio(data, mime),
        Part::Image {
            cid,
            mime,
            data: None,
        }
        | Part::Audio {
            cid,
            mime,
            data: None,
        } => ContentBlock::text(format!("{mime} at attachment:{cid}")),
        Part::Link {
            address,
            title: Some(title),
        } => ContentBlock::text(format!("{title}: {address}")),
        Part::Link { address, title: None } => ContentBlock::text(address),
    }
}

fn left_out(omitted: &Omitted) -> Value {
    json!({
        "shownBytes": omitted.shown_bytes,
        "totalBytes": omitted.total_bytes,
        "totalLines": omitted.total_lines,
        "address": omitted.address,
    })
}
