//! The journal's contract. Each method is one transaction; ids and times come from the caller; order is (thread, seq).

use async_trait::async_trait;
use bytes::Bytes;
use pentad_model::approval::{Approval, ApprovalState, Subject};
use pentad_model::event::{Event, NewEvent};
use pentad_model::grant::GrantSet;
use pentad_model::plan::Plan;
use pentad_model::run::{Run, RunError, RunStatus, Stored, Terms};
use pentad_model::thread::Thread;
use pentad_model::{Actor, ApprovalId, Caller, IdEnding, Name, RunId, ThreadId, Timestamp, Verb};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// What must survive what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Survives the death of the process.
    Crash,
    /// Survives power loss: fsynced before the method returns.
    Power,
}

/// Why the store could not do it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database file cannot be used; the text names it and the next step.
    #[error("{0}")]
    Unusable(String),
    /// The disk is full or read-only; nothing was changed.
    #[error("the journal could not be written: {0}; free space or check permissions, then repeat")]
    NotWritten(String),
    /// A record is not what this build can read.
    #[error("{0}")]
    Corrupt(String),
    /// Nothing matches, or more than one does; the text says which.
    #[error("{0}")]
    NotFound(String),
    /// An ending matches several ids.
    #[error("'{ending}' is the ending of {count} ids; give more characters")]
    Ambiguous {
        /// What was given.
        ending: String,
        /// How many match.
        count: usize,
    },
    /// What should change has another state now.
    #[error("{0}")]
    Conflict(String),
    /// The store has been closed.
    #[error("the journal is closed")]
    Closed,
}

/// A thread to be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewThread {
    /// Its id, if it must be made.
    pub id: ThreadId,
    /// The key under which it is found again; unique.
    pub key: Option<String>,
    /// Its agent.
    pub agent: Name,
    /// Who opens it.
    pub opened_by: Actor,
    /// A title.
    pub title: Option<String>,
    /// The delegating thread.
    pub parent: Option<ThreadId>,
    /// The folder it works in.
    pub cwd: Option<String>,
    /// When.
    pub at: Timestamp,
}

/// Which threads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ThreadFilter {
    /// Only of this agent.
    pub agent: Option<Name>,
    /// Words that must occur in the title or in the events' text; all of them, any case.
    pub query: Option<String>,
    /// Only threads whose (`updated_at`, id) sorts before this mark of the last page.
    pub after: Option<String>,
    /// Most entries.
    pub limit: usize,
}

/// A listed thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadHit {
    /// The thread.
    #[serde(flatten)]
    pub thread: Thread,
    /// Text around the first match, for searches; at most 240 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snippet: Option<String>,
    /// The mark that continues after this entry.
    #[serde(skip)]
    pub mark: String,
}

/// Which events of a thread, and from which end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventRange {
    /// The oldest after this number, ascending.
    After(u64),
    /// The newest before this number (or of all), returned ascending.
    Before(Option<u64>),
}

/// Events and whether there are more in the same direction.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EventPage {
    /// In ascending order.
    pub events: Vec<Event>,
    /// True when the limit cut the page.
    pub more: bool,
}

/// Which events over all threads.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ActivityFilter {
    /// Only of this actor.
    pub actor: Option<Actor>,
    /// Only invocations of this verb.
    pub verb: Option<Verb>,
    /// Only in this thread.
    pub thread: Option<ThreadId>,
    /// Not before.
    pub since: Option<Timestamp>,
    /// Before.
    pub until: Option<Timestamp>,
    /// Only positions smaller than this (pages go back in time).
    pub before: Option<u64>,
    /// Most entries.
    pub limit: usize,
}

/// A run to be recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct NewRun {
    /// Its id.
    pub id: RunId,
    /// Its parent.
    pub parent: Option<RunId>,
    /// Its thread.
    pub thread: ThreadId,
    /// Its name, unique among live runs.
    pub name: Option<Name>,
    /// Its title.
    pub title: String,
    /// The tool.
    pub tool: Option<String>,
    /// The tool's version.
    pub tool_cid: Option<String>,
    /// Who starts it.
    pub caller: pentad_model::Caller,
    /// What it may do.
    pub grants: GrantSet,
    /// Its input.
    pub input: Value,
    /// The conditions under which it is started.
    pub terms: Terms,
    /// `Queued` for whoever claims it, `Running` for this process.
    pub status: RunStatus,
    /// When.
    pub at: Timestamp,
}

/// A change of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunChange {
    /// Which.
    pub id: RunId,
    /// The new status.
    pub status: RunStatus,
    /// The structured result.
    pub output: Option<Value>,
    /// Why it ended badly.
    pub error: Option<RunError>,
    /// Streams and artifacts to add.
    pub stored: BTreeMap<String, Stored>,
    /// When.
    pub at: Timestamp,
}

/// Which runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunFilter {
    /// Only of this status word.
    pub status: Option<String>,
    /// Only of this thread.
    pub thread: Option<ThreadId>,
    /// Words that must occur in title, tool or input.
    pub query: Option<String>,
    /// Only runs older than this one (pages go back in time).
    pub before: Option<RunId>,
    /// Most entries.
    pub limit: usize,
}

/// Which approvals.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ApprovalFilter {
    /// Only of this state word.
    pub state: Option<String>,
    /// Most entries.
    pub limit: usize,
}

/// A stored blob.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlobRef {
    /// SHA-256 of the bytes in hexadecimal.
    pub hash: String,
    /// Size.
    pub bytes: u64,
}

