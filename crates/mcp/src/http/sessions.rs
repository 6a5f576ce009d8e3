//! The sessions of revisions before 2026-07-28: whose they are, how many there may be, and when a silent one ends.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::transport::WorkerTransport;
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError, LocalSessionWorker, SessionConfig,
};
use rmcp::transport::streamable_http_server::session::{SessionId, SessionManager as _};
use tokio::time::Instant;

use super::caller::HttpLimits;
use crate::face::Calls;

/// How long an ended session's worker may take to hear of it; one that cannot ends with its connection.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);

/// How long a session's worker may take to take a message; it waits itself while a full stream is not read.
const TAKE_LIMIT: Duration = Duration::from_secs(30);

/// Waits for a session's worker, within limits.
pub async fn taken<T>(
    taking: impl Future<Output = Result<T, LocalSessionManagerError>>,
) -> Result<T, SessionError> {
    match tokio::time::timeout(TAKE_LIMIT, taking).await {
        Ok(taken) => Ok(taken?),
        Err(_) => Err(SessionError::Stuck),
    }
}

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// Every session that could give way is in use.
    #[error("every session is in use")]
    Full,
    /// The session's worker takes nothing, because nobody reads what it has sent.
    #[error("the session takes nothing more: its streams are not read")]
    Stuck,
    /// The session's worker has ended or cannot be reached.
    #[error(transparent)]
    Worker(#[from] LocalSessionManagerError),
}

/// One session as it is seen from outside.
#[derive(Debug)]
struct Entry {
    owner: String,
    calls: Calls,
    /// Requests and streams that are open.
    open: AtomicUsize,
    /// When the last of them ended.
    silent_since: Mutex<Instant>,
}

impl Entry {
    fn is_busy(&self) -> bool {
        self.open.load(Ordering::Acquire) > 0 || !self.calls.tracker.is_empty()
    }

    fn silent_since(&self) -> Instant {
        *self.silent_since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps a session from being silent.
#[derive(Debug)]
pub struct Busy(Arc<Entry>);

impl Busy {
    fn new(entry: &Arc<Entry>) -> Self {
        entry.open.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(entry))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        *self.0.silent_since.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.0.open.fetch_sub(1, Ordering::AcqRel);
    }
}

/// All sessions.
#[derive(Debug)]
pub struct Sessions {
    pub(super) local: LocalSessionManager,
    entries: Mutex<HashMap<SessionId, Arc<Entry>>>,
    /// Held while a session is made, so that the caps hold.
    making: tokio::sync::Mutex<()>,
    most: usize,
    most_per_owner: usize,
    idle: Duration,
}

impl Sessions {
    pub fn new(limits: &HttpLimits) -> Self {
        let mut config = SessionConfig::default();
        config.channel_capacity = limits.events.max(1);
        // Its own clock knows nothing of calls that run silently; ours does.
        config.keep_alive = None;
        let mut local = LocalSessionManager::default();
        local.session_config = config;
        Self {
            local,
            entries: Mutex::default(),
            making: tokio::sync::Mutex::default(),
            most: limits.sessions.max(1),
            most_per_owner: limits.sessions_per_caller.max(1),
            idle: limits.idle,
        }
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Entry>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a mark on the session if it lives and is this owner's.
    pub async fn find(&self, id: &str, owner: &str) -> Option<Busy> {
        self.end_silent().await;
        let entries = self.entries();
        let entry = entries.get(id).filter(|entry| entry.owner == owner)?;
        Some(Busy::new(entry))
    }

    /// Tells whether the session lives and is this owner's.
    pub fn has(&self, id: &str, owner: &str) -> bool {
        self.entries().get(id).is_some_and(|entry| entry.owner == owner)
    }

    /// Makes a session, ending one of the owner's that nobody uses when there are too many.
    pub async fn make(
        &self,
        owner: &str,
        calls: Calls,
    ) -> Result<(SessionId, WorkerTransport<LocalSessionWorker>), SessionError> {
        let _making = self.making.lock().await;
        self.end_silent().await;
        if let Some(id) = self.to_give_way(owner)? {
            tracing::debug!("a session gives way to a new one");
            self.end(&id).await?;
        }
        let (id, transport) = self.local.create_session().await?;
        let entry = Entry {
            owner: owner.to_owned(),
            calls,
            open: AtomicUsize::new(0),
            silent_since: Mutex::new(Instant::now()),
        };
        self.entries().insert(id.clone(), Arc::new(entry));
        Ok((id, transport))
    }

    fn to_give_way(&self, owner: &str) -> Result<Option<SessionId>, SessionError> {
        let entries = self.entries();
        let own = entries.iter().filter(|(_, entry)| entry.owner == owner);
        if entries.len() < self.most && own.clone().count() < self.most_per_owner {
            return Ok(None);
        }
        own.filter(|(_, entry)| !entry.is_busy())
            .min_by_key(|(_, entry)| entry.silent_since())
            .map(|(id, _)| Some(id.clone()))
            .ok_or(SessionError::Full)
    }

    async fn end_silent(&self) {
        let now = Instant::now();
        let silent: Vec<SessionId> = self
            .entries()
            .iter()
            .filter(|(_, entry)| !entry.is_busy() && now.duration_since(entry.silent_since()) >= self.idle)
            .map(|(id, _)| id.clone())
            .collect();
        for id in silent {
            tracing::debug!("a silent session ends");
            if let Err(error) = self.end(&id).await {
                tracing::debug!(%error, "the session's worker was gone");
            }
        }
    }

    /// Ends a session, cancelling what it still does.
    pub async fn end(&self, id: &SessionId) -> Result<(), SessionError> {
        if let Some(entry) = self.entries().remove(id) {
            entry.calls.cancel.cancel();
        }
        match tokio::time::timeout(CLOSE_LIMIT, self.local.close_session(id)).await {
            Ok(closed) => Ok(closed?),
            Err(_) => Ok(()),
        }
    }
}
