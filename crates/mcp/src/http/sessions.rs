//! The sessions of revisions before 2026-07-28: whose they are, how many there may be, and when a silent one ends.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::WorkerTransport;
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError, LocalSessionWorker, SessionConfig,
};
use rmcp::transport::streamable_http_server::session::{SessionId, SessionManager as _};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::caller::HttpLimits;
use super::outlet::{Outlet, Place, Reader};
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
    /// The stream ended too long ago, or never was.
    #[error("the stream is no longer kept")]
    Forgotten,
    /// The session's worker takes nothing, because nobody reads what it has sent.
    #[error("the session takes nothing more: its streams are not read")]
    Stuck,
    /// The session's worker has ended or cannot be reached.
    #[error(transparent)]
    Worker(#[from] LocalSessionManagerError),
}

/// How long the end of a stream is kept for a client whose connection broke.
const KEEP: Duration = Duration::from_secs(60);
/// How many streams of one session are kept.
const STREAMS: usize = 64;

/// One session as it is seen from outside.
#[derive(Debug)]
struct Entry {
    owner: String,
    calls: Calls,
    /// The streams of its requests, by the request's number.
    outlets: Mutex<BTreeMap<u64, Arc<Outlet>>>,
    /// Requests and streams that are open.
    open: AtomicUsize,
    /// When the last of them ended.
    silent_since: Mutex<Instant>,
}

impl Entry {
    fn is_busy(&self) -> bool {
        self.open.load(Ordering::Acquire) > 0 || !self.calls.tracker.is_empty()
    }

    fn outlets(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Outlet>>> {
        self.outlets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the stream of a request; those that ended a while ago go, and the oldest when there are too many.
    fn keep(&self, request: u64, outlet: &Arc<Outlet>) {
        let mut outlets = self.outlets();
        outlets.retain(|_, outlet| outlet.ended().is_none_or(|ended| ended.elapsed() < KEEP));
        if outlets.len() >= STREAMS {
            let _oldest = outlets.pop_first();
        }
        outlets.insert(request, Arc::clone(outlet));
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
    /// Holds a task for each stream that is open.
    filling: TaskTracker,
    events: usize,
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
            filling: TaskTracker::new(),
            events: limits.events,
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
            outlets: Mutex::default(),
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

    /// Sends a request into a session and returns the stream of what comes back.
    pub async fn stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<Reader, SessionError> {
        let mut stream = Box::pin(taken(self.local.create_stream(id, message)).await?);
        let outlet = Outlet::new(self.events);
        let entry = self.entries().get(id).cloned();
        // The first event tells nothing but the stream's place; it is there as soon as the stream is.
        if let Some(first) = stream.next().await {
            let place = first.event_id.as_deref().and_then(Place::of);
            if let (Some(place), Some(entry)) = (place, entry) {
                entry.keep(place.request, &outlet);
            }
            outlet.push(first);
        }
        self.filling.spawn(Arc::clone(&outlet).fill(stream));
        Ok(outlet.read(0))
    }

    /// Returns the rest of a stream after an event, if the session still keeps it.
    pub fn rest(&self, id: &SessionId, after: Place) -> Option<Reader> {
        let entry = self.entries().get(id).cloned()?;
        let outlet = entry.outlets().get(&after.request).cloned()?;
        Some(outlet.read(after.index.saturating_add(1)))
    }

    /// Waits until the streams of ended sessions have ended, within a limit.
    pub async fn settle(&self) {
        self.filling.close();
        if tokio::time::timeout(CLOSE_LIMIT, self.filling.wait())
            .await
            .is_err()
        {
            tracing::debug!("streams of ended sessions were still open");
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
