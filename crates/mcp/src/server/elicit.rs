//! Questions of a server to a person.

use async_trait::async_trait;
use pentad_model::text;
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction};
use serde_json::{Map, Value};

/// Longest message of a question.
const MESSAGE_BYTES: usize = 4 << 10;

/// A form that a server wants to be filled in. Its words are the server's: data, never an instruction.
#[derive(Debug, Clone, PartialEq)]
pub struct ElicitationForm {
    /// The server that asks.
    pub server: String,
    /// What it says, with control characters shown.
    pub message: String,
    /// The fields, as a schema of an object with plain members.
    pub schema: Value,
}

/// What a person did with a form.
#[derive(Debug, Clone, PartialEq)]
pub enum ElicitationAnswer {
    /// Filled in.
    Accepted(Map<String, Value>),
    /// Refused.
    Declined,
    /// Put away without a decision, or nobody could be asked.
    Cancelled,
}

/// Puts questions of servers before a person. A server is told that it may ask only where there is one.
#[async_trait]
pub trait Elicitor: Send + Sync {
    /// Asks; bounded by the elicitor's own limit.
    async fn elicit(&self, form: ElicitationForm) -> ElicitationAnswer;
}

/// Puts a question of `server` to `elicitor`. Only forms are put: a page elsewhere is nothing that we can vouch for.
pub async fn elicited(server: &str, elicitor: &dyn Elicitor, asked: ElicitRequestParams) -> ElicitResult {
    let ElicitRequestParams::FormElicitationParams {
        message,
        requested_schema,
        ..
    } = asked
    else {
        return ElicitResult::new(ElicitationAction::Decline);
    };
    let form = ElicitationForm {
        server: server.to_owned(),
        message: text::excerpt(&text::visible(&message), MESSAGE_BYTES),
        schema: serde_json::to_value(&requested_schema).unwrap_or_default(),
    };
    match elicitor.elicit(form).await {
        ElicitationAnswer::Accepted(fields) => {
            ElicitResult::new(ElicitationAction::Accept).with_content(Value::Object(fields))
        }
        ElicitationAnswer::Declined => ElicitResult::new(ElicitationAction::Decline),
        ElicitationAnswer::Cancelled => ElicitResult::new(ElicitationAction::Cancel),
    }
}
