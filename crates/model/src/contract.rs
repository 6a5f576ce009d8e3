//! The five contracts that clients and providers see: fixed, and within 6,000 bytes together.
//!
//! Only the keywords `type` (single), `description`, `properties`, `required`, `enum` and `items` are used: the subset
//! that function calling of OpenAI, Anthropic and Gemini accepts without strict mode. Strictness is ours, at parse.

use serde_json::{Value, json};

use crate::verb::Verb;

/// Most bytes that the five tools may take as JSON, annotations included.
pub const MAX_PAYLOAD_BYTES: usize = 6_000;

/// Returns the argument names of a verb.
#[must_use]
pub const fn arguments(verb: Verb) -> &'static [&'static str] {
    match verb {
        Verb::Read => &["address", "format", "options"],
        Verb::Write => &["address", "content", "options", "dryRun"],
        Verb::Call => &["tool", "input", "thread"],
        Verb::Delegate => &[
            "title", "brief", "script", "recipe", "input", "agentId", "tools", "output", "budget", "await",
            "thread",
        ],
        Verb::Plan => &["title", "steps", "thread"],
    }
}

/// Returns the description that a model reads.
#[must_use]
pub const fn description(verb: Verb) -> &'static str {
    match verb {
        Verb::Read => {
            "Read anything by address. ~/tools/ lists every tool you can call (options.query searches); \
             ~/tools/<source>/<name> is one tool's contract. ~/memory/<path> your files (trailing / lists). ~/self. \
             thread: and thread:<id> conversations. run: and run:<id>[/journal|/output|/artifacts/<name>]. \
             activity: what happened. approval:. attachment:<cid>. file:<path> in the workspace. https://… as Markdown. \
             mcp:<server>/<uri>. Long results are cut and say how to read the rest with options lines, bytes or grep."
        }
        Verb::Write => {
            "Write an address. ~/memory/<path>: content replaces the file (options: delete, fromUrl, fromAttachment). \
             ~/tools/<name>: content is a recipe that becomes a tool, as Markdown with front matter or JSON \
             {description, template, args}; read ~/tools/write for the format (options: delete). file:<path> where granted. \
             Unknown options are refused. dryRun checks everything and changes nothing."
        }
        Verb::Call => {
            "Call a tool by name or source/name, as found with read ~/tools/. If you have not seen its contract, or input \
             does not fit, the contract comes back as the result: then call again. A refusal names the next step."
        }
        Verb::Delegate => {
            "Start a child run: a recipe by tool name with its input, a brief for an agent, or a script. Waits for the \
             result unless await is false; then read run:<id> later. Returns status, runId, and output or error."
        }
        Verb::Plan => {
            "Replace your plan: the whole list of steps each time. Children delegated while exactly one step is running \
             attach to it. The result names the thread; pass it back to keep one plan."
        }
    }
}

