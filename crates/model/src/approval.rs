//! Approvals: a person's answer to one act, for a stated scope.

use serde::{Deserialize, Serialize};

use crate::actor::{Actor, Name};
use crate::id::{ApprovalId, RunId, ThreadId};
use crate::time::Timestamp;

/// How far a granted approval reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// This act with this input, one time.
    Once,
    /// This thread's run of work: every call of the tool by the same actor in the thread.
    Run,
    /// Every call of the tool at this version by the same actor.
    Always,
}

impl Scope {
    /// Returns the word of this scope.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Run => "run",
            Self::Always => "always",
        }
    }
}

/// Where an approval stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalState {
    /// Nobody answered yet.
    Open,
    /// Granted for a scope.
    Granted(Scope),
    /// A once-grant that was used.
    Used,
    /// Denied.
    Denied,
    /// Too old.
    Expired,
    /// What was approved has changed.
    Void,
}

impl ApprovalState {
    /// Returns the word that lists and filters use.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Granted(_) => "granted",
            Self::Used => "used",
            Self::Denied => "denied",
            Self::Expired => "expired",
            Self::Void => "void",
        }
    }
}

/// What an approval is bound to; any change voids it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Subject {
    /// Who wants to act.
    pub actor: Actor,
    /// For which agent.
    pub agent: Name,
    /// The act as a grant would write it, for example `call:github/create_issue`.
    pub act: String,
    /// SHA-256 of the canonical input.
    pub input_hash: String,
    /// SHA-256 over everything that would run: the document after import resolution, or definition and launch fingerprint.
    pub closure_hash: String,
}

/// A request for approval and its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// Identifies it.
    pub id: ApprovalId,
    /// The thread it was asked in.
    pub thread: ThreadId,
    /// The run that waits, when a run waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// What it is bound to.
    pub subject: Subject,
    /// What a person reads before answering; input shown, secrets masked.
    pub question: String,
    /// True when a grant may last for one run at most.
    pub run_at_most: bool,
    /// Where it stands.
    pub state: ApprovalState,
    /// Who answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<Actor>,
    /// When it was asked.
    pub created_at: Timestamp,
    /// When it was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_at: Option<Timestamp>,
}
