//! Tools that ask in their result and are called again with the answers, as 2026-07-28 has it.

use std::sync::Arc;

use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientCapabilities, GetPromptRequestParams, GetPromptResponse,
    InputRequiredResult, InputResponses, RequestStateCodec, RequestStateError,
};
use serde_json::{Value, json};

use crate::answers::{as_wire, complete, text};

/// Seals what a tool wants to know again.
#[derive(Clone)]
pub struct States(Arc<RequestStateCodec>);

impl States {
    /// Seals with a key that everybody may know: what is sealed here is no secret.
    pub fn new() -> Result<Self, RequestStateError> {
        let codec = RequestStateCodec::try_new(*b"a key for tests, known to everybody who reads it")?;
        Ok(Self(Arc::new(codec)))
    }

    fn seal(&self, state: &str) -> String {
        self.0.seal(state.as_bytes())
    }

    /// Opens a state that came back; one that was touched is an error, one that is not there is nothing.
    fn open(&self, sealed: Option<&String>) -> Result<Option<String>, ErrorData> {
        let Some(sealed) = sealed else { return Ok(None) };
        let opened = self.0.open(sealed).map_err(|error| {
            ErrorData::invalid_params(
                format!("requestState is not what this server gave out: {error}"),
                None,
            )
        })?;
        Ok(Some(String::from_utf8_lossy(&opened).into_owned()))
    }
}

fn form(message: &str, field: &str, kind: &str) -> Value {
    json!({"method": "elicitation/create", "params": {"mode": "form", "message": message, "requestedSchema": {
        "type": "object", "properties": {field: {"type": kind}}, "required": [field]}}})
}

fn sample(prompt: &str, tokens: u32) -> Value {
    json!({"method": "sampling/createMessage", "params": {"maxTokens": tokens,
        "messages": [{"role": "user", "content": {"type": "text", "text": prompt}}]}})
}

fn roots() -> Value {
    json!({"method": "roots/list", "params": {}})
}

fn ask(requests: Value, state: Option<String>) -> Result<InputRequiredResult, ErrorData> {
    Ok(InputRequiredResult::new(Some(as_wire(requests)?), state))
}

/// Returns a field of an accepted form.
fn field(responses: Option<&InputResponses>, key: &str, field: &str) -> Option<Value> {
    let response = responses?.get(key)?;
    (response["action"] == "accept")
        .then(|| response["content"][field].clone())
        .filter(|value| !value.is_null())
}

fn has(responses: Option<&InputResponses>, key: &str, member: &str) -> bool {
    responses
        .and_then(|all| all.get(key))
        .is_some_and(|response| response.get(member).is_some())
}

/// Runs the tools that ask.
pub fn answer(
    request: &CallToolRequestParams,
    capabilities: &ClientCapabilities,
    states: &States,
) -> Option<Result<CallToolResponse, ErrorData>> {
    let responses = request.input_responses.as_ref();
    let asked: Result<InputRequiredResult, ErrorData> = match &*request.name {
        "test_input_required_result_elicitation" => match field(responses, "user_name", "name") {
            Some(name) => return said(&format!("Hello, {}!", name.as_str().unwrap_or_default())),
            None => ask(
                json!({"user_name": form("What is your name?", "name", "string")}),
                None,
            ),
        },
        "test_streaming_elicitation" => ask(
            json!({"user_name": form("What is your name?", "name", "string")}),
            None,
        ),
        "test_input_required_result_sampling" => {
            match responses.and_then(|all| all.get("capital_question")) {
                Some(answer) => return said(answer["content"]["text"].as_str().unwrap_or_default()),
                None => ask(
                    json!({"capital_question": sample("What is the capital of France?", 100)}),
                    None,
                ),
            }
        }
        "test_input_required_result_list_roots" => match responses.and_then(|all| all.get("client_roots")) {
            Some(answer) => return said(&format!("Roots: {}", answer["roots"])),
            None => ask(json!({"client_roots": roots()}), None),
        },
        "test_input_required_result_multiple_inputs" => {
            let all = field(responses, "user_name", "name").is_some()
                && has(responses, "greeting", "content")
                && has(responses, "client_roots", "roots");
            return Some(match states.open(request.request_state.as_ref()) {
                Ok(Some(_)) if all => text("All three answers are here.").map(Into::into),
                Ok(_) => three(states).map(Into::into),
                Err(error) => Err(error),
            });
        }
        "test_input_required_result_request_state" | "test_input_required_result_tampered_state" => {
            return Some(confirm(request, states));
        }
        "test_input_required_result_multi_round" => return Some(two_rounds(request, states)),
        "test_input_required_result_capabilities" => supported(capabilities),
        _ => return None,
    };
    Some(asked.map(Into::into))
}

