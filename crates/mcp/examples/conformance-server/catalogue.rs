//! The tools by name, with what they take.

use std::sync::LazyLock;

use rmcp::model::Tool;
use serde_json::{Value, json};

/// Tools without arguments.
const PLAIN: [(&str, &str); 23] = [
    ("test_simple_text", "Returns a text."),
    ("test_image_content", "Returns an image."),
    ("test_audio_content", "Returns a sound."),
    ("test_embedded_resource", "Returns a resource."),
    (
        "test_multiple_content_types",
        "Returns contents of several kinds.",
    ),
    ("test_error_handling", "Always fails."),
    ("test_tool_with_logging", "Sends three log messages."),
    ("test_logging_tool", "Sends a log message if one is wanted."),
    ("test_tool_with_progress", "Reports progress three times."),
    ("test_elicitation_sep1034_defaults", "Asks with default values."),
    ("test_elicitation_sep1330_enums", "Asks with choices."),
    ("test_missing_capability", "Needs sampling."),
    ("test_streaming_elicitation", "Asks in its result."),
    ("test_trigger_tool_change", "Says that the tools have changed."),
    (
        "test_trigger_prompt_change",
        "Says that the prompts have changed.",
    ),
    ("test_input_required_result_elicitation", "Asks for a name."),
    ("test_input_required_result_sampling", "Asks for a completion."),
    ("test_input_required_result_list_roots", "Asks for roots."),
    (
        "test_input_required_result_request_state",
        "Asks and keeps a state.",
    ),
    (
        "test_input_required_result_multiple_inputs",
        "Asks for three things at once.",
    ),
    ("test_input_required_result_multi_round", "Asks twice."),
    (
        "test_input_required_result_tampered_state",
        "Asks and checks its state.",
    ),
    (
        "test_input_required_result_capabilities",
        "Asks for what the client can give.",
    ),
];

static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(|| {
    let plain = PLAIN
        .iter()
        .map(|(name, about)| json!({"name": name, "description": about, "inputSchema": {"type": "object"}}));
    plain
        .chain(with_arguments())
        .filter_map(|tool| serde_json::from_value(tool).ok())
        .collect()
});

fn with_arguments() -> [Value; 4] {
    let one = |name: &str, about: &str, argument: &str| {
        json!({"name": name, "description": about, "inputSchema": {
            "type": "object", "properties": {argument: {"type": "string"}}, "required": [argument]}})
    };
    [
        one("test_sampling", "Asks the client's model.", "prompt"),
        one("test_elicitation", "Asks the client's user.", "message"),
        json!({"name": "test_parameter_headers", "description": "Has its argument in a header, too.", "inputSchema": {
            "type": "object",
            "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}}),
        json!({"name": "json_schema_2020_12_tool", "description": "Tool with JSON Schema 2020-12 features",
            "inputSchema": {
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "type": "object",
                "$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": {
                    "street": {"type": "string"}, "city": {"type": "string"}}}},
                "properties": {
                    "name": {"type": "string"},
                    "address": {"$ref": "#/$defs/address"},
                    "contactMethod": {"type": "string", "enum": ["phone", "email"]},
                    "phone": {"type": "string"},
                    "email": {"type": "string"}},
                "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
                "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
                "then": {"required": ["phone"]},
                "else": {"required": ["email"]},
                "additionalProperties": false}}),
    ]
}

pub fn tools() -> &'static [Tool] {
    &TOOLS
}

pub fn tool(name: &str) -> Option<Tool> {
    TOOLS.iter().find(|tool| tool.name == name).cloned()
}
