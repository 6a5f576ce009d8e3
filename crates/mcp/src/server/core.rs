//! What all processes of one server share: its configuration, its manifest, its documents.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use pentad_model::ToolDocument;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::config::ServerConfig;
use super::document::documents;
use super::elicit::Elicitor;
use super::endpoint::Endpoint;
use super::fingerprint::fingerprint;
use super::http::Remote;
use super::launch::ServerLauncher;
use super::log::ServerLog;
use super::login::{LoginBoard, TokenStore};
use super::manifest::Manifest;
use super::start::StartFailure;
use super::stderr::Mask;

/// What every server of a home needs.
#[derive(Clone)]
pub struct ServerRuntime {
    /// Starts processes.
    pub launcher: Arc<dyn ServerLauncher>,
    /// Where manifests are kept; may be deleted at any time.
    pub cache_dir: PathBuf,
    /// Variables that every server gets: what the home passes on, `PATH` above all.
    pub env: BTreeMap<String, String>,
    /// The home's key for the hash of a server's variables.
    pub env_key: Vec<u8>,
    /// The working folder of servers that are shared by the home.
    pub home_dir: PathBuf,
    /// The program that runs, which no server may be.
    pub own_executable: Option<PathBuf>,
    /// How many of us lie around this process, from [`DEPTH_VARIABLE`](super::DEPTH_VARIABLE).
    pub depth: u32,
    /// Bounds how many servers start at a time.
    pub starts: Arc<Semaphore>,
    /// The logins at servers that are reached by URL.
    pub tokens: Arc<dyn TokenStore>,
    /// Puts forms before a person that belong to no single call; those of one call go to whoever is behind it. Without
    /// an elicitor, servers are told that they cannot ask.
    pub elicitor: Option<Arc<dyn Elicitor>>,
    /// Keeps what servers log during a call.
    pub log: Option<Arc<dyn ServerLog>>,
}

/// The shared state of one server.
pub struct Core {
    pub config: ServerConfig,
    pub runtime: ServerRuntime,
    pub fingerprint: String,
    /// Whether a person has to log in.
    pub login: LoginBoard,
    remote: OnceLock<Result<Remote, String>>,
    /// Owns every task of the server.
    pub tasks: TaskTracker,
    pub shutdown: CancellationToken,
    known: RwLock<Known>,
    generation: AtomicU64,
}

struct Known {
    manifest: Option<Arc<Manifest>>,
    documents: Arc<[Arc<ToolDocument>]>,
    by_name: HashMap<String, Arc<ToolDocument>>,
}

impl Known {
    fn new(config: &ServerConfig, manifest: Option<Manifest>) -> Self {
        let documents = match &manifest {
            Some(manifest) => documents(config, manifest),
            None => Arc::new([]),
        };
        let by_name = documents
            .iter()
            .map(|document| (document.tool.name.clone(), Arc::clone(document)))
            .collect();
        Self {
            manifest: manifest.map(Arc::new),
            documents,
            by_name,
        }
    }
}

impl Core {
    /// Reads what is known from the last time.
    pub fn new(config: ServerConfig, runtime: ServerRuntime) -> Self {
        let fingerprint = fingerprint(&config, &runtime.env_key);
        let manifest = Manifest::load(&runtime.cache_dir, &config.name, &fingerprint);
        let known = RwLock::new(Known::new(&config, manifest));
        let login = LoginBoard::load(&runtime.cache_dir, &config.name, &fingerprint);
        Self {
            config,
            runtime,
            fingerprint,
            login,
            remote: OnceLock::new(),
            tasks: TaskTracker::new(),
            shutdown: CancellationToken::new(),
            known,
            generation: AtomicU64::new(1),
        }
    }

    /// Returns what hides this server's secrets in its own words.
    pub fn mask(&self) -> Mask {
        Mask::new(&self.config.confidential())
    }

    /// Returns what all connections to a server over HTTP share; made by the first one.
    ///
    /// # Errors
    /// Fails when the HTTP client cannot be made, which another try would not change.
    pub fn remote(&self, endpoint: &Endpoint) -> Result<Remote, StartFailure> {
        let (name, tokens) = (&self.config.name, &self.runtime.tokens);
        self.remote
            .get_or_init(|| Remote::new(name, endpoint, tokens))
            .clone()
            .map_err(|why| StartFailure::new(format!("server '{name}' cannot be reached: {why}")))
    }

    pub fn manifest(&self) -> Option<Arc<Manifest>> {
        self.read().manifest.clone()
    }

    pub fn documents(&self) -> Arc<[Arc<ToolDocument>]> {
        Arc::clone(&self.read().documents)
    }

    pub fn document(&self, name: &str) -> Option<Arc<ToolDocument>> {
        self.read().by_name.get(name).cloned()
    }

    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Replaces what is known, and keeps it on disk.
    pub async fn publish(&self, manifest: Manifest) {
        let same_tools = self.manifest().is_some_and(|old| old.tools == manifest.tools);
        if self.manifest().is_some_and(|old| *old == manifest) {
            return;
        }
        {
            let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
            if same_tools {
                known.manifest = Some(Arc::new(manifest.clone()));
            } else {
                *known = Known::new(&self.config, Some(manifest.clone()));
                self.generation.fetch_add(1, Ordering::AcqRel);
            }
        }
        let (folder, name) = (self.runtime.cache_dir.clone(), self.config.name.clone());
        let stored = tokio::task::spawn_blocking(move || manifest.store(&folder, &name)).await;
        if let Ok(Err(error)) = stored {
            // It is a cache: the server is asked again after the next start.
            tracing::warn!(%error, "the tools of a server are not remembered");
        }
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }
}
