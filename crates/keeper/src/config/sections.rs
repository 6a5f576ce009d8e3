//! The sections of `config.toml` as plain values.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use pentad_model::tool::{RESERVED_SOURCES, is_source_name};
use pentad_model::{GrantSet, Name};
use serde::Deserialize;

use super::period::Period;
use super::problem::Contradiction;
use crate::template::{Template, is_variable_name};

/// The whole configuration.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The HTTP face.
    pub http: Http,
    /// Sizes and times.
    pub limits: Limits,
    /// What a face may send of its environment.
    pub env: EnvRules,
    /// The process that keeps the home.
    pub keeper: KeeperRules,
    /// Recipe roots besides the home's own.
    pub roots: Vec<RootEntry>,
    /// MCP servers by name.
    pub servers: BTreeMap<String, ServerEntry>,
    /// Clients by name.
    pub clients: BTreeMap<Name, ClientEntry>,
    /// Where tools come from when an agent does not say.
    pub sources: Sources,
    /// Where results go, by name.
    pub channels: BTreeMap<Name, ChannelEntry>,
    /// Model providers by name.
    pub providers: BTreeMap<Name, ProviderEntry>,
    /// Projects by absolute path.
    pub projects: BTreeMap<PathBuf, ProjectEntry>,
    /// How calls are judged.
    pub call: CallRules,
}

/// `[http]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Http {
    /// The address to listen at. Other than loopback needs `token`.
    pub bind: IpAddr,
    /// The port; 0 takes any.
    pub port: u16,
    /// Further host names that requests may carry.
    pub hosts: Vec<String>,
    /// A person's token that stays the same over restarts.
    pub token: Option<Template>,
}

/// `[limits]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// What a model of ours sees of one result.
    pub view_bytes: u64,
    /// What an MCP client sees of one result.
    pub client_view_bytes: u64,
    /// What is kept in memory of one stream of a command.
    pub capture_bytes: u64,
    /// What is kept on disk of one stream of a command.
    pub spill_bytes: u64,
    /// Largest attachment.
    pub attachment_bytes: u64,
    /// Largest memory file.
    pub memory_bytes: u64,
    /// When old payloads are dropped.
    pub state_bytes: u64,
    /// Largest HTTP request other than an attachment.
    pub body_bytes: u64,
    /// Child runs at work at once; others are queued.
    pub active_runs: u64,
    /// Detached runs that have not ended, queued ones among them.
    pub detached_runs: u64,
    /// Longest call of a tool.
    pub call_seconds: Period,
    /// Longest first start of a server.
    pub start_seconds: Period,
    /// When an unused server is stopped.
    pub idle_seconds: Period,
    /// When an unanswered approval expires.
    pub approval_seconds: Period,
}

/// `[env]`
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EnvRules {
    /// Names that a face may send besides the standard ones.
    pub names: Vec<String>,
}

/// The rules of a recipe root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RootFormat {
    /// Our own.
    #[default]
    Pentad,
    /// Shared with pi-actors: standard fields only.
    PiActors,
}

/// `[[roots]]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RootEntry {
    /// The folder; `~/` is the home directory.
    pub path: PathBuf,
    /// Its rules.
    #[serde(default)]
    pub format: RootFormat,
    /// Whether its recipes get the face's whole environment.
    #[serde(default)]
    pub inherit_env: bool,
}

/// Who shares one process of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Share {
    /// Everybody in the home.
    Home,
    /// One process a workspace.
    Workspace,
    /// One process a thread.
    Thread,
}

/// What a person says about one tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ToolTrust {
    /// Changes nothing.
    pub read_only: Option<bool>,
    /// May destroy.
    pub destructive: Option<bool>,
    /// Repeating it changes nothing more.
    pub idempotent: Option<bool>,
    /// Reaches the world outside.
    pub open_world: Option<bool>,
}

/// `[servers.NAME.oauth]`
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OauthEntry {
    /// The id of this client, where the authorization server does not register clients by itself.
    pub client_id: Option<Template>,
    /// The secret that belongs to it.
    pub client_secret: Option<Template>,
    /// The URL of a client metadata document, for authorization servers that take one as an id.
    pub client_metadata_url: Option<String>,
    /// What to ask for; without it, what the server says it needs.
    pub scopes: Vec<String>,
    /// The port of the redirect, where the client was registered with one.
    pub redirect_port: Option<u16>,
}

