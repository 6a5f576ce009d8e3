//! Following configuration, policy and secrets while a home is open.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use pentad_catalog::{Catalog, Gate};
use pentad_engine::{Engine, Redactor};
use pentad_keeper::{Config, Home};
use pentad_recipe::{RecipeSource, Watch};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::environment::Variables;
use super::servers::Servers;

/// Follows a home's own files until it is stopped.
pub struct Reload {
    watch: Option<Watch>,
    task: JoinHandle<()>,
}

/// What takes changes into force.
pub struct Followers {
    pub home: Home,
    pub servers: Arc<Servers>,
    pub catalog: Arc<Catalog>,
    pub gate: Arc<Gate>,
    pub redactor: Redactor,
    pub engine: Arc<Engine>,
    pub variables: Arc<Variables>,
    /// The configuration that the home was opened with.
    pub opened_with: Arc<Config>,
    /// The configuration in force.
    pub config: Arc<Mutex<Arc<Config>>>,
    /// What of the configuration in the file the next opening takes only.
    pub outdated: Arc<Mutex<Option<String>>>,
    pub recipes: Arc<RecipeSource>,
    /// What was there when it was last taken.
    pub seen: tokio::sync::Mutex<Marks>,
}

/// How files and folders looked.
#[derive(Default)]
pub struct Marks {
    files: Vec<Mark>,
    roots: Vec<Mark>,
}

impl Marks {
    /// Returns how the recipe roots look; taken before they are read, so that nothing which comes after is missed.
    pub fn of_roots(home: &Home, config: &Config) -> Self {
        let roots = std::iter::once(home.recipes()).chain(config.roots.iter().map(|root| root.path.clone()));
        Self {
            files: Vec::new(),
            roots: roots.map(|path| mark(&path)).collect(),
        }
    }
}

impl Reload {
    /// Starts following. Where the system cannot watch, changes are taken at the next start, and a warning says so.
    pub fn start(followers: Arc<Followers>) -> Self {
        let (changed, mut changes) = mpsc::channel(1);
        let roots = vec![followers.home.path().to_path_buf(), followers.home.keys()];
        let watch = Watch::start(
            roots,
            // A waiting signal is enough: whoever takes it reads everything.
            move || {
                let _ = changed.try_send(());
            },
            |reason| tracing::warn!(reason, "configuration is not followed any more"),
        );
        let watch = watch
            .inspect_err(|error| tracing::warn!(%error, "configuration is not followed"))
            .ok();
        let task = tokio::spawn(async move {
            while changes.recv().await.is_some() {
                followers.catch_up().await;
            }
        });
        Self { watch, task }
    }

    /// Stops following.
    pub async fn stop(self) {
        if let Some(watch) = self.watch {
            // The watch's thread ends at its next look; the channel closes with it.
            let _ = tokio::task::spawn_blocking(move || watch.stop()).await;
        } else {
            self.task.abort();
        }
        let _ = self.task.await;
    }
}

/// What of a file changes with its content.
type Mark = Option<(u64, u64, i64, i64)>;

fn mark(path: &Path) -> Mark {
    let found = std::fs::metadata(path).ok()?;
    Some((found.ino(), found.size(), found.mtime(), found.mtime_nsec()))
}

impl Followers {
    /// Takes into force whatever was saved before this was called, if that has not happened yet.
    pub async fn catch_up(&self) {
        let mut seen = self.seen.lock().await;
        let files = [
            self.home.config_file(),
            self.home.policy_file(),
            self.home.secrets_file(),
        ];
        let now = Marks {
            files: files.iter().map(|path| mark(path)).collect(),
            ..Marks::of_roots(&self.home, &self.opened_with)
        };
        if seen.files != now.files {
            let known = !seen.files.is_empty();
            if known && seen.files.last() != now.files.last() {
                self.servers.forget_those_with_secrets().await;
            }
            self.take().await;
        }
        if seen.roots != now.roots {
            let recipes = Arc::clone(&self.recipes);
            // A scan that panics has reported itself; the watcher scans again.
            let _ = tokio::task::spawn_blocking(move || recipes.look_again()).await;
        }
        *seen = now;
    }

    /// Reads everything again. What cannot be read leaves in force what was before, and is reported.
    async fn take(&self) {
        match super::secret_values(&self.home) {
            Ok(values) => self.redactor.replace(values),
            Err(error) => tracing::warn!(%error, "secrets could not be read again"),
        }
        match std::fs::read_to_string(self.home.policy_file()) {
            Ok(text) => {
                if let Err(error) = self.gate.reload(&text) {
                    tracing::warn!(%error, "the changed policy is not taken; the one before stays in force");
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                // An absent policy is the default one; parsing nothing cannot fail.
                let _ = self.gate.reload("");
            }
            Err(error) => tracing::warn!(%error, "the policy could not be read again"),
        }
        match Config::load(&self.home) {
            Ok(config) => self.apply(Arc::new(config)).await,
            Err(error) => tracing::warn!(%error, "the changed configuration is not taken"),
        }
    }

    async fn apply(&self, config: Arc<Config>) {
        self.variables.declare(config.env.names.clone());
        self.engine.configure_clients(super::clients(&config));
        if let Err(error) = self.servers.apply(&config, &self.catalog).await {
            tracing::warn!(%error, "changed servers were not taken");
        }
        let outdated = not_in_force(&self.opened_with, &config);
        *self.outdated.lock().unwrap_or_else(PoisonError::into_inner) = outdated;
        *self.config.lock().unwrap_or_else(PoisonError::into_inner) = config;
    }
}

/// Names the sections that are taken when a home is opened and differ now.
fn not_in_force(opened_with: &Config, now: &Config) -> Option<String> {
    let differing = [
        ("[limits]", opened_with.limits != now.limits),
        ("[[roots]]", opened_with.roots != now.roots),
        ("[call]", opened_with.call != now.call),
        ("[keeper]", opened_with.keeper != now.keeper),
    ];
    let names: Vec<&str> = differing
        .iter()
        .filter(|(_, differs)| *differs)
        .map(|(name, _)| *name)
        .collect();
    (!names.is_empty()).then(|| names.join(", "))
}
