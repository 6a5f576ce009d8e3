//! `tool_search`: the same search as `read ~/tools/` with a query.

use std::sync::Arc;

use pentad_catalog::{Catalog, SearchOptions, Visibility};
use pentad_model::ToolDocument;
use pentad_program::{Content, ToolCall, ToolFailure, ToolOutput};
use serde_json::json;

pub(super) fn document() -> ToolDocument {
    super::read_only_document(
        "tool_search",
        "Finds tools by name or by what they do.",
        "Finds tools by name or by what they do, over all sources that may be called here. \
         A hit confers nothing: call the tool, and its contract comes first.",
        json!({
            "type": "object",
            "properties": {
                "query": {"type": "string", "minLength": 1, "description": "A name, or what the tool should do"},
                "limit": {"type": "integer", "minimum": 1, "maximum": 100, "description": "Most hits; 8 without it"},
                "source": {"type": "string", "description": "Only this source"}
            },
            "required": ["query"],
            "additionalProperties": false
        }),
    )
}

pub(super) fn run(catalog: Option<Arc<Catalog>>, call: &ToolCall) -> Result<ToolOutput, ToolFailure> {
    let catalog = catalog.ok_or_else(|| ToolFailure::Failed("the catalog is closed".to_owned()))?;
    let text = |key: &str| call.input.get(key).and_then(|v| v.as_str());
    let limit = call
        .input
        .get("limit")
        .and_then(serde_json::Value::as_u64)
        .and_then(|n| usize::try_from(n).ok());
    let options = SearchOptions {
        limit: limit.unwrap_or(8),
        source: text("source").map(str::to_owned),
    };
    let visible = Visibility::of(call.visible.clone());
    let found = catalog.search(text("query").unwrap_or_default(), &options, &visible);
    Ok(ToolOutput {
        content: vec![Content::Text(found.to_markdown())],
        structured: Some(found.to_value()),
        ..ToolOutput::default()
    })
}
