//! Wiring: the one place where the parts of a home are put together.

mod desk;
mod entry;
mod environment;
mod explain;
mod forms;
mod http;
mod key;
mod logs;
mod lookup;
pub mod measure;
mod reload;
mod resources;
mod servers;
mod tokens;
mod unusable;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context as _;
use pentad_catalog::{Catalog, Gate, Policy};
use pentad_engine::{
    BuiltinParts, BuiltinSource, ClientSettings, Engine, EngineHandle, EngineParts, Redactor, ToolsFamily,
};
use pentad_journal::{Journal, JournalOptions};
use pentad_keeper::attach::Desk;
use pentad_keeper::{Config, Home, Secrets, known_client_configs};
use pentad_model::{Name, Timestamp};
use pentad_process::{Spawner, SpawnerProgram};
use pentad_program::{RunStore, Store, ToolAuthor, ToolSource};
use pentad_recipe::{
    Imports, Launchers, Library, OutputBounds, ProcessLaunchers, RecipeSource, Root, RootKind,
};
use pentad_space::{SelfFacts, Space, SpaceLimits, SpaceParts, WebPolicy};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::desk::LocalDesk;
pub use self::environment::Variables;
use self::explain::CatalogContracts;
use self::forms::OpenForms;
pub use self::key::{home_key, state_key};
use self::logs::JournalLog;
use self::reload::{Followers, Reload};
use self::resources::Resources;
use self::servers::Servers;
pub use self::servers::{default_limits, server_config};
pub use self::tokens::HomeTokens;

/// The argument with which our own binary becomes the spawner.
pub const SPAWNER_ARGUMENT: &str = "__spawner";
/// How long everything may take to end.
const CLOSE_LIMIT: Duration = Duration::from_secs(5);
/// How long HTTP may take to end: its own drain, and a moment.
const SERVE_LIMIT: Duration = Duration::from_secs(8);
/// How long a dead child is left to whoever started it.
const ORPHAN_PATIENCE: Duration = Duration::from_secs(2);

/// Whether files are followed while the home is open, or looked at when asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifetime {
    /// One command: nothing is watched, and recipes are read once.
    Once,
    /// A face that stays: recipe roots are watched.
    Long,
}

/// An opened home.
pub struct Opened {
    /// The journal.
    journal: Arc<Journal>,
    /// What faces ask of it.
    desk: Arc<LocalDesk>,
    /// Ends HTTP.
    closing: CancellationToken,
    /// Starts every process.
    spawner: Arc<Spawner>,
    /// Ends `reaper`.
    reaping: CancellationToken,
    /// Takes the exit status of orphans that come to this process.
    reaper: JoinHandle<()>,
    /// Follows the home's own files.
    reload: Option<Reload>,
}

