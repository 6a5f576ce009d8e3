//! What a person configured for one server.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::endpoint::Endpoint;
use super::way::Way;
use crate::lines::SERVER_MESSAGE_BYTES;

/// Who shares one process of a server, or one session with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Share {
    /// One process for the home.
    #[default]
    Home,
    /// One process a working folder.
    Workspace,
    /// One process a thread, for servers that hold a state such as a browser.
    Thread,
}

/// What a person said about one tool of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ToolTrust {
    /// It changes nothing.
    pub read_only: Option<bool>,
    /// It may destroy.
    pub destructive: Option<bool>,
    /// Repeating it changes nothing more.
    pub idempotent: Option<bool>,
}

/// How a server is reached.
#[derive(Clone, PartialEq, Eq)]
pub enum Reach {
    /// Started as a child and spoken to over its standard streams.
    Command(CommandLine),
    /// Spoken to over streamable HTTP.
    Url(Endpoint),
}

/// A server that is started as a child.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct CommandLine {
    /// The program: a path, or a name to be found in `PATH`.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables for this server only, with secrets resolved. Never shown, logged or stored.
    pub env: BTreeMap<String, String>,
    /// Its working folder; the home's or the workspace's without it.
    pub cwd: Option<PathBuf>,
}

/// A configured server.
#[derive(Clone)]
pub struct ServerConfig {
    /// The source's name: `[a-z0-9][a-z0-9_-]{0,31}`, not reserved.
    pub name: String,
    /// How it is reached.
    pub reach: Way,
    /// Who shares a process or a connection.
    pub share: Share,
    /// Whether the server's own hints may be relied on.
    pub trust: bool,
    /// What a person said about single tools.
    pub tools: BTreeMap<String, ToolTrust>,
    /// Times and sizes.
    pub limits: ServerLimits,
}

/// The times and sizes of one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerLimits {
    /// From the launch to the first list of tools; a first start may have to download the server.
    pub start_timeout: Duration,
    /// How long a process without calls is kept.
    pub idle_timeout: Duration,
    /// How long a call may be silent; each report of progress renews it.
    pub call_timeout: Duration,
    /// How long a call may take in all, whatever it reports.
    pub call_limit: Duration,
    /// Cap on one message of the server.
    pub max_message_bytes: usize,
    /// Processes or sessions at a time, where threads, folders or callers with other variables have their own.
    pub max_copies: usize,
    /// Calls at a time; further ones wait.
    pub max_concurrent_calls: usize,
    /// Failed starts in a row after which the server is not tried until a person asks.
    pub max_failures: u32,
    /// The pause after the first failed start; doubled by each further one.
    pub first_backoff: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            start_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(5 * 60),
            call_timeout: Duration::from_secs(5 * 60),
            call_limit: Duration::from_secs(60 * 60),
            max_message_bytes: SERVER_MESSAGE_BYTES,
            max_copies: 16,
            max_concurrent_calls: 32,
            max_failures: 5,
            first_backoff: Duration::from_secs(1),
        }
    }
}

impl ServerConfig {
    /// Returns the configuration of a server that is reached in one way, with everything else at its default.
    pub fn new(name: impl Into<String>, reach: impl Into<Way>) -> Self {
        Self {
            name: name.into(),
            reach: reach.into(),
            share: Share::default(),
            trust: false,
            tools: BTreeMap::new(),
            limits: ServerLimits::default(),
        }
    }
}

impl Reach {
    /// Returns the texts that must never be shown: values of variables and headers.
    pub(super) fn confidential(&self) -> Vec<String> {
        match self {
            Self::Command(line) => line.env.values().cloned().collect(),
            Self::Url(endpoint) => endpoint.confidential(),
        }
    }
}

impl CommandLine {
    /// Returns the command line of a program without arguments.
    pub fn new(program: impl Into<String>) -> Self {
        Self {
            program: program.into(),
            ..Self::default()
        }
    }
}

impl fmt::Debug for CommandLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandLine")
            .field("program", &self.program)
            .field("args", &self.args.len())
            .field("env", &self.env.keys())
            .field("cwd", &self.cwd)
            .finish()
    }
}

impl fmt::Debug for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(line) => line.fmt(f),
            Self::Url(endpoint) => endpoint.fmt(f),
        }
    }
}

impl fmt::Debug for ServerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerConfig")
            .field("name", &self.name)
            .field("reach", &self.reach)
            .field("share", &self.share)
            .field("trust", &self.trust)
            .finish_non_exhaustive()
    }
}
