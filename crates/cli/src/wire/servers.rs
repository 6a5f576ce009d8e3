//! From `[servers.NAME]` to sources of tools.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use pentad_keeper::config::{ServerEntry, Share};
use pentad_keeper::template::TemplateError;
use pentad_keeper::{Config, Home, Secrets};
use pentad_mcp::{DEPTH_VARIABLE, ServerConfig, ServerLimits, ServerRuntime, StdioServer, ToolTrust};
use pentad_process::{Spawner, clean_env};
use pentad_program::ToolSource;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use super::lookup::HomeLookup;
use super::unusable::Unusable;

/// How many servers start at a time.
const STARTS: usize = 4;

/// The configured servers.
#[derive(Default)]
pub struct Servers {
    /// A source for each; one that cannot be used says why.
    pub sources: Vec<Arc<dyn ToolSource>>,
    /// Those that can be used, by name.
    pub usable: BTreeMap<String, Arc<StdioServer>>,
}

/// Makes a source of each configured server.
///
/// # Errors
/// Fails only when the home's own key cannot be read or made.
pub async fn sources(
    home: &Home,
    config: &Config,
    face: &BTreeMap<OsString, OsString>,
    spawner: &Arc<Spawner>,
) -> anyhow::Result<Servers> {
    let enabled: Vec<(String, ServerEntry)> = config
        .servers
        .iter()
        .filter(|(_, s)| !s.disabled)
        .map(|(n, s)| (n.clone(), s.clone()))
        .collect();
    if enabled.is_empty() {
        return Ok(Servers::default());
    }
    let runtime = runtime(home, config, face, spawner)?;
    let lookup = HomeLookup {
        secrets: Secrets::of(home),
        face: face.clone(),
        spawner: Arc::clone(spawner),
        runtime: Handle::current(),
    };
    let limits = default_limits(config);
    let servers = tokio::task::spawn_blocking(move || {
        let mut servers = Servers::default();
        for (name, entry) in enabled {
            match server(&name, &entry, &limits, &runtime, &lookup) {
                Ok(server) => {
                    servers.sources.push(Arc::clone(&server) as _);
                    servers.usable.insert(name, server);
                }
                Err(why) => servers.sources.push(Arc::new(Unusable::new(&name, why))),
            }
        }
        servers
    });
    Ok(servers.await?)
}

fn server(
    name: &str,
    entry: &ServerEntry,
    limits: &ServerLimits,
    runtime: &ServerRuntime,
    lookup: &HomeLookup,
) -> Result<Arc<StdioServer>, String> {
    if entry.url.is_some() {
        return Err(
            "servers that are reached by url are not supported by this build; use command".to_owned(),
        );
    }
    let config = server_config(name, entry, limits, lookup).map_err(|error| error.to_string())?;
    StdioServer::new(config, runtime.clone())
        .map(Arc::new)
        .map_err(|error| error.to_string())
}

fn server_config(
    name: &str,
    entry: &ServerEntry,
    limits: &ServerLimits,
    lookup: &HomeLookup,
) -> Result<ServerConfig, TemplateError> {
    let resolve =
        |template: &pentad_keeper::Template| template.resolve(lookup).map(|v| v.reveal().to_owned());
    let command = entry
        .command
        .as_ref()
        .map(resolve)
        .transpose()?
        .unwrap_or_default();
    let mut config = ServerConfig::new(name, command);
    config.args = entry.args.iter().map(resolve).collect::<Result<_, _>>()?;
    config.env = entry
        .env
        .iter()
        .map(|(key, value)| Ok((key.clone(), resolve(value)?)))
        .collect::<Result<_, TemplateError>>()?;
    let home_dir = std::env::var_os("HOME").map(PathBuf::from);
    config.cwd = entry
        .cwd
        .as_ref()
        .map(|cwd| pentad_keeper::doctor::expand_tilde(cwd, home_dir.as_deref()));
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

fn default_limits(config: &Config) -> ServerLimits {
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
        starts: Arc::new(Semaphore::new(STARTS)),
    })
}
