//! What a connection runs over: the pipes of a process, or HTTP.
//!
//! Everything else about a server (its life, its calls, its limits) is the same for both; this is the only place that
//! knows the difference.

use rmcp::RoleClient;
use rmcp::model::RequestId;
use rmcp::service::{ClientInitializeError, ClientLifecycleMode, RunningService};
use tokio_util::sync::CancellationToken;

use super::client::ClientEnd;
use super::connection::CallEnd;
use super::core::Core;
use super::http::{HttpWire, Trouble};
use super::manifest::Opening;
use super::pipes::Pipes;
use super::start::StartFailure;
use crate::lines::LineReport;

/// A way to a server, before and after it is open.
pub enum Wire {
    /// The standard streams of a process that was started for it.
    Pipes(Pipes),
    /// Requests over HTTP.
    Http(Box<HttpWire>),
}

/// How far a request came.
#[derive(Debug)]
pub enum Fate {
    /// No byte of it was written.
    Unsent,
    /// It was written, or its writing was begun.
    Sent,
    /// It failed in a way that the wire saw.
    Failed(Trouble),
}

impl Wire {
    /// Returns the opening to try first with a server that is not known.
    ///
    /// `initialize` for a process: servers of the older revisions may end at any other first message, while one that
    /// knows only the stateless revision answers `initialize` with an error and goes on. Over HTTP a question that is not
    /// understood costs one answer, so the newer revision is asked for first.
    pub const fn first_opening(&self) -> Opening {
        match self {
            Self::Pipes(_) => Opening::Initialize,
            Self::Http(_) => Opening::Discover,
        }
    }

    /// Opens the connection once, in one way.
    pub async fn attempt(
        &self,
        end: &ClientEnd,
        mode: ClientLifecycleMode,
        ct: &CancellationToken,
    ) -> Result<RunningService<RoleClient, ClientEnd>, ClientInitializeError> {
        match self {
            Self::Pipes(pipes) => pipes.attempt(end, mode, ct).await,
            Self::Http(http) => http.attempt(end, mode, ct).await,
        }
    }

    /// Tells whether another opening is worth trying after this failure.
    pub fn may_try_other_opening(&self, error: &ClientInitializeError) -> bool {
        match self {
            Self::Pipes(_) => Pipes::is_answered(error),
            Self::Http(http) => http.is_answered(error),
        }
    }

    /// Waits, within a limit, until the server can say something of its own.
    pub async fn heard(&self) {
        match self {
            Self::Pipes(_) => {}
            Self::Http(http) => http.heard().await,
        }
    }

    /// Waits until the far end is seen to be gone, and says how it ended. HTTP has no such sign.
    pub async fn ended(&self) -> String {
        match self {
            Self::Pipes(pipes) => pipes.process.wait().await,
            Self::Http(_) => std::future::pending().await,
        }
    }

    /// Ends what was started for the connection, within a limit. The service loop is ended by its owner.
    pub async fn end(&self) {
        match self {
            Self::Pipes(pipes) => pipes.end().await,
            Self::Http(_) => {}
        }
    }

    /// Returns what the server wrote that was no protocol.
    pub fn report(&self) -> LineReport {
        match self {
            Self::Pipes(pipes) => pipes.lines.report(),
            Self::Http(_) => LineReport::default(),
        }
    }

    /// Returns the end of what the server wrote as diagnostics, while it lives.
    pub fn diagnostics(&self) -> String {
        match self {
            Self::Pipes(pipes) => pipes.stderr.shown(),
            Self::Http(_) => String::new(),
        }
    }

    /// Returns the end of what an ended server wrote as diagnostics.
    pub async fn last_words(&self) -> String {
        match self {
            Self::Pipes(pipes) => pipes.stderr.last_words().await,
            Self::Http(_) => String::new(),
        }
    }

    /// Waits, within a limit, until the diagnostics that were written before the last answer were read.
    pub async fn catch_up(&self) {
        match self {
            Self::Pipes(pipes) => pipes.stderr.catch_up().await,
            Self::Http(_) => {}
        }
    }

    /// Returns how far request `id` came, and forgets it.
    pub fn take_fate(&self, id: &RequestId) -> Fate {
        match self {
            Self::Pipes(pipes) if pipes.lines.take_begun(id) => Fate::Sent,
            Self::Pipes(_) => Fate::Unsent,
            Self::Http(http) => http.take_fate(id),
        }
    }

    /// Corrects what the service loop believes about a request that has no answer.
    pub fn judged(&self, core: &Core, end: CallEnd, fate: Fate) -> CallEnd {
        match (self, end, fate) {
            (_, CallEnd::Lost(_) | CallEnd::NotSent, Fate::Failed(trouble)) => trouble.call_end(core),
            (_, CallEnd::Lost(_), Fate::Unsent) => CallEnd::NotSent,
            // A line that was not written whole cannot have been read; a request over HTTP can.
            (Self::Http(_), CallEnd::NotSent, Fate::Sent) => CallEnd::Lost(None),
            (_, end, _) => end,
        }
    }

    /// Explains why the connection could not be opened, if the wire itself saw why.
    pub fn start_failure(&self, core: &Core) -> Option<StartFailure> {
        match self {
            Self::Pipes(_) => None,
            Self::Http(http) => http.last_trouble().map(|trouble| trouble.start_failure(core)),
        }
    }
}