/// An attachment's record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// CIDv1 (raw, SHA-256) of the bytes.
    pub cid: String,
    /// File name as it was given.
    pub name: Option<String>,
    /// Media type.
    pub mime: String,
    /// Size.
    pub bytes: u64,
    /// When it was first attached.
    pub created_at: Timestamp,
}

/// Keeps the journal. Each method is one transaction.
#[async_trait]
pub trait Store: Send + Sync {
    /// Returns the thread with `new.key`, or makes it.
    async fn open_thread(&self, new: NewThread) -> Result<Thread, StoreError>;
    /// Finds a thread by an ending of its id.
    async fn find_thread(&self, ending: &IdEnding) -> Result<Thread, StoreError>;
    /// Lists threads, newest first.
    async fn threads(&self, filter: ThreadFilter) -> Result<Vec<ThreadHit>, StoreError>;
    /// Gives a thread a title if it has none.
    async fn title_thread(&self, thread: ThreadId, title: &str) -> Result<(), StoreError>;

    /// Appends events in order, each chained to its thread's last one; returns them in their places.
    async fn append(&self, events: Vec<NewEvent>, durability: Durability) -> Result<Vec<Event>, StoreError>;
    /// Reads a thread's events.
    async fn events(
        &self,
        thread: ThreadId,
        range: EventRange,
        limit: usize,
    ) -> Result<EventPage, StoreError>;
    /// Reads a run's events, oldest first, after a thread sequence number.
    async fn run_events(&self, run: RunId, after: u64, limit: usize) -> Result<EventPage, StoreError>;
    /// Reads events over all threads after a journal position, ascending.
    async fn feed(&self, after: u64, limit: usize) -> Result<Vec<Event>, StoreError>;
    /// Lists events over all threads, newest first.
    async fn activity(&self, filter: ActivityFilter) -> Result<Vec<Event>, StoreError>;
    /// Returns the newest journal position.
    async fn head(&self) -> Result<u64, StoreError>;
    /// Waits until the journal's position exceeds `after`, and returns it. Cancel by dropping.
    async fn changed(&self, after: u64) -> Result<u64, StoreError>;
    /// Returns the tools (full name → version) that are promoted in a thread.
    async fn promoted(&self, thread: ThreadId) -> Result<BTreeMap<String, String>, StoreError>;
    /// Checks a thread's hash chain; returns the number of the first event that does not fit.
    async fn verify(&self, thread: ThreadId) -> Result<Option<u64>, StoreError>;

    /// Records a run, with its events.
    async fn start_run(
        &self,
        run: NewRun,
        events: Vec<NewEvent>,
        durability: Durability,
    ) -> Result<(), StoreError>;
    /// Changes a run, with its events; a settled run is not changed again (`Conflict`).
    async fn change_run(
        &self,
        change: RunChange,
        events: Vec<NewEvent>,
        durability: Durability,
    ) -> Result<(), StoreError>;
    /// Reads a run by id.
    async fn run(&self, id: RunId) -> Result<Run, StoreError>;
    /// Finds a run by an ending of its id, or by name (a live one, else the newest).
    async fn find_run(&self, name: &Name) -> Result<Run, StoreError>;
    /// Lists runs, newest first.
    async fn runs(&self, filter: RunFilter) -> Result<Vec<Run>, StoreError>;

    /// Replaces a thread's plan, with its events; fsynced.
    async fn set_plan(&self, thread: ThreadId, plan: Plan, events: Vec<NewEvent>) -> Result<(), StoreError>;
    /// Reads a thread's plan.
    async fn plan(&self, thread: ThreadId) -> Result<Option<Plan>, StoreError>;

    /// Asks for an approval, or returns the one that is open for the same subject; fsynced.
    async fn ask(&self, approval: Approval, events: Vec<NewEvent>) -> Result<Approval, StoreError>;
    /// Answers an open approval, and journals the answer with who gave it and for whom; fsynced.
    async fn answer(
        &self,
        id: ApprovalId,
        state: ApprovalState,
        by: Caller,
        at: Timestamp,
    ) -> Result<Approval, StoreError>;
    /// Finds the grant that permits this subject, if any, and uses it up when it was given once; fsynced.
    /// `always` matches actor, agent, act and closure; `run` also the thread; `once` also the input.
    async fn use_approval(&self, subject: &Subject, thread: ThreadId)
    -> Result<Option<Approval>, StoreError>;
    /// Finds an approval by an ending of its id.
    async fn find_approval(&self, ending: &IdEnding) -> Result<Approval, StoreError>;
    /// Lists approvals, newest first.
    async fn approvals(&self, filter: ApprovalFilter) -> Result<Vec<Approval>, StoreError>;

    /// Stores bytes by content.
    async fn put_blob(&self, bytes: Bytes) -> Result<BlobRef, StoreError>;
    /// Moves (or copies) a file into the blobs by content.
    async fn put_file(&self, path: &std::path::Path) -> Result<BlobRef, StoreError>;
    /// Reads a blob whole; refuses (`NotFound`) above `cap` bytes.
    async fn blob(&self, hash: &str, cap: u64) -> Result<Bytes, StoreError>;
    /// Returns the path of a blob's file, for streaming reads; `NotFound` when it is not there.
    async fn blob_path(&self, hash: &str) -> Result<std::path::PathBuf, StoreError>;
    /// Records an attachment whose bytes are a blob already.
    async fn put_attachment(&self, attachment: Attachment) -> Result<Attachment, StoreError>;
    /// Finds an attachment.
    async fn attachment(&self, cid: &str) -> Result<Attachment, StoreError>;
}
