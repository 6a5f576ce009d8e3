//! From `[servers.NAME]` to sources of tools.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use pentad_catalog::Catalog;
use pentad_keeper::config::{OauthEntry, ServerEntry, Share};
use pentad_keeper::template::{Template, TemplateError};
use pentad_keeper::{Config, Home, Lookup, SecretValue, Secrets};
use pentad_mcp::{
    CommandLine, ConnectedServer, DEPTH_VARIABLE, Elicitor, Endpoint, LoginSettings, Reach, ServerConfig,
    ServerLimits, ServerLog, ServerRuntime, ToolTrust,
};
use pentad_process::{Spawner, clean_env};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

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

    /// Has the servers made again, at the next [`Self::apply`], whose entries refer to one of these variables.
    pub async fn forget_those_with(&self, names: &[OsString]) {
        self.known.lock().await.retain(|_, entry| {
            !entry
                .templates()
                .flat_map(|template| template.variables())
                .any(|name| names.iter().any(|new| new.as_os_str() == name))
        });
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
        let face = self.variables.all();
        let mut runtime = runtime(&self.home, config, &face, &self.spawner, &self.starts)?;
        runtime.log = Some(Arc::clone(&self.log));
        // Any face that attaches later may be able to show a form.
        runtime.elicitor = Some(Arc::clone(&self.elicitor));
        let lookup = HomeLookup {
            secrets: Secrets::of(&self.home),
            face,
            spawner: Arc::clone(&self.spawner),
            runtime: Handle::current(),
        };
        let limits = default_limits(config);
        let used = fresh
            .iter()
            .map(|(name, entry)| (name.clone(), values_of(entry, &lookup.secrets)));
        self.used.lock().await.extend(used);
        let making = tokio::task::spawn_blocking(move || {
            fresh
                .into_iter()
                .map(|(name, entry)| {
                    let made = server(&name, &entry, &limits, &runtime, &lookup);
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
) -> Result<Arc<ConnectedServer>, String> {
    let config = server_config(name, entry, limits, lookup)?;
    ConnectedServer::new(config, runtime.clone())
        .map(Arc::new)
        .map_err(|error| error.to_string())
}

/// Returns an entry of the configuration with its references resolved.
///
/// # Errors
/// Says in a sentence what cannot be used; no secret is in it.
pub fn server_config(
    name: &str,
    entry: &ServerEntry,
    limits: &ServerLimits,
    lookup: &dyn Lookup,
) -> Result<ServerConfig, String> {
    let reach = match &entry.url {
        Some(url) => Reach::Url(endpoint(url, entry, lookup)?),
        None => Reach::Command(command_line(entry, lookup).map_err(|error| error.to_string())?),
    };
    let mut config = ServerConfig::new(name, reach);
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
        ..limits.clone()
    };
    Ok(config)
}

fn resolve(template: &Template, lookup: &dyn Lookup) -> Result<String, TemplateError> {
    template.resolve(lookup).map(|value| value.reveal().to_owned())
}

fn resolve_all(
    templates: &BTreeMap<String, Template>,
    lookup: &dyn Lookup,
) -> Result<BTreeMap<String, String>, TemplateError> {
    templates
        .iter()
        .map(|(key, template)| Ok((key.clone(), resolve(template, lookup)?)))
        .collect()
}

fn command_line(entry: &ServerEntry, lookup: &dyn Lookup) -> Result<CommandLine, TemplateError> {
    let home_dir = std::env::var_os("HOME").map(PathBuf::from);
    let program = entry.command.as_ref().map(|command| resolve(command, lookup));
    Ok(CommandLine {
        program: program.transpose()?.unwrap_or_default(),
        args: entry
            .args
            .iter()
            .map(|arg| resolve(arg, lookup))
            .collect::<Result<_, _>>()?,
        env: resolve_all(&entry.env, lookup)?,
        cwd: entry
            .cwd
            .as_ref()
            .map(|cwd| pentad_keeper::doctor::expand_tilde(cwd, home_dir.as_deref())),
    })
}

fn endpoint(url: &Template, entry: &ServerEntry, lookup: &dyn Lookup) -> Result<Endpoint, String> {
    let text = |error: TemplateError| error.to_string();
    let url = resolve(url, lookup).map_err(text)?;
    let headers = resolve_all(&entry.headers, lookup).map_err(text)?;
    let mut endpoint = Endpoint::new(&url, &headers).map_err(|error| error.to_string())?;
    if let Some(oauth) = &entry.oauth {
        endpoint.login = login(oauth, lookup).map_err(text)?;
    }
    Ok(endpoint)
}

fn login(oauth: &OauthEntry, lookup: &dyn Lookup) -> Result<LoginSettings, TemplateError> {
    let optional = |template: &Option<Template>| {
        template
            .as_ref()
            .map(|template| resolve(template, lookup))
            .transpose()
    };
    Ok(LoginSettings {
        client_id: optional(&oauth.client_id)?,
        client_secret: optional(&oauth.client_secret)?,
        client_metadata_url: oauth.client_metadata_url.clone(),
        scopes: oauth.scopes.clone(),
        redirect_port: oauth.redirect_port,
    })
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
    config: &Config,
    face: &BTreeMap<OsString, OsString>,
    spawner: &Arc<Spawner>,
    starts: &Arc<Semaphore>,
) -> anyhow::Result<ServerRuntime> {
    let env = clean_env(face, &config.env.names)
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