fn said(words: &str) -> Option<Result<CallToolResponse, ErrorData>> {
    Some(text(words).map(Into::into))
}

fn three(states: &States) -> Result<InputRequiredResult, ErrorData> {
    let requests = json!({
        "user_name": form("What is your name?", "name", "string"),
        "greeting": sample("Generate a greeting", 50),
        "client_roots": roots(),
    });
    ask(requests, Some(states.seal("three")))
}

fn confirm(request: &CallToolRequestParams, states: &States) -> Result<CallToolResponse, ErrorData> {
    let state = states.open(request.request_state.as_ref())?;
    if state.as_deref() == Some("confirm")
        && field(request.input_responses.as_ref(), "confirm", "ok").is_some()
    {
        return text("state-ok").map(Into::into);
    }
    let requests = json!({"confirm": form("Please confirm", "ok", "boolean")});
    ask(requests, Some(states.seal("confirm"))).map(Into::into)
}

fn two_rounds(request: &CallToolRequestParams, states: &States) -> Result<CallToolResponse, ErrorData> {
    let responses = request.input_responses.as_ref();
    let state = states.open(request.request_state.as_ref())?;
    let second = |name: &str| {
        let requests = json!({"step2": form("Step 2: What is your favorite color?", "color", "string")});
        ask(requests, Some(states.seal(&format!("name:{name}"))))
    };
    if let Some(name) = state.as_deref().and_then(|state| state.strip_prefix("name:")) {
        return match field(responses, "step2", "color") {
            Some(color) => {
                text(format!("{name} likes {}.", color.as_str().unwrap_or_default())).map(Into::into)
            }
            None => second(name).map(Into::into),
        };
    }
    if let (Some("first"), Some(name)) = (state.as_deref(), field(responses, "step1", "name")) {
        return second(name.as_str().unwrap_or_default()).map(Into::into);
    }
    let requests = json!({"step1": form("Step 1: What is your name?", "name", "string")});
    ask(requests, Some(states.seal("first"))).map(Into::into)
}

fn supported(capabilities: &ClientCapabilities) -> Result<InputRequiredResult, ErrorData> {
    let mut requests = json!({});
    if capabilities.elicitation.is_some() {
        requests["user_name"] = form("What is your name?", "name", "string");
    }
    #[allow(deprecated)]
    if capabilities.sampling.is_some() {
        requests["greeting"] = sample("Generate a greeting", 50);
    }
    ask(requests, None)
}

/// The prompt that asks.
pub fn prompt(request: &GetPromptRequestParams) -> Result<GetPromptResponse, ErrorData> {
    match field(request.input_responses.as_ref(), "user_context", "context") {
        Some(context) => {
            let result: rmcp::model::GetPromptResult = complete(
                json!({"messages": [{"role": "user", "content": {
                "type": "text", "text": format!("Work with this: {}", context.as_str().unwrap_or_default())}}]}),
            )?;
            Ok(result.into())
        }
        None => {
            let requests =
                json!({"user_context": form("What context should the prompt use?", "context", "string")});
            ask(requests, None).map(Into::into)
        }
    }
}
