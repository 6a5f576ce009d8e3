//! The server face: five verbs for any MCP client, over a pair of byte streams.

mod ask;
mod call;
mod handler;
mod lazy;
mod progress;
mod reply;
mod resources;
mod routing;

use std::time::Duration;

use pentad_model::Name;
use pentad_model::actor::Actor;
use pentad_model::invocation::{ThreadChoice, Workspace};
use rmcp::ServiceExt as _;
use rmcp::service::ServerInitializeError;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

pub use self::ask::StateKey;
pub(crate) use self::handler::{Calls, Face};
pub use self::lazy::LazyVerbs;
use crate::lines::{EndOfInput, FACE_MESSAGE_BYTES, LineTransport};

/// How long the service loop may take to write what is left once every call has ended.
const DRAIN_LIMIT: Duration = Duration::from_secs(3);

/// Who calls through a face, and with what.
#[derive(Debug, Clone)]
pub struct FaceOptions {
    /// The thread of calls that name none.
    pub thread: ThreadChoice,
    /// The agent of a thread that is made.
    pub agent: Option<Name>,
    /// Where paths are resolved.
    pub workspace: Workspace,
    /// The client's name, where a token or a configuration gave it; else it is what the client calls itself.
    pub client: Option<Name>,
    /// On whose behalf the client acts.
    pub on_behalf_of: Option<Actor>,
    /// Bytes of text in one result; the engine's own default without it.
    pub view_bytes: Option<u64>,
    /// Signs the questions that go through a client without a session; without it, such clients are not asked.
    pub state_key: Option<StateKey>,
    /// Times and sizes.
    pub limits: FaceLimits,
    /// Ends the face from outside, as a signal does.
    pub shutdown: CancellationToken,
}

/// The times and sizes of a face.
#[derive(Debug, Clone)]
pub struct FaceLimits {
    /// Cap on one message of the client.
    pub max_message_bytes: usize,
    /// How often a call that is watched with a progress token says that it lives.
    pub heartbeat: Duration,
    /// How long a person may take to answer while a call waits; then the approval stays open for an answer elsewhere.
    pub ask: Duration,
    /// How long an answer may take that comes with a repeated call.
    pub answer: Duration,
    /// How long calls in flight may go on once the client has closed its end.
    pub after_eof: Duration,
    /// How long cancelled calls may take to end.
    pub shutdown: Duration,
}

impl Default for FaceLimits {
    fn default() -> Self {
        Self {
            max_message_bytes: FACE_MESSAGE_BYTES,
            heartbeat: Duration::from_secs(5),
            ask: Duration::from_secs(120),
            answer: Duration::from_secs(900),
            after_eof: Duration::from_secs(2),
            shutdown: Duration::from_secs(10),
        }
    }
}

/// How a face ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaceEnd {
    /// Every call had ended.
    Clean,
    /// A call outlived its cancellation past the limit; its processes end with the process that holds them.
    Abandoned,
}

/// Serves one client until it closes its end, or until `options.shutdown`.
///
/// Both revisions are spoken: `initialize` (up to 2025-11-25) and the stateless 2026-07-28. What needs no engine is
/// answered without `verbs`, which is opened by the first call. Only protocol is ever written to `output`.
///
/// When the input ends, calls in flight get a moment to finish, are cancelled, and are waited for within limits.
pub async fn serve(
    verbs: LazyVerbs,
    options: FaceOptions,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
) -> FaceEnd {
    let end = EndOfInput::default();
    let transport = LineTransport::face(input, output, options.limits.max_message_bytes, end.clone());
    let limits = options.limits.clone();
    let shutdown = options.shutdown.clone();
    let face = Face::new(verbs, options);
    let calls = face.calls().clone();
    let loop_end = CancellationToken::new();
    // Boxed: the loop holds everything that a request may need, and whoever serves holds the loop.
    let mut serving = Box::pin(run_loop(face, transport, loop_end.clone()));

    let closed = tokio::select! {
        () = &mut serving => true,
        () = end.seen.cancelled() => {
            calls.tracker.close();
            // A client that sends its requests and closes its end at once still wants the answers.
            let _finished = tokio::time::timeout(limits.after_eof, calls.tracker.wait()).await;
            false
        }
        () = shutdown.cancelled() => false,
    };
    calls.cancel.cancel();
    calls.tracker.close();
    let waited = async {
        let ended = tokio::time::timeout(limits.shutdown, calls.tracker.wait()).await;
        end.released.cancel();
        if !end.seen.is_cancelled() {
            loop_end.cancel();
        }
        ended
    };
    if closed {
        return if waited.await.is_ok() {
            FaceEnd::Clean
        } else {
            FaceEnd::Abandoned
        };
    }
    // The loop goes on while calls end, because it writes their answers.
    let (ended, _drained) = tokio::join!(
        waited,
        tokio::time::timeout(limits.shutdown + DRAIN_LIMIT, serving)
    );
    if ended.is_ok() {
        FaceEnd::Clean
    } else {
        FaceEnd::Abandoned
    }
}

async fn run_loop(face: Face, transport: LineTransport, ct: CancellationToken) {
    match face.serve_with_ct(transport, ct).await {
        Ok(running) => {
            let quit = running.waiting().await;
            tracing::debug!(?quit, "the client's connection ended");
        }
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => {
            tracing::debug!("the client left before its first request");
        }
        Err(error) => tracing::warn!(%error, "the client's connection could not be opened"),
    }
}
