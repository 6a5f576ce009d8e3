//! What each tool of the fixture server does.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::options::Protocol;
use crate::{Server, lock};

/// Runs one call and writes its answer.
pub fn run(server: &Server, id: &Value, params: &Value, cancelled: &AtomicBool) {
    let name = params.get("name").and_then(Value::as_str).unwrap_or_default();
    let input = params.get("arguments").cloned().unwrap_or(Value::Null);
    if params.pointer("/_meta/progressToken").is_none() {
        server.options.witness("call without progress token");
    }
    match name {
        "sleep" => sleep(server, id, params, &input, cancelled),
        "die" => die(server, &input),
        "add_tool" => add_tool(server, id, &input),
        "huge" => server.wire.huge_result(id, number(&input, "bytes", 100 << 20)),
        "ask" => ask(server, id),
        "elicit" => {
            if let Some(said) = crate::asking::elicit(server, id, params, &input, cancelled) {
                answer(server, id, text(&said));
            }
        }
        "rpc_error" => server.wire.error(id, -32000, "the fixture refuses"),
        "surrogate" => server.wire.raw_result(
            id,
            r#"{"content":[{"type":"text","text":"lone \ud800 and pair \ud83d\ude00 and \udc00"}]}"#,
        ),
        "control" => server.wire.raw_result(
            id,
            r#"{"content":[{"type":"text","text":"bell \u0007 nul \u0000 escape \u001b[31mred\u001b[0m"}]}"#,
        ),
        "bare" => server.wire.result(id, json!({})),
        "input_required" => server.wire.result(
            id,
            json!({"resultType": "input_required", "inputRequests": {}, "requestState": "opaque"}),
        ),
        "bad_lines" => {
            server.wire.garbage(number(&input, "count", 3));
            server.wire.line(b"{\"jsonrpc\":\"2.0\",\"id\":");
            server.wire.line(b"\xff\xfe\x00 binary");
            server.wire.line(b"{\"jsonrpc\":\"2.0\",\"surprise\":true}");
            answer(server, id, text("after bad lines"));
        }
        "odd_notifications" => {
            for number in 0..3 {
                server
                    .wire
                    .notify("notifications/from/the/future", json!({"number": number}));
            }
            server.wire.notify("window/logMessage", json!({"type": 3}));
            answer(server, id, text("after odd notifications"));
        }
        _ => match quick(server, name, &input) {
            Some(result) => answer(server, id, result),
            None => server.wire.error(id, -32602, &format!("unknown tool {name}")),
        },
    }
}

/// Answers tools that need nothing but their input.
fn quick(server: &Server, name: &str, input: &Value) -> Option<Value> {
    let block = |block: Value| json!({"content": [block]});
    Some(match name {
        "echo" => text(input.get("text").and_then(Value::as_str).unwrap_or_default()),
        "effect" => {
            server.options.witness("effect");
            text("done")
        }
        "image" => block(json!({"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"})),
        "audio" => block(json!({"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"})),
        "resource" => block(json!({"type": "resource", "resource": {
            "uri": "memo://one", "mimeType": "text/plain", "text": "embedded"}})),
        "blob" => block(json!({"type": "resource", "resource": {
            "uri": "memo://two", "mimeType": "application/octet-stream", "blob": "AAEC"}})),
        "link" => block(
            json!({"type": "resource_link", "uri": "memo://three", "name": "three", "mimeType": "text/plain"}),
        ),
        "structured" => {
            json!({"content": [{"type": "text", "text": "{\"n\":1}"}], "structuredContent": {"n": 1}})
        }
        "reference" => json!({
            "content": [{"type": "text", "text": "{\"$ref\":\"#/definitions/loop\"}"}],
            "structuredContent": {"$ref": "#/definitions/loop", "$defs": {}},
        }),
        "unknown_block" => json!({"content": [
            {"type": "hologram", "shape": "cube"}, {"type": "text", "text": "beside it"}]}),
        "fail" => json!({"content": [{"type": "text", "text": "no such row"}], "isError": true}),
        "stderr" => {
            eprintln!(
                "{}",
                input
                    .get("text")
                    .and_then(Value::as_str)
                    .unwrap_or("a line on stderr")
            );
            text("written")
        }
        "environment" => {
            let name = input.get("name").and_then(Value::as_str).unwrap_or_default();
            text(&std::env::var(name).unwrap_or_else(|_| "unset".to_owned()))
        }
        "grandchild" => text(&grandchild(server)),
        _ => added_or_odd(server, name)?,
    })
}

