//! What came of judging an act that a person may have to approve.

use pentad_model::Refusal;
use pentad_model::approval::Approval;

use super::Permit;

/// Either the gate's word, or a question that only a person can answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// The act may happen now.
    Permitted(Permit),
    /// A person must approve first.
    Open(Box<Question>),
}

/// An open approval, and the refusal for a caller who can reach nobody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// What a person is asked.
    pub approval: Approval,
    /// Says where the approval is and who may answer it.
    pub refusal: Refusal,
}
