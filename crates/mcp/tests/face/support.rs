//! A client on raw lines and verbs that do as they are told.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use pentad_mcp::{FaceEnd, FaceLimits, FaceOptions, LazyVerbs, StateKey, serve};
use pentad_model::approval::{Approval, ApprovalState, Subject};
use pentad_model::invocation::{ThreadChoice, Workspace};
use pentad_model::outcome::Omitted;
use pentad_model::{
    ApprovalId, CallId, Id, Invocation, Name, Outcome, Part, Refusal, RefusalKind, Status, ThreadId,
    Timestamp, Verb,
};
use pentad_program::{Answer, Attendance, Progress, Verbs};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Verbs that follow the `do` member of their arguments' options.
pub struct Obedient {
    pub seen: Mutex<Vec<Invocation>>,
    pub canceled: Notify,
    pub started: mpsc::UnboundedSender<String>,
    pub release: Notify,
}

pub fn fixed_outcome(verb: Verb) -> Outcome {
    Outcome {
        status: Status::Ok,
        verb,
        call: CallId(Id::from_bytes([1; 16])),
        thread: ThreadId(Id::from_bytes([2; 16])),
        run: None,
        text: "read it".to_owned(),
        omitted: None,
        value: None,
        parts: Vec::new(),
        refusal: None,
    }
}

/// The approval that the address `ask` and its like wait for.
pub fn approval(number: u8, run_at_most: bool) -> Approval {
    Approval {
        id: ApprovalId(Id::from_bytes([number; 16])),
        thread: ThreadId(Id::from_bytes([2; 16])),
        run: None,
        subject: Subject {
            actor: "client:tester".parse().unwrap(),
            agent: Name::main(),
            act: "read:file:/etc/hosts".to_owned(),
            input_hash: String::new(),
            closure_hash: String::new(),
        },
        question: "read file:/etc/hosts\u{202e}".to_owned(),
        run_at_most,
        state: ApprovalState::Open,
        answered_by: None,
        created_at: Timestamp(0),
        answered_at: None,
    }
}

/// Does what the engine does with an approval.
async fn ask(attendance: &Attendance, approval: Approval, outcome: &mut Outcome) {
    let answer = match &attendance.asker {
        None => Answer::Unanswered,
        Some(asker) => tokio::select! {
            answer = asker.ask(&approval) => answer,
            () = attendance.cancel.cancelled() => Answer::Unanswered,
        },
    };
    outcome.text = serde_json::to_string(&answer).unwrap();
    if !matches!(answer, Answer::Granted(_)) {
        let (kind, status) = match answer {
            Answer::Denied => (RefusalKind::Forbidden, Status::Refused),
            _ => (RefusalKind::ApprovalRequired, Status::Waiting),
        };
        let text = format!("{} approval:{}", outcome.text, approval.id);
        outcome.status = status;
        outcome.refusal = Some(Refusal::new(kind, "read:file:/etc/hosts", text));
    }
}

