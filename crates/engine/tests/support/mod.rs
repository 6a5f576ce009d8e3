//! An engine over a real journal and a source of scripted tools.

#![allow(dead_code)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use pentad_catalog::{Catalog, Gate, Policy};
use pentad_engine::{
    BuiltinParts, BuiltinSource, ClientSettings, Engine, EngineHandle, EngineParts, Limits, Redactor,
    ToolsFamily,
};
use pentad_journal::{Journal, JournalOptions};
use pentad_model::invocation::{ThreadChoice, Workspace};
use pentad_model::tool::{Hints, ToolKind};
use pentad_model::{
    Actor, Invocation, Outcome, Refusal, RefusalKind, Timestamp, ToolDocument, ToolRef, Verb,
};
use pentad_program::{
    Attendance, Authored, Content, Readiness, SourceStatus, Store, StreamCapture, ToolAuthor, ToolCall,
    ToolFailure, ToolOutput, ToolSource, Verbs,
};
use pentad_space::{SelfFacts, Space, SpaceLimits, SpaceParts, WebPolicy};
use serde_json::{Value, json};

/// A home for one test.
pub struct Bench {
    pub dir: tempfile::TempDir,
    pub engine: EngineHandle,
    pub store: Arc<dyn Store>,
    pub tools: Arc<Scripted>,
    /// How often the gate looked at the clock: three times for each open question.
    pub looks: Arc<AtomicUsize>,
}

/// How a test wants its home.
#[derive(Default)]
pub struct Setup {
    pub policy: Policy,
    pub strict_touch: bool,
    pub secrets: Vec<String>,
    pub clients: BTreeMap<pentad_model::Name, ClientSettings>,
    pub limits: Limits,
}

pub fn bench() -> Bench {
    bench_with(Setup::default())
}

pub fn bench_with(setup: Setup) -> Bench {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap();
    std::fs::create_dir_all(path.join("work")).unwrap();
    let journal = Arc::new(Journal::open(&path.join("state"), JournalOptions::default()).unwrap());
    let store: Arc<dyn Store> = Arc::clone(&journal) as _;
    let tools = Arc::new(Scripted::default());
    let memory_dir = path.join("memory");
    let builtin = BuiltinSource::new(BuiltinParts {
        store: Arc::clone(&store),
        memory_dir: memory_dir.clone(),
    });
    let catalog = Arc::new(Catalog::new(vec![
        Arc::clone(&builtin) as _,
        Arc::clone(&tools) as _,
    ]));
    builtin.attach(&catalog);
    let looks = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&looks);
    let clock = move || {
        counted.fetch_add(1, Ordering::SeqCst);
        Timestamp::now()
    };
    let gate = Arc::new(Gate::new(Arc::clone(&store), setup.policy, Arc::new(clock)));
    let mut space = Space::new(SpaceParts {
        store: Arc::clone(&store),
        memory_root: memory_dir.clone(),
        agents_dir: path.join("agents"),
        forbidden: vec![path.join("state")],
        limits: SpaceLimits::default(),
        web: WebPolicy::default(),
        facts: SelfFacts::default(),
    });
    let author: Arc<dyn ToolAuthor> = Arc::new(NoAuthor);
    space.register(Arc::new(ToolsFamily::new(
        Arc::clone(&catalog),
        Arc::clone(&author),
        Arc::clone(&store),
        Arc::clone(&gate),
    )));
    let engine = Engine::new(EngineParts {
        store: Arc::clone(&store),
        runs: Arc::clone(&journal) as _,
        programs: Vec::new(),
        catalog,
        space,
        gate,
        author,
        runs_dir: path.join("state/runs"),
        memory_dir,
        redactor: Redactor::new(setup.secrets),
        clients: setup.clients,
        limits: setup.limits,
        strict_touch: setup.strict_touch,
    });
    Bench {
        dir,
        engine: EngineHandle(engine),
        store,
        tools,
        looks,
    }
}

impl Bench {
    pub fn invocation(&self, actor: &str, verb: Verb, arguments: Value) -> Invocation {
        Invocation {
            caller: actor.parse::<Actor>().unwrap().into(),
            agent: None,
            thread: ThreadChoice::Key(format!("test:{actor}")),
            run: None,
            workspace: Workspace {
                cwd: self.dir.path().canonicalize().unwrap().join("work"),
                project_root: None,
                trusted: false,
            },
            verb,
            arguments,
            deadline: None,
            view_bytes: None,
        }
    }

    pub async fn act(&self, actor: &str, verb: Verb, arguments: Value) -> Outcome {
        self.engine
            .invoke(self.invocation(actor, verb, arguments), Attendance::default())
            .await
    }

