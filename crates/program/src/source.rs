//! Sources of tools: recipes, the packaged library, connected servers, builtins.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pentad_model::invocation::Workspace;
use pentad_model::{Caller, GrantSet, Name, Refusal, RunId, ThreadId, ToolDocument};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::attend::{Attendance, Environment};

/// Where a source stands. Health is a field of a hit, never a reason to lose one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Readiness {
    /// Answers at once.
    Ready,
    /// Known from its cached manifest; starts with the first call.
    Indexed,
    /// Configured, never seen yet; its tools are unknown until it starts.
    Configured,
    /// Starting since so many milliseconds.
    Starting {
        /// Elapsed time.
        elapsed_ms: u64,
    },
    /// Failed; tried again after so many milliseconds.
    BackingOff {
        /// Time left.
        retry_in_ms: u64,
        /// What happened, with the tail of its stderr.
        error: String,
    },
    /// Failed too often; not tried until a person asks.
    Disabled {
        /// What happened.
        error: String,
    },
}

/// A source's state for lists, `doctor` and hits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceStatus {
    /// The source's name.
    pub source: String,
    /// Where it stands.
    pub readiness: Readiness,
    /// How many tools it has.
    pub tools: usize,
    /// How many processes, or sessions, of it live at this moment.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub copies: usize,
    /// What a person should know: broken files, shadowed names, dropped lines.
    pub diagnostics: Vec<Diagnostic>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // the form that serde asks for
const fn is_zero(copies: &usize) -> bool {
    *copies == 0
}

/// How bad a diagnostic is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// Works, but not as one may think.
    Warning,
    /// Does not work.
    Error,
}

/// One thing that a person should know about a file or server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// How bad.
    pub severity: Severity,
    /// The file, tool or server.
    pub subject: String,
    /// What is the matter.
    pub message: String,
    /// The next step.
    pub next: Option<String>,
}

/// One call of one tool. The input passed the tool's schema; the gate has allowed it.
#[derive(Debug, Clone)]
pub struct ToolCall {
    /// The document that was judged; a source refuses when it has become another one.
    pub document: Arc<ToolDocument>,
    /// The input object.
    pub input: Map<String, Value>,
    /// The run of this call; its id marks every process (`PENTAD_RUN`).
    pub run: RunId,
    /// The thread, for sources that keep one instance a thread.
    pub thread: ThreadId,
    /// The agent whose memory the call may use.
    pub agent: Name,
    /// What the caller may see: builtins that list or search other tools filter by it.
    pub visible: GrantSet,
    /// Who calls.
    pub caller: Caller,
    /// Where paths and commands are resolved.
    pub workspace: Workspace,
    /// A folder of this run for spills and artifacts; exists when the call of a recipe or lambda starts.
    pub run_dir: PathBuf,
    /// Absolute limit; the source's own limits hold besides.
    pub time_limit: Option<Duration>,
    /// Cancellation and progress.
    pub attendance: Attendance,
}

/// A piece of what a tool returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Text, opaque.
    Text(String),
    /// An image.
    Image {
        /// Media type.
        mime: String,
        /// The bytes.
        data: Vec<u8>,
    },
    /// Sound.
    Audio {
        /// Media type.
        mime: String,
        /// The bytes.
        data: Vec<u8>,
    },
    /// A resource that came along.
    Resource {
        /// Its identifier at the source.
        uri: String,
        /// Media type.
        mime: Option<String>,
        /// The bytes.
        data: Vec<u8>,
        /// Whether the bytes are text.
        text: bool,
    },
    /// A pointer to a resource.
    Link {
        /// Its identifier at the source.
        uri: String,
        /// Its title.
        title: Option<String>,
        /// Media type.
        mime: Option<String>,
    },
}

/// A captured stream of a command: bounded in memory, whole (up to its cap) in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamCapture {
    /// The beginning and, when cut, the end; on character boundaries.
    pub text: String,
    /// Bytes in all.
    pub total_bytes: u64,
    /// Lines in all.
    pub total_lines: u64,
    /// The file with the whole stream, when `text` is not whole.
    pub file: Option<PathBuf>,
    /// True when even the file stops at its cap.
    pub truncated: bool,
}

/// What a tool returned.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolOutput {
    /// The tool's own word that it failed: an error result, a non-zero exit.
    pub is_error: bool,
    /// Text, images, resources, in order.
    pub content: Vec<Content>,
    /// The structured result.
    pub structured: Option<Value>,
    /// Captured streams by name (`stdout`, `stderr`).
    pub streams: BTreeMap<String, StreamCapture>,
    /// Files to keep, by artifact name.
    pub artifacts: BTreeMap<String, PathBuf>,
}

/// Why a call gave no output.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolFailure {
    /// It was not tried.
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// It was cancelled, and what it had started is gone.
    #[error("canceled")]
    Canceled,
    /// A limit of time was reached, and what it had started is gone.
    #[error("{limit} reached after {after_ms} ms")]
    TimedOut {
        /// The limit's name and size, for example `call limit 60 s`.
        limit: String,
        /// How long it ran.
        after_ms: u64,
    },
    /// It was sent, and nobody knows whether it happened.
    #[error("interrupted: {0}")]
    Interrupted(String),
    /// It was tried and failed.
    #[error("{0}")]
    Failed(String),
}

/// Offers tools.
#[async_trait]
pub trait ToolSource: Send + Sync {
    /// Returns the source's name.
    fn name(&self) -> &str;

    /// Returns the present documents, cheaply: a snapshot that is replaced, never changed. Implementations rescan
    /// here when their watcher is not working.
    fn documents(&self) -> Arc<[Arc<ToolDocument>]>;

    /// Returns a number that changes whenever [`Self::documents`] does.
    fn generation(&self) -> u64;

    /// Returns the source's state.
    fn status(&self) -> SourceStatus;

    /// Returns what an approval of `document` is bound to: a hash over everything that would run for a caller with these
    /// variables; without any, for this process.
    fn closure_hash(&self, document: &ToolDocument, environment: Option<&Environment>) -> String;

    /// Returns what identifies the thing that is started or reached for a caller with these variables; nothing where there
    /// is no such thing. An approval to read from the source is bound to it.
    fn launch_fingerprint(&self, environment: Option<&Environment>) -> Option<String> {
        let _ = environment;
        None
    }

    /// Calls one tool.
    ///
    /// # Errors
    /// [`ToolFailure`] says whether anything may have happened.
    async fn call(&self, call: ToolCall) -> Result<ToolOutput, ToolFailure>;

    /// Learns about its tools when it does not know them yet, for example by starting a server that was never indexed.
    /// Bounded by the source's own start limit. What is started has the variables of `environment`, or of this process.
    ///
    /// # Errors
    /// Says why its tools could not be learned.
    async fn refresh(&self, environment: Option<&Environment>) -> Result<(), Refusal> {
        let _ = environment;
        Ok(())
    }

    /// Ends everything that the source started, within `limit`.
    async fn shutdown(&self, limit: Duration) {
        let _ = limit;
    }
}
