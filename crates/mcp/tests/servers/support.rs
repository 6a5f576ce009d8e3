//! Fixture servers under a real spawner, and their witness.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pentad_mcp::{
    CommandLine, ConnectedServer, NoTokens, Reach, ServerConfig, ServerRuntime, SpawnerLauncher, Way,
};
use pentad_model::actor::Actor;
use pentad_model::invocation::Workspace;
use pentad_model::{GrantSet, Name, RunId, ThreadId, ToolDocument};
use pentad_process::{Spawner, SpawnerProgram};
use pentad_program::{Attendance, Content, ToolCall, ToolFailure, ToolOutput, ToolSource as _};
use serde_json::{Map, Value};
use tempfile::TempDir;
use tokio::sync::Semaphore;

/// The longest that any test waits for anything.
const PATIENCE: Duration = Duration::from_secs(20);

/// Cargo builds examples with the tests, and puts them beside the folder that the tests lie in.
fn spawner_program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().unwrap().parent().unwrap();
    let program = profile.join("examples/test-spawner");
    assert!(
        program.exists(),
        "{} is missing; run cargo build -p pentad-mcp --examples",
        program.display()
    );
    program
}

/// A folder with a manifest cache and a witness, from which servers are made.
pub struct Bench {
    pub folder: TempDir,
    pub runtime: ServerRuntime,
}

impl Bench {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let exe = spawner_program();
        let spawner = Spawner::launch(SpawnerProgram {
            exe,
            args: Vec::new(),
        })
        .unwrap();
        let runtime = ServerRuntime {
            launcher: Arc::new(SpawnerLauncher::new(Arc::new(spawner))),
            cache_dir: folder.path().join("cache"),
            env: BTreeMap::from([("PATH".to_owned(), std::env::var("PATH").unwrap())]),
            env_key: b"test key".to_vec(),
            home_dir: folder.path().to_owned(),
            own_executable: std::env::current_exe().ok(),
            depth: 0,
            starts: Arc::new(Semaphore::new(4)),
            tokens: Arc::new(NoTokens),
            elicitor: None,
            log: None,
        };
        Self { folder, runtime }
    }

    /// Returns the configuration of a fixture server with `args`.
    pub fn config(&self, args: &[&str]) -> ServerConfig {
        let program = pentad_testkit::binaries::fixture("fixture-mcp-server").unwrap();
        let mut line = CommandLine::new(program.display().to_string());
        line.args = args.iter().map(|arg| (*arg).to_owned()).collect();
        line.args
            .extend(["--witness".to_owned(), self.witness_path().display().to_string()]);
        ServerConfig::new("fixture", Reach::Command(line))
    }

    pub fn server(&self, args: &[&str]) -> ConnectedServer {
        self.made(self.config(args))
    }

    pub fn made(&self, config: ServerConfig) -> ConnectedServer {
        ConnectedServer::new(config, self.runtime.clone()).unwrap()
    }

    fn witness_path(&self) -> PathBuf {
        self.folder.path().join("witness")
    }

    pub fn witness(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.witness_path()).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Counts the witness's lines that begin with `start`.
    pub fn count(&self, start: &str) -> usize {
        self.witness()
            .iter()
            .filter(|line| line.starts_with(start))
            .count()
    }

    /// Waits until the witness has `count` lines that begin with `start`.
    pub async fn wait_for(&self, start: &str, count: usize) {
        until(|| self.count(start) >= count, &format!("{count} × {start}")).await;
    }
}

/// Waits until `condition` holds; fails the test when it never does. It looks again and again, because what is waited for
/// here (a line that another process wrote into a file, a process that is gone) is announced to nobody.
pub async fn until(condition: impl Fn() -> bool, what: &str) {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting)
        .await
        .unwrap_or_else(|_| panic!("never happened: {what}"));
}

/// Returns the command line of a server that is a program.
pub fn command_line(config: &mut ServerConfig) -> &mut CommandLine {
    match &mut config.reach {
        Way::Fixed(Reach::Command(line)) => line,
        _ => panic!("no program"),
    }
}

pub fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

/// Returns the document of `name`, asking the server for its tools if nobody has.
pub async fn document(server: &ConnectedServer, name: &str) -> Arc<ToolDocument> {
    server.refresh(None).await.ok();
    let documents = server.documents();
    let found = documents.iter().find(|document| document.tool.name == name);
    Arc::clone(found.unwrap_or_else(|| panic!("no tool {name}: {:?}", server.status())))
}

pub fn tool_call(document: Arc<ToolDocument>, input: &Value) -> ToolCall {
    ToolCall {
        document,
        input: input.as_object().cloned().unwrap_or_else(Map::new),
        run: RunId::generate(),
        thread: ThreadId::generate(),
        agent: Name::main(),
        visible: GrantSet::default(),
        caller: Actor::User.into(),
        workspace: Workspace {
            cwd: "/tmp".into(),
            project_root: None,
            trusted: false,
        },
        run_dir: "/tmp".into(),
        time_limit: None,
        attendance: Attendance::default(),
    }
}

/// Calls `name` as a client of the catalogue would.
pub async fn call(server: &ConnectedServer, name: &str, input: Value) -> Result<ToolOutput, ToolFailure> {
    let document = document(server, name).await;
    tokio::time::timeout(PATIENCE, server.call(tool_call(document, &input)))
        .await
        .expect("an end in time")
}

pub fn text(output: &ToolOutput) -> &str {
    match output.content.first() {
        Some(Content::Text(text)) => text,
        other => panic!("no text: {other:?}"),
    }
}

pub async fn end(server: &ConnectedServer) {
    server.shutdown(Duration::from_secs(5)).await;
}
