//! From `[servers.NAME]` to sources of tools.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use pentad_catalog::Catalog;
use pentad_keeper::config::{ServerEntry, Share};
use pentad_keeper::{Config, Home, Lookup, SecretValue, Secrets};
use pentad_mcp::{
    ConnectedServer, DEPTH_VARIABLE, Elicitor, ServerConfig, ServerLimits, ServerLog, ServerRuntime,
    ToolTrust,
};
use pentad_model::{Refusal, RefusalKind};
use pentad_process::{Spawner, clean_env};
use pentad_program::{Environment, Readiness, SourceStatus, ToolSource as _};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use super::entry::way;
use super::environment::Variables;
use super::lookup::HomeLookup;
use super::tokens::HomeTokens;
use super::unusable::Unusable;

/// How many servers start at a time.
const STARTS: usize = 4;
/// How long a removed server may take to end.
const STOP_LIMIT: Duration = Duration::from_secs(3);

/// The configured servers of an open home.
pub struct Servers {
    home: Home,
    variables: Arc<Variables>,
    spawner: Arc<Spawner>,
    starts: Arc<Semaphore>,
    log: Arc<dyn ServerLog>,
    elicitor: Arc<dyn Elicitor>,
    /// What is in force, by name.
    known: tokio::sync::Mutex<BTreeMap<String, ServerEntry>>,
    /// The secrets that each was made with.
    used: tokio::sync::Mutex<BTreeMap<String, UsedSecrets>>,
    usable: RwLock<BTreeMap<String, Arc<ConnectedServer>>>,
}

impl Servers {
    /// Returns an empty set for a home.
    pub fn new(
        home: &Home,
        variables: &Arc<Variables>,
        spawner: &Arc<Spawner>,
        log: Arc<dyn ServerLog>,
        elicitor: Arc<dyn Elicitor>,
    ) -> Self {
        Self {
            home: home.clone(),
            variables: Arc::clone(variables),
            spawner: Arc::clone(spawner),
            starts: Arc::new(Semaphore::new(STARTS)),
            log,
            elicitor,
            known: tokio::sync::Mutex::default(),
            used: tokio::sync::Mutex::default(),
            usable: RwLock::default(),
        }
    }

    /// Returns a server that can be used.
    pub fn get(&self, name: &str) -> Option<Arc<ConnectedServer>> {
        self.usable
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(name)
            .map(Arc::clone)
    }

    /// Returns the names of the servers that can be used.
    pub fn names(&self) -> Vec<String> {
        self.usable
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .keys()
            .cloned()
            .collect()
    }

    /// Makes the catalog have exactly the servers that the configuration has. A server whose entry did not change is
    /// not touched; one that cannot be used becomes a source that says why.
    ///
    /// # Errors
    /// Fails only when the home's own key cannot be read or made.
    pub async fn apply(&self, config: &Config, catalog: &Catalog) -> anyhow::Result<()> {
        let mut known = self.known.lock().await;
        let wanted: BTreeMap<String, ServerEntry> = config
            .servers
            .iter()
            .filter(|(_, s)| !s.disabled)
            .map(|(n, s)| (n.clone(), s.clone()))
            .collect();
        let stale: Vec<String> = known
            .iter()
            .filter(|(n, s)| wanted.get(*n) != Some(s))
            .map(|(n, _)| n.clone())
            .collect();
        let fresh: Vec<(String, ServerEntry)> = wanted
            .iter()
            .filter(|(n, s)| known.get(*n) != Some(s))
            .map(|(n, s)| (n.clone(), s.clone()))
            .collect();
        let remade = fresh.iter().map(|(name, _)| name.clone());
        let gone: BTreeSet<String> = stale.into_iter().chain(remade).collect();
        for name in gone {
            self.usable
                .write()
                .unwrap_or_else(PoisonError::into_inner)
                .remove(&name);
            if let Some(source) = catalog.remove_source(&name) {
                source.shutdown(STOP_LIMIT).await;
            }
        }
        if !fresh.is_empty() {
            for (name, made) in self.make(config, fresh).await? {
                match made {
                    Ok(server) => {
                        catalog.add_source(Arc::clone(&server) as _);
                        self.usable
                            .write()
                            .unwrap_or_else(PoisonError::into_inner)
                            .insert(name, server);
                    }
                    Err(why) => catalog.add_source(Arc::new(Unusable::new(&name, why))),
                }
            }
        }
        *known = wanted;
        Ok(())
    }

    /// Starts a server although it failed too often to be tried by itself. One that could not be used at all is made
    /// again first: what it lacked may be there by now.
    ///
    /// # Errors
    /// Refuses names of no server, and says why one could not be started.
    pub async fn open_again(
        &self,
        name: &str,
        config: &Config,
        catalog: &Catalog,
        environment: Option<&Environment>,
    ) -> Result<SourceStatus, Refusal> {
        if self.get(name).is_none() {
            self.known.lock().await.remove(name);
            if let Err(error) = self.apply(config, catalog).await {
                let text = format!("The server '{name}' cannot be made again: {error:#}.");
                return Err(Refusal::new(RefusalKind::Unavailable, name, text)
                    .next_step("pentad doctor lists what is wrong"));
            }
        }
        if let Some(server) = self.get(name) {
            server.open_again(environment).await?;
            return Ok(server.status());
        }
        Err(match config.servers.get(name) {
            Some(entry) if entry.disabled => {
                let text = format!("The server '{name}' is switched off.");
                Refusal::new(RefusalKind::Unavailable, name, text)
                    .next_step(format!("a person removes disabled from [servers.{name}]"))
            }
            Some(_) => {
                let status = catalog.source(name).map(|source| source.status().readiness);
                let why = match status {
                    Some(Readiness::Disabled { error }) => error,
                    _ => "its entry is not in force".to_owned(),
                };
                Unusable::new(name, why).refusal()
            }
            None => {
                let text = format!("There is no connected server '{name}'.");
                Refusal::new(RefusalKind::NotFound, name, text)
                    .supported(config.servers.keys())
                    .next_step(format!("pentad connect {name} -- COMMAND connects one"))
            }
        })
    }