    /// Waits until the gate has found an open question so many times; on one thread, whoever found it stands in line.
    pub async fn questions(&self, times: usize) {
        while self.looks.load(Ordering::SeqCst) < 3 * times {
            tokio::task::yield_now().await;
        }
    }

    /// Grants the newest open approval for `scope`.
    pub async fn approve(&self, scope: pentad_model::approval::Scope) {
        let open = self.engine.0.gate().open_approvals(10).await.unwrap();
        let id = open.first().unwrap().id.to_string().parse().unwrap();
        let decision = pentad_catalog::Decision::Grant(scope);
        self.engine
            .0
            .gate()
            .answer(&id, decision, &Actor::User)
            .await
            .unwrap();
    }
}

/// Tools whose behaviour is in their names.
#[derive(Default)]
pub struct Scripted {
    pub calls: AtomicUsize,
    pub last: Mutex<Option<Value>>,
    pub version: AtomicUsize,
}

impl Scripted {
    pub fn count(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    fn document(&self, name: &str) -> ToolDocument {
        let read_only = Hints {
            read_only: Some(true),
            ..Hints::default()
        };
        let version = self.version.load(Ordering::SeqCst);
        ToolDocument {
            tool: ToolRef::new("fake", name),
            kind: ToolKind::Mcp,
            title: None,
            summary: format!("Does {name}."),
            description: format!("Does {name}, version {version}."),
            input: json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"],
                          "additionalProperties": false}),
            output: None,
            body: None,
            declared: read_only,
            trusted: if name == "look" {
                read_only
            } else {
                Hints::default()
            },
        }
    }
}

#[async_trait]
impl ToolSource for Scripted {
    fn name(&self) -> &str {
        "fake"
    }

    fn documents(&self) -> Arc<[Arc<ToolDocument>]> {
        ["change", "fail", "look", "long", "picture", "spill", "wait"]
            .map(|n| Arc::new(self.document(n)))
            .to_vec()
            .into()
    }

    fn generation(&self) -> u64 {
        self.version.load(Ordering::SeqCst) as u64
    }

    fn status(&self) -> SourceStatus {
        SourceStatus {
            source: "fake".to_owned(),
            readiness: Readiness::Ready,
            tools: 7,
            diagnostics: Vec::new(),
        }
    }

    fn closure_hash(&self, document: &ToolDocument) -> String {
        document.cid().unwrap()
    }

    async fn call(&self, call: ToolCall) -> Result<ToolOutput, ToolFailure> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        *self.last.lock().unwrap() = Some(Value::Object(call.input.clone()));
        let text = call
            .input
            .get("text")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        let output = |content| {
            Ok(ToolOutput {
                content,
                ..ToolOutput::default()
            })
        };
        match call.document.tool.name.as_str() {
            "fail" => Ok(ToolOutput {
                is_error: true,
                content: vec![Content::Text(text)],
                ..ToolOutput::default()
            }),
            "long" => output(vec![Content::Text(
                (1..=20_000).map(|n| format!("line {n}\n")).collect(),
            )]),
            "picture" => output(vec![Content::Image {
                mime: "image/png".to_owned(),
                data: vec![1, 2, 3],
            }]),
            // A stream of more than a megabyte, the text in it over and over.
            "spill" => {
                std::fs::create_dir_all(&call.run_dir).unwrap();
                let file = call.run_dir.join("stdout");
                let stream = format!("{text}, ").repeat(100_000);
                std::fs::write(&file, &stream).unwrap();
                let capture = StreamCapture {
                    text: text.clone(),
                    total_bytes: stream.len() as u64,
                    total_lines: 1,
                    file: Some(file),
                    truncated: false,
                };
                Ok(ToolOutput {
                    content: vec![Content::Text(text)],
                    streams: BTreeMap::from([("stdout".to_owned(), capture)]),
                    ..ToolOutput::default()
                })
            }
            "wait" => {
                call.attendance.cancel.cancelled().await;
                Err(ToolFailure::Canceled)
            }
            _ => output(vec![Content::Text(format!("did {text}"))]),
        }
    }
}

struct NoAuthor;

#[async_trait]
impl ToolAuthor for NoAuthor {
    async fn write(&self, name: &str, _content: &str, _dry_run: bool) -> Result<Authored, Refusal> {
        Err(Refusal::new(RefusalKind::NotSupported, name, "no author here"))
    }

    async fn delete(&self, name: &str, _dry_run: bool) -> Result<Authored, Refusal> {
        Err(Refusal::new(RefusalKind::NotSupported, name, "no author here"))
    }
}
