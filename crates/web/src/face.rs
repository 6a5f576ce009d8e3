//! What the HTTP face is made of.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pentad_mcp::{HttpFace, StateKey};
use pentad_model::Name;
use pentad_model::invocation::Workspace;
use pentad_program::{RunStore, Store, Verbs};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::attachments::Attachments;
use crate::hosts::Hosts;
use crate::tokens::Tokens;

/// Streams of events at once; each holds a connection and a page of events.
pub(crate) const MAX_STREAMS: usize = 128;

/// Who may call.
#[derive(Debug)]
pub enum Access {
    /// Whoever has a token.
    Tokens(Tokens),
    /// Everybody on this machine, as the client `anonymous`. For conformance runs only.
    InsecureLoopback,
}

/// The parts that the binary hands over.
pub struct Face {
    /// The one way in.
    pub verbs: Arc<dyn Verbs>,
    /// The journal.
    pub store: Arc<dyn Store>,
    /// The same journal's runs.
    pub runs: Arc<dyn RunStore>,
    /// Takes attachments.
    pub attachments: Arc<dyn Attachments>,
    /// Who may call.
    pub access: Access,
    /// Host names that requests may carry besides this machine's own.
    pub hosts: Vec<String>,
    /// Where a request works that names no workspace.
    pub workspace: Workspace,
    /// Named workspaces.
    pub workspaces: BTreeMap<Name, Workspace>,
    /// Signs the questions that go through MCP clients without a session; without it, such clients are not asked.
    pub state_key: Option<StateKey>,
    /// A private folder for attachments on their way.
    pub uploads: PathBuf,
    /// Largest request other than an attachment.
    pub body_bytes: u64,
    /// Largest attachment.
    pub attachment_bytes: u64,
    /// How often a silent stream shows that it lives.
    pub heartbeat: Duration,
    /// How long requests may go on after the end was asked for.
    pub drain: Duration,
}

/// What the handlers share.
pub(crate) struct Shared {
    pub face: Face,
    pub hosts: Hosts,
    /// Answers below `/mcp`.
    pub mcp: HttpFace,
    /// Ends streams; no new work.
    pub closing: CancellationToken,
    /// Cancels what still runs when the time to drain is over.
    pub hard_end: CancellationToken,
    pub streams: Arc<Semaphore>,
}
