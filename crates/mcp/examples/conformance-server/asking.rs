//! Tools that talk to the client while they run, as revisions up to 2025-11-25 have it.
// Sampling and logging are on their way out of the protocol, and in it.
#![allow(deprecated)]

use std::time::Duration;

use rmcp::model::{CallToolResult, LoggingMessageNotificationParam, ProgressNotificationParam};
use rmcp::service::{RequestContext, ServiceError};
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};

use crate::answers::{as_wire, text};

/// What the suite wants between two messages.
const PAUSE: Duration = Duration::from_millis(50);

fn failed(error: ServiceError) -> ErrorData {
    match error {
        ServiceError::McpError(error) => error,
        other => ErrorData::internal_error(other.to_string(), None),
    }
}

/// Runs the tools that talk.
pub async fn answer(
    name: &str,
    arguments: &Value,
    context: &RequestContext<RoleServer>,
) -> Option<Result<CallToolResult, ErrorData>> {
    Some(match name {
        "test_tool_with_logging" => logging(context).await,
        "test_tool_with_progress" => progress(context).await,
        "test_sampling" => sampling(arguments["prompt"].as_str().unwrap_or_default(), context).await,
        "test_elicitation" => {
            let schema = json!({"type": "object", "properties": {
                "username": {"type": "string", "description": "User's response"},
                "email": {"type": "string", "description": "User's email address"}},
                "required": ["username", "email"]});
            let message = arguments["message"].as_str().unwrap_or_default();
            elicit("User response", message, schema, context).await
        }
        "test_elicitation_sep1034_defaults" => {
            elicit(
                "Elicitation completed",
                "Please review these values.",
                defaults(),
                context,
            )
            .await
        }
        "test_elicitation_sep1330_enums" => {
            elicit("Elicitation completed", "Please choose.", choices(), context).await
        }
        _ => return None,
    })
}

async fn logging(context: &RequestContext<RoleServer>) -> Result<CallToolResult, ErrorData> {
    for (n, line) in [
        "Tool execution started",
        "Tool processing data",
        "Tool execution completed",
    ]
    .into_iter()
    .enumerate()
    {
        if n > 0 {
            tokio::time::sleep(PAUSE).await;
        }
        let message: LoggingMessageNotificationParam = as_wire(json!({"level": "info", "data": line}))?;
        context
            .peer
            .notify_logging_message(message)
            .await
            .map_err(failed)?;
    }
    text("Logged three times.")
}

async fn progress(context: &RequestContext<RoleServer>) -> Result<CallToolResult, ErrorData> {
    for done in [0.0, 50.0, 100.0] {
        if done > 0.0 {
            tokio::time::sleep(PAUSE).await;
        }
        if let Some(token) = context.meta.get_progress_token() {
            let param = ProgressNotificationParam::new(token, done).with_total(100.0);
            context.peer.notify_progress(param).await.map_err(failed)?;
        }
    }
    text("Reported three times.")
}

async fn sampling(prompt: &str, context: &RequestContext<RoleServer>) -> Result<CallToolResult, ErrorData> {
    let params = as_wire(json!({"maxTokens": 100,
        "messages": [{"role": "user", "content": {"type": "text", "text": prompt}}]}))?;
    let said = context.peer.create_message(params).await.map_err(failed)?;
    let said = serde_json::to_value(said).unwrap_or_default();
    text(format!(
        "LLM response: {}",
        said["content"]["text"].as_str().unwrap_or_default()
    ))
}

async fn elicit(
    begin: &str,
    message: &str,
    schema: Value,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResult, ErrorData> {
    let params = as_wire(json!({"mode": "form", "message": message, "requestedSchema": schema}))?;
    let answer = context.peer.create_elicitation(params).await.map_err(failed)?;
    let answer = serde_json::to_value(answer).unwrap_or_default();
    text(format!(
        "{begin}: action={}, content={}",
        answer["action"].as_str().unwrap_or_default(),
        answer["content"]
    ))
}

fn defaults() -> Value {
    json!({"type": "object", "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": true}}})
}

fn choices() -> Value {
    let plain = json!(["option1", "option2", "option3"]);
    let titled = |noun: &str| {
        json!([
            {"const": "value1", "title": format!("First {noun}")},
            {"const": "value2", "title": format!("Second {noun}")},
            {"const": "value3", "title": format!("Third {noun}")},
        ])
    };
    json!({"type": "object", "properties": {
        "untitledSingle": {"type": "string", "enum": plain},
        "titledSingle": {"type": "string", "oneOf": titled("Option")},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled("Choice")}}}})
}
