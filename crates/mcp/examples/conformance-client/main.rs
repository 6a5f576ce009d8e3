//! A client for the official conformance suite, on the stack that connected servers run on.
//!
//! The suite starts it with the URL of a server as its last argument. It learns the server's tools and calls each, as a
//! run would; where a run would be told that a person has to log in, it logs in as a person with a browser does.
#![allow(clippy::print_stderr, missing_docs)]

mod browser;
mod memory;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pentad_mcp::{
    Asking, ConnectedServer, Elicitor, Endpoint, LaunchFailure, LaunchSpec, Launched, Origin, Reach,
    ResourceRead, ServerConfig, ServerLauncher, ServerRuntime,
};
use pentad_model::actor::Actor;
use pentad_model::approval::Approval;
use pentad_model::invocation::Workspace;
use pentad_model::{Form, FormAnswer, GrantSet, Name, RunId, ThreadId, ToolDocument};
use pentad_program::{Answer, Asker, Attendance, ToolCall, ToolFailure, ToolSource as _};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;

use crate::browser::log_in;
use crate::memory::MemoryTokens;

/// How often a login is tried before the server is given up.
const MAX_LOGINS: usize = 3;
/// The document of the suite that a client may be known by.
const METADATA_URL: &str = "https://conformance-test.local/client-metadata.json";
/// Longest wait for the end of a session.
const END_LIMIT: Duration = Duration::from_secs(5);

/// What the suite wants to be done.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Context {
    #[serde(alias = "toolCalls")]
    tool_calls: Vec<WantedCall>,
    client_id: Option<String>,
    client_secret: Option<String>,
}

#[derive(Debug, Deserialize)]
struct WantedCall {
    name: String,
    #[serde(default)]
    arguments: Map<String, Value>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let Some(url) = std::env::args().next_back() else {
        eprintln!("usage: conformance-client URL");
        return ExitCode::FAILURE;
    };
    match run(&url).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(url: &str) -> Result<(), String> {
    let context: Context = match std::env::var("MCP_CONFORMANCE_CONTEXT") {
        Ok(text) => serde_json::from_str(&text).map_err(|error| error.to_string())?,
        Err(_) => Context::default(),
    };
    let mut endpoint = Endpoint::new(url, &BTreeMap::new()).map_err(|error| error.to_string())?;
    endpoint.login.client_id.clone_from(&context.client_id);
    endpoint.login.client_secret.clone_from(&context.client_secret);
    endpoint.login.client_metadata_url = Some(METADATA_URL.to_owned());
    let config = ServerConfig::new("suite", Reach::Url(endpoint));
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let client = Client {
        runtime: ServerRuntime {
            launcher: Arc::new(NoPrograms),
            cache_dir: folder.path().to_owned(),
            env: BTreeMap::new(),
            env_key: b"conformance".to_vec(),
            home_dir: folder.path().to_owned(),
            own_executable: None,
            depth: 0,
            starts: Arc::new(Semaphore::new(1)),
            tokens: Arc::new(MemoryTokens::default()),
            elicitor: Some(Arc::new(Defaults)),
            log: None,
        },
        config,
        logins: 0,
    };
    client.work(context.tool_calls).await
}

struct Client {
    runtime: ServerRuntime,
    config: ServerConfig,
    logins: usize,
}

impl Client {
    async fn work(mut self, wanted: Vec<WantedCall>) -> Result<(), String> {
        let server = ConnectedServer::new(self.config.clone(), self.runtime.clone())
            .map_err(|error| error.to_string())?;
        let done = self.use_tools(&server, wanted).await;
        server.shutdown(END_LIMIT).await;
        done
    }

    async fn use_tools(&mut self, server: &ConnectedServer, wanted: Vec<WantedCall>) -> Result<(), String> {
        while let Err(refusal) = server.open().await {
            if !server.needs_login() {
                return Err(refusal.to_text());
            }
            self.log_in().await?;
        }
        let documents = server.documents();
        let calls: Vec<(Arc<ToolDocument>, Map<String, Value>)> = if wanted.is_empty() {
            let first = documents.first().map_or(Value::Null, |tool| tool.input.clone());
            let all = documents.iter();
            all.map(|tool| (Arc::clone(tool), with_schema(sample(&tool.input), &first)))
                .collect()
        } else {
            let named = |call: WantedCall| {
                let tool = documents.iter().find(|tool| tool.tool.name == call.name)?;
                Some((Arc::clone(tool), call.arguments))
            };
            wanted.into_iter().filter_map(named).collect()
        };
        for (tool, input) in calls {
            self.call(server, tool, input).await?;
        }
        look_around(server).await;
        Ok(())
    }