/// Opens a home: journal, sources, gate, space, engine. Starts the spawner, and no server.
///
/// # Errors
/// Fails when the home, its database or the spawner cannot be used; the text says which and what to do.
pub async fn open(home: &Home, config: &Config, lifetime: Lifetime) -> anyhow::Result<Opened> {
    home.prepare()?;
    let variables = Variables::of_process(config.env.names.clone());
    let journal = Arc::new(Journal::open(&home.state(), JournalOptions::default())?);
    let store: Arc<dyn Store> = Arc::clone(&journal) as _;
    sweep(home).await?;
    let spawner = Arc::new(launch_spawner(home)?);
    let reaping = CancellationToken::new();
    let reaper = tokio::spawn({
        let (spawner, reaping) = (Arc::clone(&spawner), reaping.clone());
        async move { spawner.reap_orphans(ORPHAN_PATIENCE, &reaping).await }
    });
    let environment = environment::of_commands(Arc::clone(&variables));
    let bounds = OutputBounds {
        spill_cap: config.limits.spill_bytes,
        ..OutputBounds::default()
    };
    let launchers: Arc<dyn Launchers> =
        Arc::new(ProcessLaunchers::new(Arc::clone(&spawner), environment, bounds));

    let roots_before = reload::Marks::of_roots(home, config);
    let recipes = Arc::new(RecipeSource::open(
        "recipes",
        roots(home, config),
        Imports::default(),
        Arc::clone(&launchers),
    ));
    match lifetime {
        Lifetime::Long => recipes.watch(),
        Lifetime::Once => recipes.look_when_told(),
    }
    let library = Arc::new(Library::open(Arc::clone(&launchers)));
    let builtin = BuiltinSource::new(BuiltinParts {
        store: Arc::clone(&store),
        memory_dir: memory_dir(home),
    });
    let sources: Vec<Arc<dyn ToolSource>> = vec![
        Arc::clone(&builtin) as _,
        Arc::clone(&recipes) as _,
        Arc::clone(&library) as _,
    ];
    let catalog = Arc::new(Catalog::new(sources));
    builtin.attach(&catalog);
    let redactor = Redactor::new(secret_values(home)?);
    let log = Arc::new(JournalLog {
        store: Arc::clone(&store),
        redactor: redactor.clone(),
    });
    let forms = Arc::new(OpenForms::new(Arc::clone(&log) as _));
    let elicitor = Arc::clone(&forms) as _;
    let servers = Arc::new(Servers::new(home, &variables, &spawner, log, elicitor));
    servers.apply(config, &catalog).await?;

    let gate = Arc::new(Gate::new(
        Arc::clone(&store),
        policy(home),
        Arc::new(Timestamp::now),
    ));
    let mut space = space(home, config, &store);
    let runs: Arc<dyn RunStore> = Arc::clone(&journal) as _;
    let author: Arc<dyn ToolAuthor> = Arc::clone(&recipes) as _;
    space.register(Arc::new(ToolsFamily::new(
        Arc::clone(&catalog),
        Arc::clone(&author),
        Arc::clone(&store),
        Arc::clone(&gate),
    )));
    space.register(Arc::new(Resources {
        servers: Arc::clone(&servers),
        store: Arc::clone(&store),
        attachment_bytes: config.limits.attachment_bytes,
    }));
    let engine = Engine::new(EngineParts {
        store: Arc::clone(&store),
        runs: Arc::clone(&runs),
        programs: Vec::new(),
        catalog: Arc::clone(&catalog),
        space,
        gate: Arc::clone(&gate),
        author,
        runs_dir: home.runs(),
        memory_dir: memory_dir(home),
        redactor: redactor.clone(),
        clients: clients(config),
        limits: engine_limits(config, lifetime),
        strict_touch: config.call.strict_touch,
    });
    engine.start().await?;
    let config = Arc::new(config.clone());
    let in_force = Arc::new(Mutex::new(Arc::clone(&config)));
    let outdated = Arc::new(Mutex::new(None));
    let followers = Arc::new(Followers {
        home: home.clone(),
        servers: Arc::clone(&servers),
        catalog: Arc::clone(&catalog),
        gate: Arc::clone(&gate),
        redactor,
        engine: Arc::clone(&engine),
        variables: Arc::clone(&variables),
        opened_with: config,
        config: Arc::clone(&in_force),
        outdated: Arc::clone(&outdated),
        recipes: Arc::clone(&recipes),
        seen: tokio::sync::Mutex::new(roots_before),
    });
    let reload = (lifetime == Lifetime::Long).then(|| Reload::start(Arc::clone(&followers)));
    let desk = Arc::new(LocalDesk {
        home: home.clone(),
        config: in_force,
        outdated,
        followers,
        verbs: EngineHandle(engine),
        store,
        runs,
        contracts: CatalogContracts {
            catalog: Arc::clone(&catalog),
            recipes: Arc::clone(&recipes),
            library,
            launchers,
            gate,
        },
        catalog,
        recipes,
        servers,
        forms,
        variables,
        spawner: Arc::clone(&spawner),
        serving: TaskTracker::new(),
        wanted: Mutex::new(None),
    });
    Ok(Opened {
        journal,
        desk,
        closing: CancellationToken::new(),
        spawner,
        reaping,
        reaper,
        reload,
    })
}

impl Opened {
    /// Returns the desk of this home.
    pub fn desk(&self) -> Arc<dyn Desk> {
        Arc::clone(&self.desk) as _
    }

    /// Is cancelled when the home closes; what serves HTTP for this process's own face ends with it.
    pub const fn closing(&self) -> &CancellationToken {
        &self.closing
    }

    /// Ends what was started, in order: acts, sources, processes, journal. Each step is bounded.
    pub async fn close(self) {
        if let Some(reload) = self.reload {
            reload.stop().await;
        }
        self.closing.cancel();
        self.desk.serving.close();
        if tokio::time::timeout(SERVE_LIMIT, self.desk.serving.wait())
            .await
            .is_err()
        {
            tracing::warn!("HTTP was still being served after {SERVE_LIMIT:?}");
        }
        if !self.desk.verbs.0.shutdown(CLOSE_LIMIT).await {
            tracing::warn!("acts were still in progress after {CLOSE_LIMIT:?}");
        }
        let catalog = &self.desk.catalog;
        for status in catalog.statuses() {
            if let Some(source) = catalog.source(&status.source) {
                source.shutdown(Duration::from_secs(3)).await;
            }
        }
        self.reaping.cancel();
        // It was cancelled just now, and ends at its next step.
        let _ = self.reaper.await;
        self.spawner.shutdown(CLOSE_LIMIT).await;
        if let Err(error) = self.journal.close().await {
            tracing::warn!(%error, "the journal was not closed in order");
        }
    }
}

