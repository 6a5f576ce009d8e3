//! One invocation of a verb: the only way in, for every adapter.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::actor::{Caller, Name};
use crate::id::RunId;
use crate::time::Timestamp;
use crate::verb::Verb;

/// Where paths and recipes are resolved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workspace {
    /// The working folder.
    pub cwd: PathBuf,
    /// The project around it, when one was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_root: Option<PathBuf>,
    /// Whether a person trusted the project's own files.
    #[serde(default)]
    pub trusted: bool,
}

/// Which thread an invocation belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThreadChoice {
    /// A thread by (an ending of) its id; refused when there is none.
    Id(String),
    /// The thread with this key, made when it is not there: one per stdio process, or per token and client.
    Key(String),
}

/// An invocation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Invocation {
    /// Who calls.
    pub caller: Caller,
    /// The agent whose memory and grants apply to a new thread; `main` without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Name>,
    /// The thread, unless the arguments name one.
    pub thread: ThreadChoice,
    /// The run that invokes, when a run does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// Where paths and recipes are resolved.
    pub workspace: Workspace,
    /// The verb.
    pub verb: Verb,
    /// Its arguments as they came; parsed by the engine.
    pub arguments: Value,
    /// When to give up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// Bytes of text that the caller takes; the configured limit without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view_bytes: Option<u64>,
}
