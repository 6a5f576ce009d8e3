//! The five verbs, one file each, behind the one way in: [`Engine`] implements [`pentad_program::Verbs`].
//!
//! Every invocation takes the same path (`invoke`): parse, journal "called", judge, act, journal "returned", bound the
//! view. Adapters translate into an `Invocation` and out of an `Outcome`; nothing else happens outside.

mod acts;
mod builtin;
mod invoke;
mod judge;
mod record;
mod redact;
mod threads;
mod tools;
mod verbs;
mod view;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use pentad_catalog::{Catalog, Gate};
use pentad_model::thread::Thread;
use pentad_model::{GrantSet, Invocation, Name, Outcome};
use pentad_program::{Attendance, Store, ToolAuthor, Verbs};
use pentad_space::Space;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use self::builtin::{BuiltinParts, BuiltinSource};
pub use self::redact::Redactor;
pub use self::tools::ToolsFamily;

/// Limits of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of text that our own agents see of one result.
    pub view_bytes: usize,
    /// Bytes of text that MCP and HTTP clients see of one result.
    pub client_view_bytes: usize,
    /// Bytes of text that a person's shell gets of one result.
    pub person_view_bytes: usize,
    /// How long one call may take.
    pub call: Duration,
    /// Detached runs at once.
    pub detached: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            view_bytes: 8 * 1024,
            client_view_bytes: 32 * 1024,
            person_view_bytes: 64 * 1024 * 1024,
            call: Duration::from_secs(600),
            detached: 64,
        }
    }
}

/// What a configured client brings along.
#[derive(Debug, Clone, Default)]
pub struct ClientSettings {
    /// The agent that its new threads use.
    pub agent: Option<Name>,
    /// What it may do without being asked.
    pub grants: GrantSet,
}

/// What an engine is made of.
pub struct EngineParts {
    /// The journal.
    pub store: Arc<dyn Store>,
    /// All tools.
    pub catalog: Arc<Catalog>,
    /// All address families.
    pub space: Space,
    /// The judge.
    pub gate: Arc<Gate>,
    /// Writes tool files.
    pub author: Arc<dyn ToolAuthor>,
    /// Where each run gets its folder.
    pub runs_dir: PathBuf,
    /// Where each agent's memory lies.
    pub memory_dir: PathBuf,
    /// Masks secret values.
    pub redactor: Redactor,
    /// Configured clients by name.
    pub clients: BTreeMap<Name, ClientSettings>,
    /// Limits.
    pub limits: Limits,
    /// True removes the exception that a trusted read-only tool runs on first touch.
    pub strict_touch: bool,
}

/// Executes verbs.
pub struct Engine {
    parts: EngineParts,
    tasks: TaskTracker,
    slots: Arc<Semaphore>,
    clients: RwLock<BTreeMap<Name, ClientSettings>>,
    /// Threads that adapters found by their key; what is kept of them never changes.
    known_threads: Mutex<HashMap<String, Thread>>,
    /// Questions that are before people.
    asking: judge::Asking,
    stopping: CancellationToken,
}

impl Engine {
    /// Returns an engine; it starts nothing by itself.
    #[must_use]
    pub fn new(mut parts: EngineParts) -> Arc<Self> {
        let slots = Arc::new(Semaphore::new(parts.limits.detached));
        Arc::new(Self {
            clients: RwLock::new(std::mem::take(&mut parts.clients)),
            parts,
            tasks: TaskTracker::new(),
            slots,
            known_threads: Mutex::default(),
            asking: judge::Asking::default(),
            stopping: CancellationToken::new(),
        })
    }

    /// Cancels what is running and waits until it has ended, `limit` at most. Returns false when something is left.
    pub async fn shutdown(&self, limit: Duration) -> bool {
        self.stopping.cancel();
        self.tasks.close();
        tokio::time::timeout(limit, self.tasks.wait()).await.is_ok()
    }

    /// Returns how many detached runs are in progress.
    #[must_use]
    pub fn detached_runs(&self) -> usize {
        self.parts
            .limits
            .detached
            .saturating_sub(self.slots.available_permits())
    }

    /// Takes what is configured for clients by now.
    pub fn configure_clients(&self, clients: BTreeMap<Name, ClientSettings>) {
        *self.clients.write().unwrap_or_else(PoisonError::into_inner) = clients;
    }

    /// Returns what is configured for a client.
    pub(crate) fn client(&self, name: &Name) -> Option<ClientSettings> {
        self.clients
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(name)
            .cloned()
    }

    /// Returns the catalog, for listings that need no journal entry.
    #[must_use]
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.parts.catalog
    }

    /// Returns the gate, through which a person answers approvals.
    #[must_use]
    pub fn gate(&self) -> &Arc<Gate> {
        &self.parts.gate
    }
}

/// An engine that can be handed to adapters: it owns what it started.
#[derive(Clone)]
pub struct EngineHandle(pub Arc<Engine>);

#[async_trait]
impl Verbs for EngineHandle {
    async fn invoke(&self, invocation: Invocation, attendance: Attendance) -> Outcome {
        // The act runs as a task of the engine: an adapter that goes away cancels it through the attendance, but
        // never cuts it off between an effect and its record.
        let engine = Arc::clone(&self.0);
        let verb = invocation.verb;
        let task = self
            .0
            .tasks
            .spawn(async move { engine.run_invocation(invocation, attendance).await });
        match task.await {
            Ok(outcome) => outcome,
            Err(error) => invoke::crashed(verb, &error.to_string()),
        }
    }
}
