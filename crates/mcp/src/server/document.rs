//! From a server's own description of a tool to a tool document.

use std::sync::Arc;

use pentad_model::text;
use pentad_model::tool::{Hints, MAX_SUMMARY_BYTES, ToolDocument, ToolKind, ToolRef};
use serde_json::{Map, Value, json};

use super::config::ServerConfig;
use super::manifest::{Manifest, ManifestTool};
use crate::lines::EXECUTION_KEY;

/// Longest tool name that is taken over; the protocol allows 128 characters, servers in the wild use more.
const MAX_NAME_BYTES: usize = 1_024;
/// Longest description that is taken over.
const MAX_DESCRIPTION_BYTES: usize = 64 << 10;

/// Returns the documents of a manifest, in its order.
pub fn documents(config: &ServerConfig, manifest: &Manifest) -> Arc<[Arc<ToolDocument>]> {
    manifest
        .tools
        .iter()
        .map(|tool| Arc::new(document(config, tool)))
        .collect()
}

fn document(config: &ServerConfig, tool: &ManifestTool) -> ToolDocument {
    let shown = text::visible(&tool.description);
    let summary = match text::first_sentence(&shown, MAX_SUMMARY_BYTES) {
        empty if empty.is_empty() => text::excerpt(
            &text::visible(tool.title.as_deref().unwrap_or(&tool.name)),
            MAX_SUMMARY_BYTES,
        ),
        sentence => sentence,
    };
    ToolDocument {
        tool: ToolRef::new(&config.name, &tool.name),
        kind: ToolKind::Mcp,
        title: tool.title.clone(),
        summary,
        description: tool.description.clone(),
        input: tool.input.clone(),
        output: tool.output.clone(),
        body: None,
        declared: tool.hints,
        trusted: trusted(config, tool),
    }
}

/// A server's hints count only as far as a person said so; what a person said about one tool comes first.
fn trusted(config: &ServerConfig, tool: &ManifestTool) -> Hints {
    let own = if config.trust {
        tool.hints
    } else {
        Hints::default()
    };
    let said = config.tools.get(&tool.name).copied().unwrap_or_default();
    Hints {
        read_only: said.read_only.or(own.read_only),
        destructive: said.destructive.or(own.destructive),
        idempotent: said.idempotent.or(own.idempotent),
        open_world: own.open_world,
    }
}

/// Tells whether a tool runs as a task only. The wire's reader keeps the word in `_meta`; a list that the types refuse
/// still has it in its place.
fn needs_task(tool: &Map<String, Value>) -> bool {
    let kept = tool.get("_meta").and_then(|meta| meta.get(EXECUTION_KEY));
    let execution = tool.get("execution").or(kept);
    execution
        .and_then(|execution| execution.get("taskSupport"))
        .and_then(Value::as_str)
        == Some("required")
}

/// Reads one member of a `tools/list` answer, leniently: one bad tool must not lose the others.
///
/// # Errors
/// Says in a sentence why the tool is dropped.
pub fn manifest_tool(value: &Value) -> Result<ManifestTool, String> {
    let Some(object) = value.as_object() else {
        return Err("a tool is not described by an object".to_owned());
    };
    let words = |key: &str| object.get(key).and_then(Value::as_str);
    let name = words("name")
        .filter(|name| !name.is_empty())
        .ok_or("a tool has no name")?;
    if name.len() > MAX_NAME_BYTES {
        return Err(format!(
            "the tool '{}' has a name of {} bytes",
            text::excerpt(name, 80),
            name.len()
        ));
    }
    let hint = |key: &str| {
        object
            .get("annotations")
            .and_then(|hints| hints.get(key))
            .and_then(Value::as_bool)
    };
    let title = words("title").or_else(|| object.get("annotations")?.get("title")?.as_str());
    Ok(ManifestTool {
        name: name.to_owned(),
        title: title
            .filter(|title| !title.is_empty())
            .map(|title| text::excerpt(title, MAX_NAME_BYTES)),
        description: text::excerpt(words("description").unwrap_or_default(), MAX_DESCRIPTION_BYTES),
        input: match object.get("inputSchema") {
            None | Some(Value::Null) => json!({"type": "object"}),
            Some(schema) => schema.clone(),
        },
        output: object
            .get("outputSchema")
            .filter(|schema| !schema.is_null())
            .cloned(),
        hints: Hints {
            read_only: hint("readOnlyHint"),
            destructive: hint("destructiveHint"),
            idempotent: hint("idempotentHint"),
            open_world: hint("openWorldHint"),
        },
        needs_task: needs_task(object),
    })
}