/// `[servers.NAME]`
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerEntry {
    /// The program; its arguments are in `args`.
    pub command: Option<Template>,
    /// The arguments.
    pub args: Vec<Template>,
    /// The endpoint of a server that runs elsewhere.
    pub url: Option<Template>,
    /// HTTP headers for `url`.
    pub headers: BTreeMap<String, Template>,
    /// How to log in at `url`.
    pub oauth: Option<OauthEntry>,
    /// Environment variables.
    pub env: BTreeMap<String, Template>,
    /// The working directory; `~/` is the home directory.
    pub cwd: Option<PathBuf>,
    /// Who shares one process.
    pub share: Option<Share>,
    /// Whether the server's own hints are relied on.
    pub trust: bool,
    /// Switched off without removing it.
    pub disabled: bool,
    /// Longest first start.
    pub start_timeout: Option<Period>,
    /// When an unused process is stopped.
    pub idle_timeout: Option<Period>,
    /// Longest call.
    pub call_timeout: Option<Period>,
    /// What a person says about single tools.
    pub tools: BTreeMap<String, ToolTrust>,
}

impl OauthEntry {
    fn templates(&self) -> impl Iterator<Item = &Template> {
        self.client_id.iter().chain(&self.client_secret)
    }
}

impl ServerEntry {
    /// Returns every value that may refer to secrets and variables.
    pub fn templates(&self) -> impl Iterator<Item = &Template> {
        self.command
            .iter()
            .chain(&self.args)
            .chain(&self.url)
            .chain(self.headers.values())
            .chain(self.env.values())
            .chain(self.oauth.iter().flat_map(OauthEntry::templates))
    }
}

/// `[keeper]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KeeperRules {
    /// When a keeper that nobody uses ends.
    pub idle_seconds: Period,
}

/// `[clients.NAME]`
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClientEntry {
    /// The agent of its new threads.
    pub agent: Option<Name>,
    /// What it may do without being asked, besides what the policy allows.
    pub grants: Option<GrantSet>,
}

/// `[sources]`
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sources {
    /// Catalogues that searches may look into; absent means connected sources only.
    pub source_allowlist: Option<Vec<String>>,
    /// Catalogue files or addresses by name.
    pub catalogs: BTreeMap<String, String>,
}

/// How a channel delivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChannelKind {
    /// A file in a folder.
    File,
    /// An event in a thread.
    Thread,
    /// An HTTP request.
    Webhook,
    /// A tool of a connected server.
    Mcp,
    /// A mail.
    Mail,
    /// A command.
    Command,
}

/// Which results a channel takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliverOn {
    /// All.
    #[default]
    Settled,
    /// Good ones.
    Succeeded,
    /// Bad ones.
    Failed,
}

/// `[channels.NAME]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChannelEntry {
    /// How it delivers.
    pub kind: ChannelKind,
    /// Where to.
    pub target: Template,
    /// The form of what it takes.
    #[serde(default)]
    pub format: Option<String>,
    /// What it is for, as the model reads it.
    #[serde(default)]
    pub purpose: Option<String>,
    /// Which results it takes.
    #[serde(default)]
    pub on: DeliverOn,
}

/// `[providers.NAME]`
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProviderEntry {
    /// The endpoint.
    pub base_url: Option<String>,
    /// The key.
    pub key: Option<Template>,
    /// The model used when an agent names none.
    pub model: Option<String>,
}

/// `[projects."/path"]`
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProjectEntry {
    /// The content that a person trusted.
    pub trusted_hash: Option<String>,
    /// The name under which HTTP callers choose it.
    pub workspace: Option<Name>,
}

/// `[call]`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CallRules {
    /// Whether trusted read-only tools, too, show their contract before their first call.
    pub strict_touch: bool,
}

/// Checks what types cannot say.
pub(super) fn first_contradiction(config: &Config) -> Option<Contradiction> {
    limits(&config.limits)
        .or_else(|| {
            config
                .servers
                .iter()
                .find_map(|(name, entry)| server(name, entry))
        })
        .or_else(|| env_names(&config.env))
        .or_else(|| projects(&config.projects))
        .or_else(|| http(&config.http))
}

fn wrong(key: &[&str], message: impl Into<String>, next: impl Into<String>) -> Option<Contradiction> {
    Some(Contradiction {
        key: key.iter().map(|part| (*part).to_owned()).collect(),
        message: message.into(),
        next: next.into(),
    })
}

