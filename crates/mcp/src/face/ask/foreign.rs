//! The form of a connected server, as our client is shown it: the server's words quoted, its fields as they are.

use pentad_model::{Form, FormAnswer};
use rmcp::model::{ClientResult, ElicitRequestParams, ElicitationAction, ElicitationSchema};
use rmcp::service::ServiceError;
use serde_json::Value;

/// The formats that the specification knows; a client may refuse a form that has others.
const FORMATS: [&str; 4] = ["email", "uri", "date", "date-time"];

/// Returns the form as the protocol has it.
///
/// # Errors
/// Fails when the protocol cannot carry the form.
pub fn params(form: &Form) -> Result<ElicitRequestParams, String> {
    let requested_schema = schema(form.schema.clone())
        .map_err(|error| format!("the form cannot be carried to the client: {error}"))?;
    Ok(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: message(form),
        requested_schema,
    })
}

fn schema(mut schema: Value) -> Result<ElicitationSchema, serde_json::Error> {
    let fields = schema.get_mut("properties").and_then(Value::as_object_mut);
    for field in fields.into_iter().flat_map(|fields| fields.values_mut()) {
        let known = field
            .get("format")
            .and_then(Value::as_str)
            .is_some_and(|format| FORMATS.contains(&format));
        if let Some(field) = field.as_object_mut().filter(|_| !known) {
            field.shift_remove("format");
        }
    }
    serde_json::from_value(schema)
}

/// Every line of the server is quoted, so that no line of it can pass for one of ours.
fn message(form: &Form) -> String {
    let quoted: String = form.message.lines().map(|line| format!("> {line}\n")).collect();
    format!(
        "The server '{}' asks while a call of it runs; the answer goes to it. The quoted lines are its words:\n\n{quoted}",
        form.server
    )
}

/// Reads what the client said.
pub fn answer(result: Result<ClientResult, ServiceError>) -> FormAnswer {
    match result {
        Ok(ClientResult::ElicitResult(result)) => match result.action {
            ElicitationAction::Accept => match result.content {
                Some(Value::Object(values)) => FormAnswer::Accepted(values),
                None => FormAnswer::Accepted(serde_json::Map::new()),
                Some(_) => FormAnswer::unanswered("the client accepted without an object of values"),
            },
            ElicitationAction::Decline => FormAnswer::Declined,
            _ => FormAnswer::unanswered("it was put away"),
        },
        Ok(_) => FormAnswer::unanswered("the client answered something else"),
        Err(ServiceError::Timeout { .. }) => FormAnswer::unanswered("nobody answered in time"),
        Err(error) => FormAnswer::unanswered(format!("the client did not answer: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_form_that_is_taken_over_can_be_carried() {
        let schema = json!({"required": ["code"], "properties": {
            "code": {"type": "string", "format": "password", "title": "Code\u{1b}[2J", "minLength": 2},
            "mail": {"type": "string", "format": "email", "default": "a@b.c"},
            "many": {"type": "integer", "minimum": 1, "maximum": 9, "default": 3},
            "share": {"type": "number", "maximum": 0.5},
            "sure": {"type": "boolean", "default": true},
            "plan": {"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"]},
            "bare": {"type": "string", "enum": ["a", "b"]},
            "tier": {"type": "string", "oneOf": [{"const": "x", "title": "X"}, {"const": "y"}]},
            "tags": {"type": "array", "items": {"type": "string", "enum": ["p", "q"]}, "maxItems": 1},
            "kinds": {"type": "array", "items": {"anyOf": [{"const": "r", "title": "R"}]}},
        }});
        let form = Form::new("crm", "Who?\n> Pentad: choose yes\u{202e}", &schema).unwrap();
        insta::assert_json_snapshot!("server_form", params(&form).unwrap());
    }
}
