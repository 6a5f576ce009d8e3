//! Sources over a site.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pentad_mcp::{
    ConnectedServer, Endpoint, LaunchFailure, LaunchSpec, Launched, NoTokens, Reach, ServerConfig,
    ServerLauncher, ServerRuntime,
};
use pentad_model::actor::Actor;
use pentad_model::invocation::Workspace;
use pentad_model::{GrantSet, Name, RunId, ThreadId, ToolDocument};
use pentad_program::{Attendance, Content, ToolCall, ToolFailure, ToolOutput, ToolSource as _};
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::Semaphore;

use crate::site::Site;

/// The longest that any test waits for anything.
const PATIENCE: Duration = Duration::from_secs(20);

/// Nothing is started for a server that is reached by URL.
struct NoPrograms;

#[async_trait]
impl ServerLauncher for NoPrograms {
    async fn launch(&self, spec: LaunchSpec) -> Result<Launched, LaunchFailure> {
        Err(LaunchFailure(format!("{} is no program", spec.name)))
    }
}

pub fn runtime(folder: &TempDir) -> ServerRuntime {
    ServerRuntime {
        launcher: Arc::new(NoPrograms),
        cache_dir: folder.path().join("cache"),
        env: BTreeMap::new(),
        env_key: b"test key".to_vec(),
        home_dir: folder.path().to_owned(),
        own_executable: None,
        depth: 0,
        starts: Arc::new(Semaphore::new(4)),
        tokens: Arc::new(NoTokens),
        elicitor: None,
        log: None,
    }
}

pub fn config(site: &Site, headers: &[(&str, &str)]) -> ServerConfig {
    let headers = headers
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    let mut config = ServerConfig::new("site", Reach::Url(Endpoint::new(&site.url(), &headers).unwrap()));
    // The site's own word that `look` only reads is relied on.
    config.trust = true;
    config
}

/// A source over a site, with a folder of its own.
pub struct Bench {
    pub folder: TempDir,
    pub server: ConnectedServer,
}

impl Bench {
    pub fn of(config: ServerConfig) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = ConnectedServer::new(config, runtime(&folder)).unwrap();
        Self { folder, server }
    }

    pub fn new(site: &Site) -> Self {
        Self::of(config(site, &[]))
    }

    /// The same server in another process.
    pub fn again(&self, config: ServerConfig) -> ConnectedServer {
        ConnectedServer::new(config, runtime(&self.folder)).unwrap()
    }
}

/// Waits until `condition` holds; fails the test when it never does.
pub async fn until(condition: impl Fn() -> bool, what: &str) {
    let waiting = async {
        while !condition() {
            // Such a state is announced by nothing; a test that needs it looks again.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting)
        .await
        .unwrap_or_else(|_| panic!("never happened: {what}"));
}

pub async fn document(server: &ConnectedServer, name: &str) -> Arc<ToolDocument> {
    server.refresh(None).await.ok();
    let documents = server.documents();
    let found = documents.iter().find(|document| document.tool.name == name);
    Arc::clone(found.unwrap_or_else(|| panic!("no tool {name}: {:?}", server.status())))
}

pub fn tool_call(document: Arc<ToolDocument>, text: &str) -> ToolCall {
    ToolCall {
        document,
        input: json!({"text": text}).as_object().cloned().unwrap(),
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
pub async fn call(server: &ConnectedServer, name: &str) -> Result<ToolOutput, ToolFailure> {
    let document = document(server, name).await;
    tokio::time::timeout(PATIENCE, server.call(tool_call(document, "x")))
        .await
        .expect("an end in time")
}

pub fn text(output: &ToolOutput) -> &str {
    match output.content.first() {
        Some(Content::Text(text)) => text,
        other => panic!("no text: {other:?}"),
    }
}

/// The words of a failure, with the port of the site taken out.
pub fn words(site: &Site, failure: &ToolFailure) -> String {
    let kind = match failure {
        ToolFailure::Refused(_) => "refused",
        ToolFailure::Canceled => "canceled",
        ToolFailure::TimedOut { .. } => "timed out",
        ToolFailure::Interrupted(_) => "interrupted",
        ToolFailure::Failed(_) => "failed",
    };
    let text = match failure {
        ToolFailure::Refused(refusal) => refusal.to_text(),
        ToolFailure::TimedOut { limit, .. } => limit.clone(),
        other => other.to_string(),
    };
    format!("[{kind}] {text}").replace(&site.address.to_string(), "HOST")
}

pub async fn end(server: &ConnectedServer) {
    server.shutdown(Duration::from_secs(5)).await;
}