    /// Has the servers made again whose entries refer to secrets that have changed since they were made. A token that is
    /// renewed is a changed secret as well, and no reason to end anything.
    pub async fn forget_those_with_secrets(&self) {
        let mut known = self.known.lock().await;
        let used = self.used.lock().await;
        let secrets = Secrets::of(&self.home);
        known.retain(|name, entry| used.get(name) == Some(&values_of(entry, &secrets)));
    }

    async fn make(&self, config: &Config, fresh: Vec<(String, ServerEntry)>) -> anyhow::Result<Vec<Made>> {
        let own = self.variables.own();
        let mut runtime = runtime(&self.home, own, &self.spawner, &self.starts)?;
        runtime.log = Some(Arc::clone(&self.log));
        // Any face that attaches later may be able to show a form.
        runtime.elicitor = Some(Arc::clone(&self.elicitor));
        let lookup = HomeLookup {
            secrets: Secrets::of(&self.home),
            face: own.clone(),
            spawner: Arc::clone(&self.spawner),
            runtime: Handle::current(),
        };
        let limits = default_limits(config);
        let variables = Arc::clone(&self.variables);
        let used = fresh
            .iter()
            .map(|(name, entry)| (name.clone(), values_of(entry, &lookup.secrets)));
        self.used.lock().await.extend(used);
        let making = tokio::task::spawn_blocking(move || {
            fresh
                .into_iter()
                .map(|(name, entry)| {
                    let made = server(&name, &entry, &limits, &runtime, &lookup, &variables);
                    (name, made)
                })
                .collect()
        });
        Ok(making.await?)
    }
}

/// The secrets that an entry refers to, with their values.
type UsedSecrets = BTreeMap<String, Option<SecretValue>>;

fn values_of(entry: &ServerEntry, secrets: &Secrets) -> UsedSecrets {
    entry
        .templates()
        .flat_map(|template| template.secrets())
        .map(|name| (name.to_string(), secrets.get(name).ok().flatten()))
        .collect()
}

/// A server, or why it cannot be used.
type Made = (String, Result<Arc<ConnectedServer>, String>);

fn server(
    name: &str,
    entry: &ServerEntry,
    limits: &ServerLimits,
    runtime: &ServerRuntime,
    lookup: &HomeLookup,
    variables: &Arc<Variables>,
) -> Result<Arc<ConnectedServer>, String> {
    let config = server_config(name, entry, limits, lookup, variables)?;
    ConnectedServer::new(config, runtime.clone())
        .map(Arc::new)
        .map_err(|error| error.to_string())
}

/// Returns an entry of the configuration, with its references resolved but for the variables of callers.
///
/// # Errors
/// Says in a sentence what cannot be used; no secret is in it.
pub fn server_config(
    name: &str,
    entry: &ServerEntry,
    limits: &ServerLimits,
    lookup: &dyn Lookup,
    variables: &Arc<Variables>,
) -> Result<ServerConfig, String> {
    let mut config = ServerConfig::new(name, way(name, entry, lookup, variables)?);
    config.share = match entry.share.unwrap_or(Share::Home) {
        Share::Home => pentad_mcp::Share::Home,
        Share::Workspace => pentad_mcp::Share::Workspace,
        Share::Thread => pentad_mcp::Share::Thread,
    };
    config.trust = entry.trust;
    config.tools = entry
        .tools
        .iter()
        .map(|(tool, t)| {
            let trust = ToolTrust {
                read_only: t.read_only,
                destructive: t.destructive,
                idempotent: t.idempotent,
            };
            (tool.clone(), trust)
        })
        .collect();
    config.limits = ServerLimits {
        start_timeout: entry.start_timeout.map_or(limits.start_timeout, |p| p.0),
        idle_timeout: entry.idle_timeout.map_or(limits.idle_timeout, |p| p.0),
        call_timeout: entry.call_timeout.map_or(limits.call_timeout, |p| p.0),
        max_copies: entry.max_copies.map_or(limits.max_copies, NonZeroUsize::get),
        ..limits.clone()
    };
    Ok(config)
}

/// Returns the limits of a server whose entry names none.
pub fn default_limits(config: &Config) -> ServerLimits {
    ServerLimits {
        start_timeout: config.limits.start_seconds.0,
        idle_timeout: config.limits.idle_seconds.0,
        call_timeout: config.limits.call_seconds.0,
        ..ServerLimits::default()
    }
}

fn runtime(
    home: &Home,
    own: &BTreeMap<OsString, OsString>,
    spawner: &Arc<Spawner>,
    starts: &Arc<Semaphore>,
) -> anyhow::Result<ServerRuntime> {
    // What the configuration declares besides comes from whoever calls.
    let env = clean_env(own, &[])
        .into_iter()
        .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let depth = std::env::var(DEPTH_VARIABLE)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(0);
    Ok(ServerRuntime {
        launcher: Arc::new(pentad_mcp::SpawnerLauncher::new(Arc::clone(spawner))),
        cache_dir: home.cache(),
        env,
        env_key: super::key::home_key(home)?,
        home_dir: home.path().to_path_buf(),
        own_executable: std::env::current_exe().ok(),
        depth,
        starts: Arc::clone(starts),
        tokens: Arc::new(HomeTokens::of(home)),
        elicitor: None,
        log: None,
    })
}