/// Says why `name` cannot name a server.
#[must_use]
pub(crate) fn bad_server_name(name: &str) -> Option<&'static str> {
    if RESERVED_SOURCES.contains(&name) || name == "pentad" {
        Some("is reserved")
    } else if is_source_name(name) {
        None
    } else {
        Some("is no server name: expected 1 to 32 of a-z 0-9 _ -, first a letter or digit")
    }
}

fn server(name: &str, entry: &ServerEntry) -> Option<Contradiction> {
    let key = |last: &'static str| ["servers", name, last];
    if let Some(why) = bad_server_name(name) {
        return wrong(
            &["servers", name],
            format!("'{name}' {why}"),
            "choose another name",
        );
    }
    match (&entry.command, &entry.url) {
        (None, None) => {
            let next = "add command = \"…\" (with args = […]) or url = \"https://…\"";
            return wrong(&["servers", name], "the server has neither command nor url", next);
        }
        (Some(_), Some(_)) => return wrong(&key("url"), "the server has both command and url", "keep one"),
        (Some(command), None) if command.source().trim().is_empty() => {
            return wrong(&key("command"), "the command is empty", "name a program");
        }
        (Some(_), None) if !entry.headers.is_empty() => {
            return wrong(
                &key("headers"),
                "headers belong to a url",
                "use env for a command",
            );
        }
        (Some(_), None) if entry.oauth.is_some() => {
            return wrong(&key("oauth"), "a login belongs to a url", "remove the section");
        }
        (None, Some(_)) if has_secret_without_id(entry) => {
            return wrong(
                &key("oauth"),
                "client_secret belongs to a client_id",
                "add client_id",
            );
        }
        (None, Some(_)) if !entry.args.is_empty() || !entry.env.is_empty() || entry.cwd.is_some() => {
            return wrong(
                &key("url"),
                "args, env and cwd belong to a command",
                "remove them",
            );
        }
        _ => {}
    }
    let bad = entry.env.keys().find(|name| !is_variable_name(name))?;
    let next = "use letters, digits and _";
    wrong(
        &["servers", name, "env", bad],
        format!("'{bad}' names no variable"),
        next,
    )
}

fn has_secret_without_id(entry: &ServerEntry) -> bool {
    let oauth = entry.oauth.as_ref();
    oauth.is_some_and(|oauth| oauth.client_secret.is_some() && oauth.client_id.is_none())
}

fn limits(limits: &Limits) -> Option<Contradiction> {
    let at_least = [
        ("view_bytes", limits.view_bytes, 1_024),
        ("client_view_bytes", limits.client_view_bytes, 1_024),
        ("capture_bytes", limits.capture_bytes, 4_096),
        ("spill_bytes", limits.spill_bytes, limits.capture_bytes),
        ("attachment_bytes", limits.attachment_bytes, 1),
        ("memory_bytes", limits.memory_bytes, 1),
        ("state_bytes", limits.state_bytes, 1024 * 1024),
        ("body_bytes", limits.body_bytes, 4_096),
        ("active_runs", limits.active_runs, 1),
    ];
    let (key, value, least) = at_least.into_iter().find(|(_, value, least)| value < least)?;
    let next = format!("give {least} or more, or leave the key out");
    wrong(&["limits", key], format!("{value} is too small"), next)
}

fn env_names(env: &EnvRules) -> Option<Contradiction> {
    let bad = env.names.iter().find(|name| !is_variable_name(name))?;
    let next = "list exact names; letters, digits and _";
    wrong(&["env", "names"], format!("'{bad}' names no variable"), next)
}

fn projects(projects: &BTreeMap<PathBuf, ProjectEntry>) -> Option<Contradiction> {
    let bad = projects
        .keys()
        .find(|path| !path.is_absolute())?
        .to_string_lossy();
    wrong(
        &["projects", &bad],
        "a project is named by its absolute path",
        "write the whole path",
    )
}

fn http(http: &Http) -> Option<Contradiction> {
    if http.bind.is_loopback() || http.token.is_some() {
        return None;
    }
    let message = format!(
        "{} is reachable from other machines and no token is configured",
        http.bind
    );
    let next = "add token = \"${secret:http}\" to [http] and run pentad secret set http, or bind 127.0.0.1";
    wrong(&["http", "bind"], message, next)
}
