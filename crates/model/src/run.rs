//! Runs: one execution each, members of a tree.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::actor::{Caller, Name};
use crate::grant::GrantSet;
use crate::id::{RunId, ThreadId};
use crate::invocation::Workspace;
use crate::time::Timestamp;
use crate::verb::Budget;

/// What a run waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitReason {
    /// Child runs.
    Children,
    /// A moment.
    Timer,
    /// A signal or event.
    Event,
    /// A person's approval.
    Approval,
    /// More budget.
    Budget,
    /// Environment values that no face has sent.
    Env,
}

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// Accepted, not begun.
    Queued,
    /// At work.
    Running,
    /// Parked.
    Waiting(WaitReason),
    /// Ended well.
    Succeeded,
    /// Ended badly.
    Failed,
    /// Ended because someone asked; written when its processes are gone.
    Canceled,
    /// Its process vanished and nobody knows how far it came.
    Lost,
}

impl WaitReason {
    /// Returns the word of this reason.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Children => "children",
            Self::Timer => "timer",
            Self::Event => "event",
            Self::Approval => "approval",
            Self::Budget => "budget",
            Self::Env => "env",
        }
    }
}

impl RunStatus {
    /// Tells whether nothing more will happen.
    #[must_use]
    pub const fn is_settled(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Canceled | Self::Lost)
    }

    /// Returns the word that lists and filters use.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Waiting(_) => "waiting",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
            Self::Lost => "lost",
        }
    }

    /// The words of all statuses.
    pub const WORDS: [&str; 7] = [
        "queued",
        "running",
        "waiting",
        "succeeded",
        "failed",
        "canceled",
        "lost",
    ];
}

/// A stored text or file of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    /// SHA-256 of the bytes in hexadecimal: the blob's name.
    pub blob: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Lines, for texts.
    #[serde(default)]
    pub lines: u64,
    /// Media type.
    pub mime: String,
    /// True when the source had more than the capture limit kept.
    #[serde(default)]
    pub truncated: bool,
}

/// Why a run ended badly.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunError {
    /// A stable word, such as `exit`, `timeout`, `canceled`, `lost`.
    pub code: String,
    /// A sentence.
    pub message: String,
}

/// What becomes of a run whose executor is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnLoss {
    /// It is `lost`: whoever asked for it is gone with its answer, and nobody knows how far it came.
    #[default]
    Lose,
    /// Another executor goes on where its journal ends.
    Resume,
}

/// The conditions under which a run was started; they never change.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Terms {
    /// The kind of the program that executes it; empty for a verb that somebody invoked.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub program: String,
    /// The first run of its tree, when that is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<RunId>,
    /// Generations above it.
    #[serde(default)]
    pub depth: u16,
    /// Whether its parent waits for it: then it ends with its parent.
    #[serde(default)]
    pub awaited: bool,
    /// The schema of the result that it owes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// Its limits.
    #[serde(default)]
    pub budget: Budget,
    /// What becomes of it when its executor is gone.
    #[serde(default)]
    pub on_loss: OnLoss,
    /// The step of its thread's plan that it works on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_step: Option<String>,
    /// The run that it continues under the same name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<RunId>,
    /// Where its paths and commands are resolved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<Workspace>,
}

/// What a run has used up of its budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Model tokens.
    #[serde(default)]
    pub tokens: u64,
    /// Cost in millionths of a US dollar.
    #[serde(default)]
    pub cost_micros: u64,
    /// Child runs.
    #[serde(default)]
    pub children: u64,
}

/// A run's record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Identifies it.
    pub id: RunId,
    /// The run that started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<RunId>,
    /// The thread it belongs to.
    pub thread: ThreadId,
    /// A name, unique among live runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Name>,
    /// What runs, for lists: a tool or a title.
    pub title: String,
    /// The tool and its version, when a tool runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The CID of the tool document it started with; a resume uses that text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_cid: Option<String>,
    /// Who started it.
    pub caller: Caller,
    /// Where it stands.
    pub status: RunStatus,
    /// What it may do.
    pub grants: GrantSet,
    /// Its input.
    pub input: Value,
    /// The conditions under which it was started.
    #[serde(default, skip_serializing_if = "is_default")]
    pub terms: Terms,
    /// What it has used up.
    #[serde(default, skip_serializing_if = "is_default")]
    pub usage: Usage,
    /// Whether somebody has asked that it end.
    #[serde(default, skip_serializing_if = "is_default")]
    pub canceling: bool,
    /// Its structured result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// Why it ended badly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
    /// Streams and artifacts by name: `stdout`, `stderr`, `output`, others.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stored: BTreeMap<String, Stored>,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// When its status last changed.
    pub updated_at: Timestamp,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
