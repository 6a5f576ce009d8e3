//! Asking without a session: the question is the result, and the answer comes with the repeated call.

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use pentad_model::approval::Approval;
use pentad_model::{ApprovalId, Form, FormAnswer, Refusal, RefusalKind};
use pentad_program::{Answer, Asker};
use rmcp::model::{ElicitRequest, ElicitResult, InputRequest, InputRequiredResult, InputResponses};

use super::form;

/// The name of our one question in a result.
const KEY: &str = "approval";

/// Answers exactly the approval that the client brought an answer for, and keeps any other question for the result.
#[derive(Debug)]
pub struct Carrier {
    given: Option<(ApprovalId, Answer)>,
    open: Mutex<Option<Approval>>,
}

impl Carrier {
    pub fn new(given: Option<(ApprovalId, Answer)>) -> Self {
        Self {
            given,
            open: Mutex::default(),
        }
    }

    /// Returns the question that nobody answered yet.
    pub fn open_question(&self) -> Option<Approval> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[async_trait]
impl Asker for Carrier {
    async fn ask(&self, approval: &Approval) -> Answer {
        match self.given {
            // What the person put aside is not asked again in the same breath.
            Some((answered, answer)) if answered == approval.id => answer,
            _ => {
                *self.open.lock().unwrap_or_else(PoisonError::into_inner) = Some(approval.clone());
                Answer::Unanswered
            }
        }
    }

    fn reaches_a_person(&self) -> bool {
        false
    }

    /// A question would end the request, and the repeated one would begin the server's call anew: the call that is half
    /// done cannot be carried across.
    async fn fill(&self, _form: &Form) -> FormAnswer {
        FormAnswer::unanswered(
            "the client speaks a revision without sessions, in which it cannot be asked in the middle of a call",
        )
    }
}

/// Reads the answer that came with a repeated call; a call that brought none is asked again.
///
/// # Errors
/// Refuses an answer that is none of those that were offered.
pub fn given(
    approval: ApprovalId,
    responses: Option<&InputResponses>,
) -> Result<Option<(ApprovalId, Answer)>, Refusal> {
    let Some(response) = responses.and_then(|responses| responses.get(KEY)) else {
        return Ok(None);
    };
    let read = serde_json::from_value::<ElicitResult>(response.clone()).ok();
    match read.as_ref().and_then(form::answer) {
        Some(answer) => Ok(Some((approval, answer))),
        None => Err(Refusal::new(
            RefusalKind::Invalid,
            format!("inputResponses.{KEY}"),
            format!("inputResponses.{KEY} is no answer to what was asked."),
        )
        .supported([
            "{\"action\":\"accept\",\"content\":{\"decision\":\"once\"}}, or another decision that was offered",
            "{\"action\":\"decline\"}",
            "{\"action\":\"cancel\"}",
        ])),
    }
}

/// Returns the result that asks for `approval`.
pub fn input_required(approval: &Approval, state: String) -> InputRequiredResult {
    let request = InputRequest::Elicitation(ElicitRequest::new(form::form(approval)));
    InputRequiredResult::new(Some([(KEY.to_owned(), request)].into()), Some(state))
}
