//! Everything that a command works with: one home, opened.

use std::sync::Arc;

use async_trait::async_trait;
use pentad_keeper::{Calling, Config, Finding, Home, Lookup, SecretName, SecretValue, Secrets};
use pentad_model::invocation::{ThreadChoice, Workspace};
use pentad_model::{Invocation, Name, Refusal, Verb};
use pentad_program::{Store, Verbs};
use pentad_web::Attachments;
use serde_json::{Map, Value};

use crate::args::Globals;

/// What a tool would do.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// For a person: the words of each command, its folder and environment names, and what the gate says.
    pub text: String,
    /// The same as data.
    pub value: Value,
}

/// Knows tools without calling them.
#[async_trait]
pub trait Contracts: Send + Sync {
    /// Returns the input schema of a tool by name or `source/name`, if it is known without starting anything.
    async fn input_schema(&self, tool: &str) -> Option<Value>;

    /// Says what a call would do, without doing any of it.
    ///
    /// # Errors
    /// Refuses unknown tools and input that does not fit.
    async fn explain(
        &self,
        invocation: &Invocation,
        tool: &str,
        input: Map<String, Value>,
    ) -> Result<Explanation, Refusal>;
}

/// One home, opened for one caller.
pub struct House {
    /// The home.
    pub home: Home,
    /// Its configuration.
    pub config: Arc<Config>,
    /// The one way in.
    pub verbs: Arc<dyn Verbs>,
    /// The journal.
    pub store: Arc<dyn Store>,
    /// Knows tools.
    pub contracts: Arc<dyn Contracts>,
    /// Takes attachments.
    pub attachments: Arc<dyn Attachments>,
    /// Who calls.
    pub calling: Calling,
    /// The agent of new threads.
    pub agent: Option<Name>,
    /// The thread to work in.
    pub thread: ThreadChoice,
    /// The folder to work in.
    pub workspace: Workspace,
}

impl House {
    /// Opens the home that the arguments name.
    ///
    /// # Errors
    /// Fails when the home cannot be used or its configuration is not understood.
    pub async fn open(globals: &Globals) -> anyhow::Result<Self> {
        let home = crate::shell::prepared_home(globals)?;
        Config::load(&home)?;
        let calling = crate::shell::calling();
        crate::shell::thread_choice(globals, &calling)?;
        anyhow::bail!("this build has no engine")
    }

    /// Ends what was started, in order and within limits.
    pub async fn close(self) {}

    /// Returns what the configuration's references mean.
    pub fn lookup(&self) -> References {
        References(Secrets::of(&self.home))
    }

    /// Returns an invocation by this house's caller, in its thread and folder.
    pub fn invocation(&self, verb: Verb, arguments: Map<String, Value>) -> Invocation {
        Invocation {
            caller: self.calling.actor.clone().into(),
            agent: self.agent.clone(),
            thread: self.thread.clone(),
            run: self.calling.run,
            workspace: self.workspace.clone(),
            verb,
            arguments: Value::Object(arguments),
            deadline: None,
            request_key: None,
            view_bytes: None,
        }
    }
}

/// Looks references of the configuration up: secrets in the home, variables in this process.
#[derive(Debug)]
pub struct References(Secrets);

impl Lookup for References {
    fn secret(&self, name: &SecretName) -> Option<SecretValue> {
        self.0.get(name).ok().flatten()
    }

    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn command(&self, _command: &str) -> Result<String, String> {
        Err("commands run through the spawner only".to_owned())
    }
}

/// Serves MCP on standard input and output until the client goes away.
///
/// # Errors
/// Fails when the home cannot be used.
pub async fn serve_mcp(globals: &Globals, client: Option<Name>) -> anyhow::Result<()> {
    let _ = (globals, client);
    anyhow::bail!("this build has no MCP server")
}

/// Becomes the process that starts all others. Called before any thread exists.
///
/// # Errors
/// Fails when it was not started by a keeper.
pub fn become_spawner() -> anyhow::Result<()> {
    anyhow::bail!("this build has no spawner")
}

/// Returns what the parts besides the home find worth knowing: SQLite, the system, servers, recipes.
pub async fn further_findings(globals: &Globals) -> Vec<Finding> {
    let _ = globals;
    Vec::new()
}
