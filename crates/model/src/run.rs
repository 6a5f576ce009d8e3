//! Runs: one execution each, members of a tree.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::actor::{Caller, Name};
use crate::grant::GrantSet;
use crate::id::{RunId, ThreadId};
use crate::time::Timestamp;

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