/// Returns the JSON Schema of a verb's arguments.
#[must_use]
pub fn input_schema(verb: Verb) -> Value {
    let text = |d: &str| json!({"type": "string", "description": d});
    match verb {
        Verb::Read => json!({"type": "object", "properties": {
            "address": text("What to read, for example ~/tools/ or file:README.md"),
            "format": {"type": "string", "enum": ["markdown", "json"]},
            "options": {"type": "object", "description": "lines, bytes, grep; per address: query, limit, after, source, \
                tools, raw, actor, since, …"}
        }, "required": ["address"]}),
        Verb::Write => json!({"type": "object", "properties": {
            "address": text("What to write"),
            "content": text("The whole new content"),
            "options": {"type": "object", "description": "delete, fromUrl, fromAttachment, tool"},
            "dryRun": {"type": "boolean"}
        }, "required": ["address"]}),
        Verb::Call => json!({"type": "object", "properties": {
            "tool": text("name or source/name"),
            "input": {"type": "object", "description": "The tool's input, as its contract says"},
            "thread": text("Handle from plan or delegate")
        }, "required": ["tool"]}),
        Verb::Delegate => json!({"type": "object", "properties": {
            "title": text("For lists"),
            "brief": text("The task, complete in itself"),
            "script": text("JavaScript source or its address"),
            "recipe": text("Tool name of a recipe"),
            "input": {"type": "object", "description": "Input of the recipe or script"},
            "agentId": text("Another agent"),
            "tools": {"type": "array", "items": {"type": "string"}, "description": "Tools the child may call"},
            "output": {"type": "object", "description": "JSON Schema of the result it owes"},
            "budget": {"type": "object", "description": "wallSeconds, tokens, costUsd, children, depth"},
            "await": {"type": "boolean", "description": "Default true"},
            "thread": text("Handle from plan or delegate")
        }}),
        Verb::Plan => json!({"type": "object", "properties": {
            "title": text("What the plan is for"),
            "steps": {"type": "array", "items": {"type": "object", "properties": {
                "id": text("Stable id"),
                "label": text("What is done"),
                "status": {"type": "string", "enum": ["pending", "running", "done", "failed", "skipped"]}
            }, "required": ["id", "label", "status"]}},
            "thread": text("Handle from an earlier plan")
        }, "required": ["steps"]}),
    }
}

/// Returns MCP's annotations of a verb: a hint for the client's own prompts.
#[must_use]
pub fn annotations(verb: Verb) -> Value {
    let read_only = matches!(verb, Verb::Read);
    json!({
        "title": verb.name(),
        "readOnlyHint": read_only,
        "destructiveHint": matches!(verb, Verb::Write | Verb::Call | Verb::Delegate),
        "idempotentHint": matches!(verb, Verb::Read | Verb::Plan),
        "openWorldHint": !matches!(verb, Verb::Plan),
    })
}

/// Returns the five tools as `tools/list` shows them, in order.
#[must_use]
pub fn tools() -> Vec<Value> {
    Verb::ALL
        .into_iter()
        .map(|verb| {
            json!({
                "name": verb.name(),
                "description": description(verb),
                "inputSchema": input_schema(verb),
                "annotations": annotations(verb),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keywords(value: &Value, inside_properties: bool, found: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                for (key, inner) in map {
                    if !inside_properties {
                        found.push(key.clone());
                    }
                    keywords(inner, key == "properties" && !inside_properties, found);
                }
            }
            Value::Array(list) => list.iter().for_each(|inner| keywords(inner, false, found)),
            _ => {}
        }
    }

    #[test]
    fn the_payload_stays_within_its_budget() {
        let bytes = serde_json::to_vec(&tools()).unwrap().len();
        assert!(bytes <= MAX_PAYLOAD_BYTES, "{bytes} bytes");
    }

    #[test]
    fn n05_only_keywords_that_every_provider_accepts() {
        let allowed = ["type", "description", "properties", "required", "enum", "items"];
        for verb in Verb::ALL {
            let mut found = Vec::new();
            keywords(&input_schema(verb), false, &mut found);
            assert!(
                found.iter().all(|k| allowed.contains(&k.as_str())),
                "{verb}: {found:?}"
            );
        }
    }

    #[test]
    fn schemas_declare_exactly_the_arguments_that_are_parsed() {
        for verb in Verb::ALL {
            let schema = input_schema(verb);
            let names: Vec<&str> = schema["properties"]
                .as_object()
                .unwrap()
                .keys()
                .map(String::as_str)
                .collect();
            assert_eq!(names, arguments(verb), "{verb}");
        }
    }

    #[test]
    fn n14_only_read_is_annotated_read_only() {
        for verb in Verb::ALL {
            assert_eq!(
                annotations(verb)["readOnlyHint"],
                json!(verb == Verb::Read),
                "{verb}"
            );
        }
    }

    #[test]
    fn the_tool_list_is_what_the_golden_file_says() {
        insta::assert_json_snapshot!(tools());
    }
}
