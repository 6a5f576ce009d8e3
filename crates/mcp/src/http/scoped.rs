//! The sessions as one request sees them: its owner's and no others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::Stream;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::WorkerTransport;
use rmcp::transport::streamable_http_server::session::local::LocalSessionWorker;
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId, SessionManager};

use super::sessions::{SessionError, Sessions, taken};
use crate::face::Calls;

/// The sessions of one owner, and the calls of a session that its request may open.
pub struct Scoped {
    sessions: Arc<Sessions>,
    owner: String,
    calls: Calls,
    refused: AtomicBool,
}

impl Scoped {
    pub fn new(sessions: Arc<Sessions>, owner: String, calls: Calls) -> Self {
        Self {
            sessions,
            owner,
            calls,
            refused: AtomicBool::new(false),
        }
    }

    /// Tells whether the request wanted a session and there was none to be had.
    pub fn was_refused(&self) -> bool {
        self.refused.load(Ordering::Acquire)
    }
}

impl SessionManager for Scoped {
    type Error = SessionError;
    type Transport = WorkerTransport<LocalSessionWorker>;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), SessionError> {
        let made = self.sessions.make(&self.owner, self.calls.clone()).await;
        if matches!(made, Err(SessionError::Full)) {
            self.refused.store(true, Ordering::Release);
        }
        made
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, SessionError> {
        taken(self.sessions.local.initialize_session(id, message)).await
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, SessionError> {
        Ok(self.sessions.has(id, &self.owner) && self.sessions.local.has_session(id).await?)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), SessionError> {
        if self.sessions.has(id, &self.owner) {
            self.sessions.end(id).await?;
        }
        Ok(())
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        taken(self.sessions.local.create_stream(id, message)).await
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), SessionError> {
        taken(self.sessions.local.accept_message(id, message)).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        taken(self.sessions.local.create_standalone_stream(id)).await
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        taken(self.sessions.local.resume(id, last_event_id)).await
    }
}
