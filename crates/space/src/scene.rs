//! The circumstances of one read or write.

use std::path::PathBuf;

use pentad_model::invocation::Workspace;
use pentad_model::{Caller, GrantSet, Name, RunId, ThreadId, Timestamp};
use pentad_program::Attendance;

/// Who reads or writes, where, and what the gate has allowed.
#[derive(Debug, Clone)]
pub struct Scene {
    /// Who calls.
    pub caller: Caller,
    /// The agent whose memory `~/memory` is.
    pub agent: Name,
    /// The thread.
    pub thread: ThreadId,
    /// The run that invokes, when a run does.
    pub run: Option<RunId>,
    /// Where relative paths begin.
    pub workspace: Workspace,
    /// Where `file:` may be read: the workspace and granted prefixes, folders or single files.
    pub read_roots: Vec<PathBuf>,
    /// Where `file:` may be written: granted prefixes. The gate has already allowed the act.
    pub write_roots: Vec<PathBuf>,
    /// What the caller holds.
    pub grants: GrantSet,
    /// Validate everything, change nothing.
    pub dry_run: bool,
    /// Cancellation and progress.
    pub attendance: Attendance,
    /// The present time.
    pub now: Timestamp,
}