fn added_or_odd(server: &Server, name: &str) -> Option<Value> {
    let known = lock(&server.added).iter().any(|added| added == name)
        || name.starts_with("tool_")
        || name.starts_with("schema_")
        || name == "no_schema"
        || crate::replies::odd_names().iter().any(|odd| odd == name);
    known.then(|| text(&format!("called {name}")))
}

fn answer(server: &Server, id: &Value, mut result: Value) {
    if server.options.protocol == Protocol::Modern {
        result["resultType"] = json!("complete");
    }
    server.wire.result(id, result);
}

fn text(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

fn number(input: &Value, key: &str, default: u64) -> u64 {
    input.get(key).and_then(Value::as_u64).unwrap_or(default)
}

/// Waits `ms`, reporting every `every_ms`, until the call is cancelled.
fn sleep(server: &Server, id: &Value, params: &Value, input: &Value, cancelled: &AtomicBool) {
    server.options.witness(&format!("sleeping {id}"));
    let token = params.pointer("/_meta/progressToken").cloned();
    let total = number(input, "ms", 1_000);
    let every = Duration::from_millis(number(input, "every_ms", 0));
    let start = Instant::now();
    let mut reported = Instant::now();
    while start.elapsed() < Duration::from_millis(total) {
        if cancelled.load(Ordering::SeqCst) {
            server.options.witness(&format!("stopped {id}"));
            return;
        }
        if let Some(token) = token
            .as_ref()
            .filter(|_| !every.is_zero() && reported.elapsed() >= every)
        {
            reported = Instant::now();
            server.wire.notify(
                "notifications/progress",
                json!({"progressToken": token, "progress": start.elapsed().as_millis() as u64, "total": total,
                    "message": "still sleeping"}),
            );
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    server.options.witness(&format!("slept {id}"));
    answer(server, id, text("slept"));
}

/// Ends the process, after an effect if asked; `once` names a file that makes it survive the second time.
fn die(server: &Server, input: &Value) {
    server.options.witness("die");
    if input.get("effect").and_then(Value::as_bool) == Some(true) {
        server.options.witness("effect");
    }
    std::process::exit(3);
}

fn add_tool(server: &Server, id: &Value, input: &Value) {
    let name = input
        .get("name")
        .and_then(Value::as_str)
        .unwrap_or("added")
        .to_owned();
    lock(&server.added).push(name);
    let mut params = json!({});
    if let Some(subscription) = lock(&server.subscription).as_ref() {
        params = json!({"_meta": {"io.modelcontextprotocol/subscriptionId": subscription}});
    }
    server.wire.notify("notifications/tools/list_changed", params);
    answer(server, id, text("added"));
}

/// Sends the client requests it did not declare, and returns its answers.
fn ask(server: &Server, id: &Value) {
    let questions = [
        "ping",
        "roots/list",
        "sampling/createMessage",
        "elicitation/create",
        "from/the/future",
    ];
    for question in questions {
        server.wire.request(
            question,
            question,
            match question {
                "sampling/createMessage" => json!({"messages": [], "maxTokens": 1}),
                "elicitation/create" => {
                    json!({"message": "who?", "requestedSchema": {"type": "object", "properties": {}}})
                }
                _ => json!({}),
            },
        );
    }
    let deadline = Instant::now() + Duration::from_secs(10);
    let mut seen = serde_json::Map::new();
    while seen.len() < questions.len() && Instant::now() < deadline {
        for question in questions {
            if let Some(answer) = lock(&server.answers).remove(&json!(question).to_string()) {
                let outcome = match answer.pointer("/error/code") {
                    Some(code) => code.clone(),
                    None => json!("answered"),
                };
                seen.insert(question.to_owned(), outcome);
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let mut ordered = serde_json::Map::new();
    for question in questions {
        ordered.insert(question.to_owned(), seen.remove(question).unwrap_or(Value::Null));
    }
    answer(server, id, text(&Value::Object(ordered).to_string()));
}

/// Starts a process in a session of its own whose parent ends at once; returns its process id.
fn grandchild(server: &Server) -> String {
    let started = Command::new("sh")
        .args(["-c", "setsid sleep 600 >/dev/null 2>&1 </dev/null & echo $!"])
        .stdin(Stdio::null())
        .output();
    let pid = match started {
        Ok(output) => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        Err(error) => format!("failed: {error}"),
    };
    server.options.witness(&format!("grandchild {pid}"));
    pid
}
