//! Who is behind a request, and how much of everything there is.

use std::time::Duration;

use pentad_model::invocation::{ThreadChoice, Workspace};
use pentad_model::{Actor, Name};

/// Who sends a request, as whoever checked the token knows it.
///
/// A session keeps what its first request said; what later requests of the session say besides `owner` is not looked at.
#[derive(Debug, Clone)]
pub struct HttpCaller {
    /// Whose sessions these are: one word for each token. A session answers to its owner only.
    pub owner: String,
    /// The client that the token stands for; without one, the client is what it calls itself.
    pub client: Option<Name>,
    /// On whose behalf the client acts.
    pub on_behalf_of: Option<Actor>,
    /// The thread of calls that name none; without one, each owner has one for each client.
    pub thread: Option<ThreadChoice>,
    /// The agent of a thread that is made.
    pub agent: Option<Name>,
    /// Where paths are resolved.
    pub workspace: Workspace,
}

/// The times and sizes of MCP over HTTP.
#[derive(Debug, Clone)]
pub struct HttpLimits {
    /// Cap on the body of one request.
    pub body_bytes: usize,
    /// How long a client may take to send it.
    pub body_time: Duration,
    /// Sessions of all callers together.
    pub sessions: usize,
    /// Sessions of one caller; a further one ends the one of them that was silent longest.
    pub sessions_per_caller: usize,
    /// How long a session may have no request, no stream and no call before it ends.
    pub idle: Duration,
    /// Messages that are kept of one stream of a session for a client that is slow or whose connection broke.
    pub events: usize,
    /// How often a silent stream shows that it lives.
    pub keep_alive: Duration,
    /// How often a call that is watched with a progress token says that it lives.
    pub heartbeat: Duration,
    /// How long cancelled calls may take to end.
    pub shutdown: Duration,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            body_bytes: crate::FACE_MESSAGE_BYTES,
            body_time: Duration::from_secs(60),
            sessions: 256,
            sessions_per_caller: 64,
            idle: Duration::from_secs(30 * 60),
            events: 64,
            keep_alive: Duration::from_secs(15),
            heartbeat: Duration::from_secs(5),
            shutdown: Duration::from_secs(10),
        }
    }
}
