//! The five verbs, one file each, behind the one way in: [`Engine`] implements [`pentad_program::Verbs`].
//!
//! Every invocation takes the same path (`invoke`): parse, journal "called", judge, act, journal "returned", bound the
//! view. Adapters translate into an `Invocation` and out of an `Outcome`; nothing else happens outside.

mod acts;
mod builtin;
mod child;
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
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::Duration;

use async_trait::async_trait;
use pentad_catalog::{Catalog, Gate};
use pentad_model::thread::Thread;
use pentad_model::{GrantSet, Invocation, Name, Outcome};
use pentad_program::{
    Attendance, Program, Retired, RunControl, RunStore, Store, StoreError, ToolAuthor, Verbs,
};
use pentad_run::{Runtime, RuntimeParts, SystemClock, Takes};
use pentad_space::Space;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::child::{Attending, EngineInvoker, RecipeProgram};

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
    /// Child runs at work at once; others are queued.
    pub active: usize,
    /// Detached runs that have not ended, queued ones among them; 0 where nothing stays to execute them.
    pub detached: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            view_bytes: 8 * 1024,
            client_view_bytes: 32 * 1024,
            person_view_bytes: 64 * 1024 * 1024,
            call: Duration::from_secs(600),
            active: 64,
            detached: 1024,
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
    /// The same journal's durable runs.
    pub runs: Arc<dyn RunStore>,
    /// What child runs can execute besides recipes.
    pub programs: Vec<Arc<dyn Program>>,
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
    runtime: Arc<Runtime>,
    attending: Attending,
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
        Arc::new_cyclic(|engine| Self {
            clients: RwLock::new(std::mem::take(&mut parts.clients)),
            runtime: runtime(engine, &mut parts),
            parts,
            tasks: TaskTracker::new(),
            attending: Attending::default(),
            known_threads: Mutex::default(),
            asking: judge::Asking::default(),
            stopping: CancellationToken::new(),
        })
    }

    /// Takes over the runs of processes that are gone, and begins to execute what is queued, unless this engine lives for
    /// one command only.
    ///
    /// # Errors
    /// Fails when the journal cannot be written.
    pub async fn start(&self) -> Result<Retired, StoreError> {
        let takes = if self.parts.limits.detached > 0 {
            Takes::Queue
        } else {
            Takes::Own
        };
        self.runtime.start(takes).await
    }

    /// Cancels what is running and waits until it has ended, `limit` at most. Returns false when something is left.
    pub async fn shutdown(&self, limit: Duration) -> bool {
        self.stopping.cancel();
        self.tasks.close();
        let (runs, tasks) = tokio::join!(
            self.runtime.shutdown(limit),
            tokio::time::timeout(limit, self.tasks.wait())
        );
        runs && tasks.is_ok()
    }

    /// Tells whether a run has not ended, parked ones among them.
    pub async fn has_live_runs(&self) -> bool {
        // A journal that cannot be read says nothing; then staying is the safe answer.
        self.runtime
            .counts()
            .await
            .map_or(true, |counts| counts.running + counts.queued + counts.waiting > 0)
    }

    /// Returns what steers runs.
    #[must_use]
    pub fn control(&self) -> Arc<dyn RunControl> {
        Arc::clone(&self.runtime) as _
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

/// Returns what executes the engine's runs.
fn runtime(engine: &Weak<Engine>, parts: &mut EngineParts) -> Arc<Runtime> {
    let recipe = RecipeProgram {
        engine: Weak::clone(engine),
    };
    let mut programs = std::mem::take(&mut parts.programs);
    programs.push(Arc::new(recipe));
    let runtime = Runtime::new(RuntimeParts {
        store: Arc::clone(&parts.store),
        runs: Arc::clone(&parts.runs),
        invoker: Arc::new(EngineInvoker {
            engine: Weak::clone(engine),
        }),
        clock: Arc::new(SystemClock),
        programs,
        limits: pentad_run::Limits {
            active: parts.limits.active,
            ..pentad_run::Limits::default()
        },
    });
    let control: Arc<dyn RunControl> = Arc::clone(&runtime) as _;
    parts.space.attach_run_store(Arc::clone(&parts.runs));
    parts.space.attach_run_control(&control);
    runtime
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
