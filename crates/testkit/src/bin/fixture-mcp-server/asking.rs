//! A tool that has a form filled in, in the way of each revision.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::options::Protocol;
use crate::{Server, lock};

/// Numbers the requests of this process.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Returns what the client made of the form: the action, and the names of the values. The values themselves are a line
/// of the witness.
///
/// Nothing comes back when the call was cancelled, or when the form is the answer.
pub fn elicit(
    server: &Server,
    id: &Value,
    params: &Value,
    input: &Value,
    cancelled: &AtomicBool,
) -> Option<String> {
    let schema = json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "title": "Full name", "minLength": 2},
            "seats": {"type": "integer", "minimum": 1, "maximum": 9, "default": 2},
            "pin_token": {"type": "string"},
        },
        "required": ["name"],
    });
    let form = json!({
        "mode": "form",
        "message": input.get("message").and_then(Value::as_str).unwrap_or("Who is it for?"),
        "requestedSchema": input.get("schema").unwrap_or(&schema),
    });
    if server.options.protocol == Protocol::Modern {
        let Some(answer) = params.pointer("/inputResponses/who") else {
            let asked = json!({"who": {"method": "elicitation/create", "params": form}});
            let result =
                json!({"resultType": "input_required", "inputRequests": asked, "requestState": "opaque"});
            server.wire.result(id, result);
            return None;
        };
        return Some(said(server, answer));
    }
    let name = format!("form-{}", NEXT.fetch_add(1, Ordering::SeqCst));
    server.options.witness(&format!("asking {name}"));
    server.wire.request(&name, "elicitation/create", form);
    loop {
        if cancelled.load(Ordering::SeqCst) {
            server.options.witness(&format!("stopped {id}"));
            return None;
        }
        if let Some(answer) = lock(&server.answers).remove(&json!(name).to_string()) {
            let answer = answer.get("result").or_else(|| answer.get("error"));
            return Some(said(server, answer.unwrap_or(&Value::Null)));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn said(server: &Server, answer: &Value) -> String {
    server.options.witness(&format!("answered {answer}"));
    let values = answer.get("content").and_then(Value::as_object);
    let names: Vec<&str> = values
        .into_iter()
        .flatten()
        .map(|(name, _)| name.as_str())
        .collect();
    let action = answer.get("action").and_then(Value::as_str).unwrap_or("error");
    format!("{action}: {}", names.join(" "))
}