    /// Calls a tool; errors of the tool are its own affair.
    async fn call(
        &mut self,
        server: &ConnectedServer,
        tool: Arc<ToolDocument>,
        input: Map<String, Value>,
    ) -> Result<(), String> {
        loop {
            match server.call(tool_call(Arc::clone(&tool), input.clone())).await {
                Err(ToolFailure::Refused(_)) if server.needs_login() => self.log_in().await?,
                Ok(output) => {
                    eprintln!("{}: {output:?}", tool.tool);
                    return Ok(());
                }
                Err(failure) => {
                    eprintln!("{}: {failure}", tool.tool);
                    return Ok(());
                }
            }
        }
    }

    async fn log_in(&mut self) -> Result<(), String> {
        self.logins += 1;
        if self.logins > MAX_LOGINS {
            return Err(format!(
                "the server asks for a login again after {MAX_LOGINS} of them"
            ));
        }
        log_in(&self.config, &self.runtime).await
    }
}

fn tool_call(document: Arc<ToolDocument>, input: Map<String, Value>) -> ToolCall {
    ToolCall {
        document,
        input,
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
        attendance: Attendance {
            asker: Some(Arc::new(Defaults)),
            ..Attendance::default()
        },
    }
}

/// Returns an input that a schema takes, as far as its required members say.
fn sample(schema: &Value) -> Map<String, Value> {
    let required = schema["required"].as_array().into_iter().flatten();
    required
        .filter_map(Value::as_str)
        .map(|name| {
            let member = &schema["properties"][name];
            let value = match member["type"].as_str() {
                Some("number" | "integer") => json!(1),
                Some("boolean") => json!(true),
                Some("array") => json!([]),
                Some("object") => json!({}),
                _ => member["enum"].get(0).cloned().unwrap_or_else(|| json!("sample")),
            };
            (name.to_owned(), value)
        })
        .collect()
}

/// Reads the first resource and fills in the first prompt, where a server has them.
async fn look_around(server: &ConnectedServer) {
    let asking = Asking {
        thread: ThreadId::generate(),
        cwd: "/tmp".into(),
        time_limit: None,
        attendance: Attendance::default(),
    };
    let offers = match server.offers(&asking).await {
        Ok(offers) => offers,
        Err(failure) => return eprintln!("offers: {failure}"),
    };
    if let Some(first) = offers.resources.first() {
        let read = ResourceRead {
            uri: first.uri.clone(),
            thread: asking.thread,
            cwd: asking.cwd.clone(),
            time_limit: None,
            attendance: Attendance::default(),
        };
        eprintln!("{}: {:?}", first.uri, server.read_resource(read).await);
    }
    if let Some(first) = offers.prompts.first() {
        let arguments = first.arguments.iter().filter(|argument| argument.required);
        let arguments = arguments.map(|argument| (argument.name.clone(), json!("sample")));
        let filled = server
            .fill_prompt(&first.name, arguments.collect(), &asking)
            .await;
        eprintln!("{}: {filled:?}", first.name);
    }
}

/// Hands the schema of another tool back where one is asked for: the suite looks at what became of it.
fn with_schema(mut input: Map<String, Value>, schema: &Value) -> Map<String, Value> {
    if let Some(member) = input.get_mut("schema").filter(|member| member.is_object()) {
        member.clone_from(schema);
    }
    input
}

/// Fills a form in with its own defaults.
#[derive(Debug)]
struct Defaults;

#[async_trait]
impl Asker for Defaults {
    async fn ask(&self, _approval: &Approval) -> Answer {
        Answer::Unanswered
    }

    async fn fill(&self, form: &Form) -> FormAnswer {
        let fields = form.schema["properties"].as_object().cloned().unwrap_or_default();
        let mut filled = sample(&form.schema);
        for (name, field) in fields {
            if let Some(default) = field.get("default") {
                filled.insert(name, default.clone());
            }
        }
        FormAnswer::Accepted(filled)
    }
}

#[async_trait]
impl Elicitor for Defaults {
    async fn elicit(&self, form: &Form, _callers: &[Origin]) -> FormAnswer {
        self.fill(form).await
    }
}

/// The suite starts no programs.
struct NoPrograms;

#[async_trait]
impl ServerLauncher for NoPrograms {
    async fn launch(&self, spec: LaunchSpec) -> Result<Launched, LaunchFailure> {
        Err(LaunchFailure(format!("{} is no program", spec.name)))
    }
}