/// Ends and reports what earlier processes of this home left when every guard of theirs was killed.
async fn sweep(home: &Home) -> anyhow::Result<()> {
    let state = home.state();
    for leftover in tokio::task::spawn_blocking(move || pentad_process::sweep(&state)).await?? {
        tracing::warn!(pid = leftover.pid, command = %leftover.command, ended = leftover.ended, "left by an earlier run");
    }
    Ok(())
}

fn launch_spawner(home: &Home) -> anyhow::Result<Spawner> {
    let exe = own_executable().context("find this program's own file")?;
    let program = SpawnerProgram {
        exe,
        args: vec![SPAWNER_ARGUMENT.into()],
    };
    Ok(Spawner::launch_with_ledger(program, &home.state())?)
}

/// Returns this program's file. The kernel's own link works even after the file was replaced.
pub fn own_executable() -> std::io::Result<PathBuf> {
    let link = PathBuf::from("/proc/self/exe");
    if link.exists() {
        Ok(link)
    } else {
        std::env::current_exe()
    }
}

fn memory_dir(home: &Home) -> PathBuf {
    home.path().join("memory")
}

fn roots(home: &Home, config: &Config) -> Vec<Root> {
    let home_dir = std::env::var_os("HOME").map(PathBuf::from);
    let own = Root::at(home.recipes(), RootKind::User);
    let further = config.roots.iter().map(|entry| {
        let path = pentad_keeper::doctor::expand_tilde(&entry.path, home_dir.as_deref());
        let mut root = Root::at(path, RootKind::User);
        if entry.format == pentad_keeper::config::RootFormat::PiActors {
            root.format = pentad_recipe::RootFormat::PiActors;
        }
        root
    });
    std::iter::once(own).chain(further).collect()
}

/// Reads the policy. A broken one allows nothing that was not allowed before: only a person acts until it is repaired.
fn policy(home: &Home) -> Policy {
    match std::fs::read_to_string(home.policy_file()) {
        Ok(text) => Policy::parse(&text).unwrap_or_else(|error| {
            tracing::error!(file = %home.policy_file().display(), %error, "the policy cannot be read");
            Policy::broken(&error)
        }),
        Err(_) => Policy::default(),
    }
}

/// Returns the values of all secrets of the home, to be masked.
fn secret_values(home: &Home) -> anyhow::Result<Vec<String>> {
    let secrets = Secrets::of(home);
    let mut values = Vec::new();
    for name in secrets.list()? {
        if let Some(value) = secrets.get(&name)? {
            values.push(value.reveal().to_owned());
        }
    }
    Ok(values)
}

fn clients(config: &Config) -> BTreeMap<Name, ClientSettings> {
    config
        .clients
        .iter()
        .map(|(name, entry)| {
            let grants = entry.grants.clone().unwrap_or_default();
            (
                name.clone(),
                ClientSettings {
                    agent: entry.agent.clone(),
                    grants,
                },
            )
        })
        .collect()
}

fn bytes(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

fn engine_limits(config: &Config, lifetime: Lifetime) -> pentad_engine::Limits {
    pentad_engine::Limits {
        view_bytes: bytes(config.limits.view_bytes),
        client_view_bytes: bytes(config.limits.client_view_bytes),
        call: config.limits.call_seconds.0,
        active: bytes(config.limits.active_runs),
        // What is detached needs a process that stays.
        detached: if lifetime == Lifetime::Long {
            bytes(config.limits.detached_runs)
        } else {
            0
        },
        ..pentad_engine::Limits::default()
    }
}

fn space(home: &Home, config: &Config, store: &Arc<dyn Store>) -> Space {
    let mut forbidden = vec![home.path().to_path_buf()];
    if let Some(dir) = std::env::var_os("HOME") {
        forbidden.extend(known_client_configs(&PathBuf::from(dir)));
    }
    // Backups of clients' files are as full of keys as the files were.
    let imported = pentad_import::record::Record::all(home);
    forbidden.extend(
        imported
            .into_iter()
            .flat_map(|record| [record.target, record.backup]),
    );
    let limits = SpaceLimits {
        attachment_bytes: config.limits.attachment_bytes,
        ..SpaceLimits::default()
    };
    let words = [
        (
            "view for our agents",
            format!("{} bytes", config.limits.view_bytes),
        ),
        (
            "view for clients",
            format!("{} bytes", config.limits.client_view_bytes),
        ),
        ("one call", config.limits.call_seconds.to_string()),
        (
            "one attachment",
            format!("{} bytes", config.limits.attachment_bytes),
        ),
    ];
    Space::new(SpaceParts {
        store: Arc::clone(store),
        memory_root: memory_dir(home),
        agents_dir: home.agents(),
        forbidden,
        limits,
        web: WebPolicy::default(),
        facts: SelfFacts {
            build: format!("pentad {}", env!("CARGO_PKG_VERSION")),
            limits: words.map(|(name, value)| (name.to_owned(), value)).into(),
        },
    })
}
