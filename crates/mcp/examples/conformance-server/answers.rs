//! Tools that answer at once, and what all answers are made of.

use rmcp::ErrorData;
use rmcp::model::CallToolResult;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// One red pixel.
pub const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
/// No sample at all.
const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";

/// Reads what the protocol calls it out of how it looks on the wire.
pub fn as_wire<T: DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value)
        .map_err(|error| ErrorData::internal_error(format!("the fixture is wrong: {error}"), None))
}

/// The same for a result. rmcp takes the type off again where a revision does not have it.
pub fn complete<T: DeserializeOwned>(mut result: Value) -> Result<T, ErrorData> {
    result["resultType"] = json!("complete");
    as_wire(result)
}

pub fn text(text: impl Into<String>) -> Result<CallToolResult, ErrorData> {
    complete(json!({"content": [{"type": "text", "text": text.into()}]}))
}

/// Answers the tools that need nothing from the client.
pub fn answer(name: &str) -> Option<Result<CallToolResult, ErrorData>> {
    let image = json!({"type": "image", "data": PNG, "mimeType": "image/png"});
    let content = match name {
        "test_simple_text" => {
            json!([{"type": "text", "text": "This is a simple text response for testing."}])
        }
        "test_image_content" => json!([image]),
        "test_audio_content" => json!([{"type": "audio", "data": WAV, "mimeType": "audio/wav"}]),
        "test_embedded_resource" => json!([{"type": "resource", "resource": {
            "uri": "test://embedded-resource", "mimeType": "text/plain",
            "text": "This is an embedded resource content."}}]),
        "test_multiple_content_types" => json!([
            {"type": "text", "text": "Multiple content types test:"},
            image,
            {"type": "resource", "resource": {
                "uri": "test://mixed-content-resource", "mimeType": "application/json",
                "text": "{\"test\":\"data\",\"value\":123}"}},
        ]),
        "json_schema_2020_12_tool" | "test_parameter_headers" => json!([{"type": "text", "text": "Taken."}]),
        "test_error_handling" => {
            let text = "This tool intentionally returns an error for testing";
            return Some(complete(
                json!({"isError": true, "content": [{"type": "text", "text": text}]}),
            ));
        }
        _ => return None,
    };
    Some(complete(json!({"content": content})))
}
