//! The answers to `initialize`, `server/discover` and `tools/list`.

use serde_json::{Value, json};

use crate::options::Protocol;
use crate::{Server, lock};

/// Answers `initialize`, agreeing to whatever dated version below 2026-07-28 was asked for.
pub fn initialize(params: &Value) -> Value {
    let asked = params
        .get("protocolVersion")
        .and_then(Value::as_str)
        .unwrap_or("2025-06-18");
    let agreed = if asked < "2026-07-28" { asked } else { "2025-11-25" };
    json!({
        "protocolVersion": agreed,
        "capabilities": {"tools": {"listChanged": true}},
        "serverInfo": {"name": "fixture-mcp-server", "version": "1.0.0"},
        "instructions": "A server for tests.",
    })
}

/// Answers `server/discover`.
pub fn discover() -> Value {
    json!({
        "resultType": "complete",
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {"listChanged": true}},
        "ttlMs": 1000,
        "cacheScope": "private",
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "fixture-mcp-server", "version": "1.0.0"}},
    })
}

/// Answers `tools/list` as JSON text, page by page.
pub fn tools_list(server: &Server, params: &Value) -> String {
    let options = &server.options;
    let mut tools = plain_tools();
    tools.extend(
        lock(&server.added)
            .iter()
            .map(|name| tool(name, "Added while running.")),
    );
    tools.extend((0..options.many).map(|number| tool(&format!("tool_{number:05}"), "One of many.")));
    if options.odd_names {
        tools.extend(odd_names().iter().map(|name| tool(name, "Has an unusual name.")));
    }
    if options.odd_schemas {
        tools.extend(odd_schemas());
    }
    if options.broken_tool {
        tools.push(json!({"name": "no_schema", "description": "Names no input schema."}));
        tools.push(json!({"description": "Has no name."}));
        tools.push(json!("not an object"));
    }
    let start = params
        .get("cursor")
        .and_then(Value::as_str)
        .and_then(|text| text.parse().ok())
        .unwrap_or(0);
    let end = tools.len().min(options.page_size.saturating_add(start));
    let mut page = json!({"tools": tools.get(start..end).unwrap_or_default()});
    if options.endless_pages {
        page["nextCursor"] = json!((start + 1).to_string());
    } else if end < tools.len() {
        page["nextCursor"] = json!(end.to_string());
    }
    if options.protocol == Protocol::Modern {
        page["resultType"] = json!("complete");
        page["ttlMs"] = json!(0);
        page["cacheScope"] = json!("private");
    }
    page.to_string()
}

/// Answers `resources/read` of the one resource there is.
pub fn memo() -> Value {
    json!({"contents": [{"uri": "memo://one", "mimeType": "text/plain", "text": "a memo"}]})
}

/// Names that the protocol allows or that servers in the wild use.
pub fn odd_names() -> Vec<String> {
    vec![
        "n".repeat(128),
        "files/read.text-v2_final".to_owned(),
        "größe_写文件".to_owned(),
        "a b%c?d#e".to_owned(),
    ]
}

fn tool(name: &str, description: &str) -> Value {
    json!({"name": name, "description": description, "inputSchema": {"type": "object"}})
}

fn plain_tools() -> Vec<Value> {
    let mut echo = tool("echo", "Returns its text.");
    echo["inputSchema"] = json!({
        "type": "object",
        "properties": {"text": {"type": "string", "description": "What to return."}},
        "required": ["text"],
    });
    echo["annotations"] = json!({"readOnlyHint": true, "idempotentHint": true, "openWorldHint": false});
    echo["title"] = json!("Echo");
    let mut effect = tool("effect", "Appends a line to the witness file.");
    effect["annotations"] = json!({"readOnlyHint": false, "destructiveHint": true});
    let mut tools = vec![echo, effect];
    let rest = [
        ("sleep", "Waits, reporting progress."),
        ("die", "Ends the process without an answer."),
        ("add_tool", "Adds a tool and says so."),
        ("huge", "Returns a very long text."),
        ("image", "Returns a picture."),
        ("audio", "Returns a sound."),
        ("resource", "Returns an embedded resource."),
        ("blob", "Returns an embedded binary resource."),
        ("link", "Returns a resource link."),
        ("structured", "Returns structured content."),
        ("surrogate", "Returns a lone surrogate."),
        ("reference", "Returns text and structure with $ref."),
        ("control", "Returns control characters."),
        ("unknown_block", "Returns a content type of the future."),
        ("fail", "Returns an error result."),
        ("rpc_error", "Returns a JSON-RPC error."),
        ("bare", "Returns a result without content."),
        ("input_required", "Asks for input by result."),
        ("ask", "Sends requests to the client and returns what came back."),
        ("elicit", "Has a form filled in."),
        ("grandchild", "Leaves a detached process behind."),
        ("stderr", "Writes to stderr."),
        ("bad_lines", "Writes unreadable lines before its answer."),
        ("environment", "Returns one variable of the environment."),
        ("odd_notifications", "Sends notifications that nobody knows."),
    ];
    tools.extend(rest.iter().map(|(name, description)| tool(name, description)));
    tools
}

fn odd_schemas() -> Vec<Value> {
    let schemas = [
        (
            "schema_ref",
            json!({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties": {
            "next": {"$ref": "#/$defs/node"}}}}}),
        ),
        (
            "schema_any_of",
            json!({"anyOf": [{"type": "object"}, {"type": "null"}]}),
        ),
        ("schema_no_type", json!({})),
        (
            "schema_nullable",
            json!({"type": ["object", "null"], "properties": {
            "uri": {"type": "string", "format": "uri"}}, "additionalProperties": false}),
        ),
        (
            "schema_remote",
            json!({"$ref": "https://example.invalid/schema.json"}),
        ),
    ];
    schemas
        .into_iter()
        .map(|(name, schema)| json!({"name": name, "description": "Has an unusual schema.", "inputSchema": schema}))
        .collect()
}
