//! Threads: one sequence of events each.

use serde::{Deserialize, Serialize};

use crate::actor::{Actor, Name};
use crate::id::ThreadId;
use crate::time::Timestamp;

/// A thread's record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    /// Identifies it.
    pub id: ThreadId,
    /// The agent whose memory and grants it uses.
    pub agent: Name,
    /// Who began it.
    pub opened_by: Actor,
    /// What it is called in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The thread that delegated this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ThreadId>,
    /// The folder that it works in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// When it began.
    pub created_at: Timestamp,
    /// When its last event was written.
    pub updated_at: Timestamp,
    /// How many events it has.
    pub events: u64,
}