#[async_trait]
impl Verbs for Obedient {
    async fn invoke(&self, invocation: Invocation, attendance: Attendance) -> Outcome {
        let address = invocation.arguments["address"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let mut outcome = fixed_outcome(invocation.verb);
        self.seen.lock().unwrap().push(invocation);
        self.started.send(address.clone()).unwrap();
        match address.as_str() {
            "wait" => {
                attendance.cancel.cancelled().await;
                self.canceled.notify_one();
                outcome.status = Status::Failed;
            }
            "ask" => {
                ask(&attendance, approval(3, false), &mut outcome).await;
                self.canceled.notify_one();
            }
            "ask at most" => ask(&attendance, approval(4, true), &mut outcome).await,
            "ask twice" => {
                ask(&attendance, approval(3, false), &mut outcome).await;
                if outcome.status == Status::Ok {
                    ask(&attendance, approval(5, false), &mut outcome).await;
                }
            }
            "stuck" => std::future::pending().await,
            "release" => self.release.notified().await,
            "progress" => {
                for done in [1.0, 2.0, 2.0, 3.0] {
                    attendance.progress.report(Progress {
                        done,
                        total: Some(3.0),
                        message: Some(format!("step {done}")),
                    });
                    tokio::task::yield_now().await;
                }
                self.release.notified().await;
            }
            "value" => outcome.value = Some(json!({"answer": 42})),
            "list" => outcome.value = Some(json!([1, 2])),
            "refused" => {
                let refusal = Refusal::new(RefusalKind::NotFound, "file:none", "Nothing is at file:none.")
                    .supported(["file:README.md"])
                    .next_step("read file: lists what is there");
                outcome.status = Status::Refused;
                outcome.text = refusal.to_text();
                outcome.refusal = Some(refusal);
            }
            "picture" => {
                outcome.parts = vec![
                    Part::Image {
                        cid: "bafy1".into(),
                        mime: "image/png".into(),
                        data: Some("iVBORw0KGgo=".into()),
                    },
                    Part::Audio {
                        cid: "bafy2".into(),
                        mime: "audio/wav".into(),
                        data: None,
                    },
                    Part::Link {
                        address: "run:abc/output".into(),
                        title: Some("Output".into()),
                    },
                ];
            }
            "long" => {
                outcome.omitted = Some(Omitted {
                    shown_bytes: 7,
                    total_bytes: 700,
                    total_lines: 9,
                    address: "run:abc/output".into(),
                });
            }
            _ => {}
        }
        outcome
    }
}

pub fn options() -> FaceOptions {
    FaceOptions {
        thread: ThreadChoice::Key("mcp:test".to_owned()),
        agent: None,
        workspace: Workspace {
            cwd: "/work".into(),
            project_root: None,
            trusted: false,
        },
        client: None,
        on_behalf_of: None,
        view_bytes: Some(32 << 10),
        state_key: None,
        limits: FaceLimits::default(),
        shutdown: CancellationToken::new(),
    }
}

/// The key of a home.
pub fn state_key(byte: u8) -> StateKey {
    StateKey::read_by(move || Ok(vec![byte; 32]))
}

/// A running face and the client's ends of its pipes.
pub struct Client {
    input: Option<DuplexStream>,
    output: Lines<BufReader<DuplexStream>>,
    pub verbs: Arc<Obedient>,
    pub started: mpsc::UnboundedReceiver<String>,
    pub face: JoinHandle<FaceEnd>,
}

impl Client {
    pub fn start(options: FaceOptions) -> Self {
        let (started, heard) = mpsc::unbounded_channel();
        let verbs = Arc::new(Obedient {
            seen: Mutex::default(),
            canceled: Notify::new(),
            started,
            release: Notify::new(),
        });
        Self::start_with(
            options,
            LazyVerbs::ready(Arc::clone(&verbs) as Arc<dyn Verbs>),
            verbs,
            heard,
        )
    }

    pub fn start_with(
        options: FaceOptions,
        lazy: LazyVerbs,
        verbs: Arc<Obedient>,
        started: mpsc::UnboundedReceiver<String>,
    ) -> Self {
        let (input, theirs) = tokio::io::duplex(1 << 16);
        let (ours, output) = tokio::io::duplex(1 << 16);
        let face = tokio::spawn(serve(lazy, options, theirs, ours));
        Self {
            input: Some(input),
            output: BufReader::new(output).lines(),
            verbs,
            started,
            face,
        }
    }

    pub async fn say(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(line.as_bytes()).await.unwrap();
        input.write_all(b"\n").await.unwrap();
    }

    pub async fn send(&mut self, message: Value) {
        self.say(&message.to_string()).await;
    }

    pub async fn heard_text(&mut self) -> String {
        let line = tokio::time::timeout(Duration::from_secs(20), self.output.next_line()).await;
        line.expect("an answer in time")
            .unwrap()
            .expect("an open connection")
    }

    pub async fn heard(&mut self) -> Value {
        serde_json::from_str(&self.heard_text().await).unwrap()
    }

    /// Returns what is still written until the face closes its end.
    pub async fn rest(&mut self) -> Vec<Value> {
        let mut rest = Vec::new();
        while let Some(line) = self.output.next_line().await.unwrap() {
            rest.push(serde_json::from_str(&line).unwrap());
        }
        rest
    }

    pub fn hang_up(&mut self) {
        self.input = None;
    }

    pub async fn initialize(&mut self, version: &str) -> Value {
        self.initialize_with(version, json!({})).await
    }

    pub async fn initialize_with(&mut self, version: &str, capabilities: Value) -> Value {
        self.send(
            json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": version, "capabilities": capabilities,
            "clientInfo": {"name": "Claude Code (beta)", "version": "1"}}}),
        )
        .await;
        let answer = self.heard().await;
        self.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
            .await;
        answer
    }

    pub async fn read(&mut self, id: u64, address: &str) {
        self.send(read_request(id, address)).await;
    }
}

pub fn read_request(id: u64, address: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
        "params": {"name": "read", "arguments": {"address": address}}})
}

/// The `_meta` of a request in the stateless revision.
pub fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "modern client", "version": "2"},
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

pub fn modern(id: u64, method: &str, mut params: Value) -> Value {
    params["_meta"] = meta();
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}
