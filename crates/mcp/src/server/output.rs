//! From a server's result to a tool's output.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use pentad_program::{Content, ToolOutput};
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents, ServerResult};
use serde::Deserialize as _;
use serde_json::Value;

/// Takes over any answer to `tools/call`; strings stay what they are, whatever they contain.
///
/// # Errors
/// Says in a sentence why the answer is none.
pub fn tool_output(result: ServerResult) -> Result<ToolOutput, String> {
    match result {
        ServerResult::CallToolResult(result) => Ok(typed(result)),
        ServerResult::EmptyResult(_) | ServerResult::TaskAckResult(_) => Ok(ToolOutput::default()),
        ServerResult::InputRequiredResult(_) => Err(
            "the server asks for further input in the middle of the call, which it was not offered; call the tool with complete input"
                .to_owned(),
        ),
        ServerResult::CreateTaskResult(_) => {
            Err("the server started a task of its own, which it was not offered; its result cannot be fetched".to_owned())
        }
        ServerResult::CustomResult(custom) => Ok(lenient(custom.0)),
        // A result with more members than the protocol names can be taken for another kind of answer.
        other => match serde_json::to_value(&other) {
            Ok(value) => Ok(lenient(value)),
            Err(error) => Err(format!("the server's result cannot be read: {error}")),
        },
    }
}

/// Takes over any answer to `resources/read`.
///
/// # Errors
/// Says in a sentence why the answer is none.
pub fn resource_contents(result: ServerResult) -> Result<Vec<Content>, String> {
    match result {
        ServerResult::ReadResourceResult(result) => Ok(result.contents.into_iter().map(resource).collect()),
        ServerResult::InputRequiredResult(_) => Err(
            "the server asks for further input before it shows the resource, which it was not offered"
                .to_owned(),
        ),
        _ => Err("the server answered with something else than a resource".to_owned()),
    }
}

fn typed(result: CallToolResult) -> ToolOutput {
    ToolOutput {
        is_error: result.is_error.unwrap_or(false),
        content: result.content.into_iter().map(block).collect(),
        structured: result.structured_content,
        ..ToolOutput::default()
    }
}

/// Reads what the types refuse, for example a kind of content that did not exist when this was built.
fn lenient(value: Value) -> ToolOutput {
    let Value::Object(mut object) = value else {
        return ToolOutput {
            structured: Some(value),
            ..ToolOutput::default()
        };
    };
    let content = match object.remove("content") {
        Some(Value::Array(blocks)) => blocks.iter().map(lenient_block).collect(),
        Some(Value::String(text)) => vec![Content::Text(text)],
        Some(other) => vec![Content::Text(other.to_string())],
        None => Vec::new(),
    };
    let is_error = object
        .remove("isError")
        .and_then(|flag| flag.as_bool())
        .unwrap_or(false);
    let structured = object.remove("structuredContent").or_else(|| {
        object.remove("_meta");
        object.remove("resultType");
        (content.is_empty() && !object.is_empty()).then_some(Value::Object(object))
    });
    ToolOutput {
        is_error,
        content,
        structured,
        ..ToolOutput::default()
    }
}

fn lenient_block(value: &Value) -> Content {
    match ContentBlock::deserialize(value) {
        Ok(known) => block(known),
        Err(_) => Content::Text(value.to_string()),
    }
}

/// Takes over one block of content.
pub fn block(block: ContentBlock) -> Content {
    match block {
        ContentBlock::Text(text) => Content::Text(text.text),
        ContentBlock::Image(image) => match BASE64_STANDARD.decode(&image.data) {
            Ok(data) => Content::Image {
                mime: image.mime_type,
                data,
            },
            Err(_) => undecodable(&image.mime_type),
        },
        ContentBlock::Audio(audio) => match BASE64_STANDARD.decode(&audio.data) {
            Ok(data) => Content::Audio {
                mime: audio.mime_type,
                data,
            },
            Err(_) => undecodable(&audio.mime_type),
        },
        ContentBlock::Resource(embedded) => resource(embedded.resource),
        ContentBlock::ResourceLink(link) => Content::Link {
            title: link.title.or(Some(link.name)).filter(|title| !title.is_empty()),
            uri: link.uri,
            mime: link.mime_type,
        },
        other => Content::Text(serde_json::to_string(&other).unwrap_or_default()),
    }
}

fn resource(contents: ResourceContents) -> Content {
    match contents {
        ResourceContents::TextResourceContents {
            uri, mime_type, text, ..
        } => Content::Resource {
            uri,
            mime: mime_type,
            data: text.into_bytes(),
            text: true,
        },
        ResourceContents::BlobResourceContents {
            uri, mime_type, blob, ..
        } => match BASE64_STANDARD.decode(&blob) {
            Ok(data) => Content::Resource {
                uri,
                mime: mime_type,
                data,
                text: false,
            },
            Err(_) => undecodable(mime_type.as_deref().unwrap_or("a resource")),
        },
        other => Content::Text(serde_json::to_string(&other).unwrap_or_default()),
    }
}

fn undecodable(what: &str) -> Content {
    Content::Text(format!("({what} that is no valid base64 was left out)"))
}
