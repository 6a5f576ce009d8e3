//! An example call, made from the schema.

use pentad_model::text::{excerpt, visible};
use pentad_model::tool::ToolDocument;
use serde_json::{Map, Value, json};

use super::schema::{Layout, json as print};

/// Largest example in bytes.
const MAX_EXAMPLE_BYTES: usize = 1024;
/// How deep examples nest.
const MAX_DEPTH: usize = 6;
/// Most properties of one example object.
const MAX_PROPERTIES: usize = 16;

/// Returns the last section of a contract: a call with the required arguments.
pub(super) fn call_line(document: &ToolDocument) -> String {
    let tool = document.tool.to_string();
    let input = match value(&document.input, &document.input, "input", 0) {
        Some(Value::Object(map)) => map,
        _ => Map::new(),
    };
    let call = print(&json!({"tool": tool, "input": input}), Layout::Compact);
    let call = if call.len() <= MAX_EXAMPLE_BYTES {
        call
    } else {
        let name = print(&Value::String(excerpt(&tool, 512)), Layout::Compact);
        format!("{{\"tool\":{name},\"input\":{{…}}}}")
    };
    format!("## Call\n\ncall {call}\n")
}

fn value(schema: &Value, root: &Value, name: &str, depth: usize) -> Option<Value> {
    let map = schema.as_object()?;
    if depth > MAX_DEPTH {
        return None;
    }
    let given = map
        .get("const")
        .or_else(|| map.get("default").filter(|v| !v.is_null()))
        .or_else(|| map.get("examples").and_then(|list| list.get(0)))
        .or_else(|| map.get("enum").and_then(|list| list.get(0)));
    if let Some(given) = given {
        return Some(given.clone());
    }
    if let Some(target) = map.get("$ref").and_then(Value::as_str) {
        let inner = root.pointer(target.strip_prefix('#')?)?;
        return value(inner, root, name, depth + 1);
    }
    let own = match type_of(map) {
        Some("object") => Some(object(map, root, depth)),
        Some("array") => Some(array(map, root, name, depth)),
        Some("string") => Some(Value::String(text(map, name))),
        Some("integer" | "number") => Some(map.get("minimum").cloned().unwrap_or_else(|| json!(1))),
        Some("boolean") => Some(Value::Bool(true)),
        Some("null") => Some(Value::Null),
        _ => None,
    };
    own.or_else(|| alternative(map, root, name, depth))
        .or_else(|| (depth > 0).then(|| Value::String(placeholder(name))))
}

fn type_of(map: &Map<String, Value>) -> Option<&str> {
    match map.get("type") {
        Some(Value::String(one)) => Some(one),
        Some(Value::Array(several)) => several
            .iter()
            .filter_map(Value::as_str)
            .find(|kind| *kind != "null"),
        _ if map.contains_key("properties") => Some("object"),
        _ if map.contains_key("items") => Some("array"),
        _ => None,
    }
}

fn alternative(map: &Map<String, Value>, root: &Value, name: &str, depth: usize) -> Option<Value> {
    ["anyOf", "oneOf", "allOf"]
        .into_iter()
        .filter_map(|key| map.get(key)?.as_array())
        .flatten()
        .filter(|schema| schema.get("type").and_then(Value::as_str) != Some("null"))
        .find_map(|schema| value(schema, root, name, depth + 1))
}

fn object(map: &Map<String, Value>, root: &Value, depth: usize) -> Value {
    let properties = map.get("properties").and_then(Value::as_object);
    let required = map
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let filled = required
        .filter_map(Value::as_str)
        .take(MAX_PROPERTIES)
        .map(|name| {
            let inner = properties
                .and_then(|p| p.get(name))
                .and_then(|schema| value(schema, root, name, depth + 1))
                .unwrap_or_else(|| Value::String(placeholder(name)));
            (name.to_owned(), inner)
        })
        .collect();
    Value::Object(filled)
}

fn array(map: &Map<String, Value>, root: &Value, name: &str, depth: usize) -> Value {
    let item = map
        .get("items")
        .and_then(|items| value(items, root, name, depth + 1))
        .unwrap_or_else(|| Value::String(placeholder(name)));
    Value::Array(vec![item])
}

fn text(map: &Map<String, Value>, name: &str) -> String {
    match map.get("format").and_then(Value::as_str) {
        Some("date-time") => "2026-01-31T10:00:00Z".to_owned(),
        Some("date") => "2026-01-31".to_owned(),
        Some("time") => "10:00:00Z".to_owned(),
        Some("uri" | "url") => "https://example.org/".to_owned(),
        Some("email") => "someone@example.org".to_owned(),
        _ => placeholder(name),
    }
}

fn placeholder(name: &str) -> String {
    format!("<{}>", excerpt(&visible(name), 60))
}
