//! Calls whose server asks for something before it answers (revision 2026-07-28): answered, and sent again.

#![allow(
    deprecated,
    reason = "roots are answered and sampling is refused, which needs their names"
)]

use std::time::Duration;

use pentad_model::text;
use rmcp::model::{
    ClientRequest, InputRequest, InputRequiredResult, InputResponses, ListRootsResult, ServerResult,
};
use serde_json::{Map, Value};
use tokio::time::{sleep, sleep_until};

use super::client::roots;
use super::connection::{CallEnd, CallLimits, Lease};
use super::core::Core;
use super::elicit::{ask_one, form_of, result};
use super::party::Party;

/// How often a server may ask during one call.
const MAX_ROUNDS: usize = 16;
/// The pause before a call is sent again for which the server asked nothing.
const PAUSE: Duration = Duration::from_millis(100);
/// How much of a server's question is shown where it cannot be answered.
const SHOWN_BYTES: usize = 300;

impl Lease {
    /// Sends a request and answers what the server asks for, until it answers itself.
    pub async fn exchange(
        &self,
        core: &Core,
        request: ClientRequest,
        limits: CallLimits,
        party: Party<'_>,
    ) -> Result<ServerResult, CallEnd> {
        let mut request = request;
        for _ in 0..MAX_ROUNDS {
            let asked = match self.request(core, request.clone(), limits, party).await? {
                ServerResult::InputRequiredResult(asked) => asked,
                answer => return Ok(answer),
            };
            let state = asked.request_state.clone();
            let answers = tokio::select! {
                answers = answers(core, asked, party) => answers?,
                () = party.attendance.cancel.cancelled() => return Err(CallEnd::Canceled),
                () = sleep_until(limits.until) => {
                    return Err(CallEnd::TimedOut { limit: "call limit while the server waited for an answer".to_owned() });
                }
            };
            answer(&mut request, answers, state);
        }
        Err(CallEnd::Failed(format!(
            "the server asked for further input {MAX_ROUNDS} times without an end"
        )))
    }
}

/// Puts answers into a request, so that it can be sent again.
fn answer(request: &mut ClientRequest, answers: InputResponses, state: Option<String>) {
    let answers = (!answers.is_empty()).then_some(answers);
    match request {
        ClientRequest::CallToolRequest(call) => {
            call.params.input_responses = answers;
            call.params.request_state = state;
        }
        ClientRequest::ReadResourceRequest(read) => {
            read.params.input_responses = answers;
            read.params.request_state = state;
        }
        ClientRequest::GetPromptRequest(get) => {
            get.params.input_responses = answers;
            get.params.request_state = state;
        }
        // Nothing else can be asked about.
        _ => {}
    }
}

async fn answers(
    core: &Core,
    asked: InputRequiredResult,
    party: Party<'_>,
) -> Result<InputResponses, CallEnd> {
    let requests = asked.input_requests.unwrap_or_default();
    if requests.is_empty() {
        if asked.request_state.is_none() {
            return Err(CallEnd::Failed(
                "the server asks for further input without saying which".to_owned(),
            ));
        }
        sleep(PAUSE).await;
    }
    let mut answers = InputResponses::new();
    for (key, request) in requests {
        answers.insert(key, one(core, request, party).await?);
    }
    Ok(answers)
}

async fn one(core: &Core, request: InputRequest, party: Party<'_>) -> Result<Value, CallEnd> {
    let value = match request {
        InputRequest::Elicitation(asked) => {
            // The form came as the answer of this very call: whoever is behind it is meant.
            if core.runtime.elicitor.is_none() {
                let question = serde_json::to_value(&asked.params).unwrap_or_default();
                let message = question
                    .get("message")
                    .and_then(Value::as_str)
                    .unwrap_or_default();
                let message = text::excerpt(&text::visible(message), SHOWN_BYTES);
                return Err(CallEnd::Failed(format!(
                    "the server asks a person in the middle of the call, and nobody can be asked here; it asks: {message}; call the tool with complete input"
                )));
            }
            let form = form_of(&core.config.name, asked.params);
            serde_json::to_value(result(ask_one(core, form, party.attendance, party.origin).await))
        }
        InputRequest::ListRoots(_) => serde_json::to_value(ListRootsResult::new(roots([party.folder]))),
        InputRequest::CreateMessage(_) => {
            return Err(CallEnd::Failed(
                "the server asks for an answer of a language model, which it does not get".to_owned(),
            ));
        }
        _ => {
            return Err(CallEnd::Failed(
                "the server asks for something that is not known here".to_owned(),
            ));
        }
    };
    Ok(value.unwrap_or_else(|_| Value::Object(Map::new())))
}
