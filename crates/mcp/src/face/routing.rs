//! Which arguments a gateway may route by: they travel as HTTP headers beside the body.

use std::sync::Arc;

use rmcp::model::Tool;
use serde_json::{Value, json};

/// The schema keyword that makes an argument a header.
const KEYWORD: &str = "x-mcp-header";

/// The tool, its argument, and what follows `Mcp-Param-` in the header's name: what a policy in front of us wants to
/// see, because with five tools their names alone say little.
const ROUTED: [(&str, &str, &str); 2] = [("read", "address", "Address"), ("call", "tool", "Tool")];

/// Returns the tools with the keyword in their schemas.
///
/// Only clients of the revision that knows it get these: the keyword is outside the subset of JSON Schema that every
/// provider accepts, and an older client would hand it on to one.
pub fn annotated(tools: &[Tool]) -> Vec<Tool> {
    tools.iter().cloned().map(annotate).collect()
}

fn annotate(mut tool: Tool) -> Tool {
    for (name, argument, header) in ROUTED {
        if tool.name != name {
            continue;
        }
        let schema = Arc::make_mut(&mut tool.input_schema);
        let property = schema
            .get_mut("properties")
            .and_then(|properties| properties.get_mut(argument))
            .and_then(Value::as_object_mut);
        if let Some(property) = property {
            property.insert(KEYWORD.to_owned(), json!(header));
        }
    }
    tool
}
