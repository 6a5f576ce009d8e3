//! A house with nobody in it: what the HTTP face needs, made of memory.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use pentad_model::approval::{Approval, ApprovalState, Subject};
use pentad_model::event::{Event, EventBody, NewEvent};
use pentad_model::invocation::Workspace;
use pentad_model::plan::Plan;
use pentad_model::run::{Run, RunStatus, Terms, Usage};
use pentad_model::step::{Completion, NewStep, Step, StepBody};
use pentad_model::thread::Thread;
use pentad_model::{
    Actor, ApprovalId, CallId, Caller, GrantSet, IdEnding, Invocation, Name, Outcome, Refusal, RunId, Status,
    ThreadId, Timestamp,
};
use pentad_program::*;
use pentad_web::{Access, Attachments, Face, Tokens, listen, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Answers with what it was asked, or waits until it is cancelled when the tool is called `hang`.
pub struct Echo {
    pub asked: Mutex<Vec<Invocation>>,
    pub canceled: mpsc::Sender<()>,
    pub began: mpsc::Sender<()>,
}

#[async_trait]
impl Verbs for Echo {
    async fn invoke(&self, invocation: Invocation, attendance: Attendance) -> Outcome {
        self.asked.lock().unwrap().push(invocation.clone());
        if invocation
            .arguments
            .get("tool")
            .is_some_and(|tool| tool == "hang")
        {
            // As the engine does: the work is a task of its own, which sees the cancellation to its end.
            let canceled = self.canceled.clone();
            let cancel = attendance.cancel.clone();
            let work = tokio::spawn(async move {
                cancel.cancelled().await;
                let _ = canceled.send(()).await;
            });
            let _ = self.began.send(()).await;
            let _ = work.await;
        }
        Outcome {
            status: Status::Refused,
            verb: invocation.verb,
            call: CallId::generate(),
            thread: ThreadId::generate(),
            run: None,
            text: invocation.caller.actor.to_string(),
            omitted: None,
            value: None,
            parts: Vec::new(),
            refusal: None,
        }
    }
}

/// A journal in memory that only feeds.
pub struct Feeding {
    pub events: Mutex<Vec<Event>>,
    pub steps: Mutex<Vec<Step>>,
    pub owners: Mutex<BTreeMap<RunId, Actor>>,
    pub head: watch::Sender<u64>,
}

impl Feeding {
    pub fn add(&self, actor: Actor, text: &str) {
        let mut events = self.events.lock().unwrap();
        let new = NewEvent {
            thread: ThreadId::generate(),
            at: Timestamp(0),
            caller: actor.into(),
            call: None,
            run: None,
            body: EventBody::Note {
                text: text.to_owned(),
            },
        };
        let mut event = Event::place(new, 1, [0; 32]);
        event.position = *self.head.borrow() + 1;
        let position = event.position;
        events.push(event);
        let _ = self.head.send_replace(position);
    }

    /// Starts a run, which is a fact of no event here.
    pub fn run_of(&self, actor: Actor) -> RunId {
        let run = RunId::generate();
        self.owners.lock().unwrap().insert(run, actor);
        run
    }

    pub fn step(&self, run: RunId, text: &str) {
        let mut steps = self.steps.lock().unwrap();
        let new = NewStep {
            at: Timestamp(0),
            by: None,
            body: StepBody::Note {
                text: text.to_owned(),
            },
        };
        let mut step = Step::place(new, run, steps.len() as u64 + 1, [0; 32]);
        step.journal = *self.head.borrow() + 1;
        let position = step.journal;
        steps.push(step);
        let _ = self.head.send_replace(position);
    }
}

#[async_trait]
impl Store for Feeding {
    async fn feed(&self, after: u64, limit: usize) -> Result<Vec<Event>, StoreError> {
        let events = self.events.lock().unwrap();
        Ok(events
            .iter()
            .filter(|event| event.position > after)
            .take(limit)
            .cloned()
            .collect())
    }
    async fn head(&self) -> Result<u64, StoreError> {
        Ok(*self.head.borrow())
    }
    async fn changed(&self, after: u64) -> Result<u64, StoreError> {
        let mut head = self.head.subscribe();
        let found = head.wait_for(|head| *head > after).await;
        found.map(|head| *head).map_err(|_| StoreError::Closed)
    }

    async fn open_thread(&self, _: NewThread) -> Result<Thread, StoreError> {
        Err(StoreError::Closed)
    }
    async fn find_thread(&self, _: &IdEnding) -> Result<Thread, StoreError> {
        Err(StoreError::Closed)
    }
    async fn threads(&self, _: ThreadFilter) -> Result<Vec<ThreadHit>, StoreError> {
        Err(StoreError::Closed)
    }
    async fn title_thread(&self, _: ThreadId, _: &str) -> Result<(), StoreError> {
        Err(StoreError::Closed)
    }
    async fn append(&self, _: Vec<NewEvent>, _: Durability) -> Result<Vec<Event>, StoreError> {
        Err(StoreError::Closed)
    }
    async fn events(&self, _: ThreadId, _: EventRange, _: usize) -> Result<EventPage, StoreError> {
        Err(StoreError::Closed)
    }
    async fn run_events(&self, _: RunId, _: u64, _: usize) -> Result<EventPage, StoreError> {
        Err(StoreError::Closed)
    }
    async fn activity(&self, _: ActivityFilter) -> Result<Vec<Event>, StoreError> {
        Err(StoreError::Closed)
    }
    async fn promoted(&self, _: ThreadId) -> Result<BTreeMap<String, String>, StoreError> {
        Err(StoreError::Closed)
    }
    async fn verify(&self, _: ThreadId) -> Result<Option<u64>, StoreError> {
        Err(StoreError::Closed)
    }
    async fn start_run(&self, _: NewRun, _: Vec<NewEvent>, _: Durability) -> Result<(), StoreError> {
        Err(StoreError::Closed)
    }
    async fn change_run(&self, _: RunChange, _: Vec<NewEvent>, _: Durability) -> Result<(), StoreError> {
        Err(StoreError::Closed)
    }
    async fn run(&self, id: RunId) -> Result<Run, StoreError> {
        let owners = self.owners.lock().unwrap();
        let actor = owners
            .get(&id)
            .ok_or_else(|| StoreError::NotFound(format!("there is no run {id}")))?;
        Ok(Run {
            id,
            parent: None,
            thread: ThreadId::generate(),
            name: None,
            title: "x".to_owned(),
            tool: None,
            tool_cid: None,
            caller: actor.clone().into(),
            status: RunStatus::Running,
            grants: GrantSet::everything(),
            input: serde_json::Value::Null,
            terms: Terms::default(),
            usage: Usage::default(),
            canceling: false,
            output: None,
            error: None,
            stored: BTreeMap::new(),
            created_at: Timestamp(0),
            updated_at: Timestamp(0),
        })
    }
    async fn find_run(&self, _: &Name) -> Result<Run, StoreError> {
        Err(StoreError::Closed)
    }
    async fn runs(&self, _: RunFilter) -> Result<Vec<Run>, StoreError> {
        Err(StoreError::Closed)
    }
    async fn set_plan(&self, _: ThreadId, _: Plan, _: Vec<NewEvent>) -> Result<(), StoreError> {
        Err(StoreError::Closed)
    }
    async fn plan(&self, _: ThreadId) -> Result<Option<Plan>, StoreError> {
        Err(StoreError::Closed)
    }
    async fn ask(&self, _: Approval, _: Vec<NewEvent>) -> Result<Approval, StoreError> {
        Err(StoreError::Closed)
    }
    async fn answer(
        &self,
        _: ApprovalId,
        _: ApprovalState,
        _: Caller,
        _: Timestamp,
    ) -> Result<Approval, StoreError> {
        Err(StoreError::Closed)
    }
    async fn use_approval(&self, _: &Subject, _: ThreadId) -> Result<Option<Approval>, StoreError> {
        Err(StoreError::Closed)
    }
    async fn find_approval(&self, _: &IdEnding) -> Result<Approval, StoreError> {
        Err(StoreError::Closed)
    }
    async fn approvals(&self, _: ApprovalFilter) -> Result<Vec<Approval>, StoreError> {
        Err(StoreError::Closed)
    }
    async fn put_blob(&self, _: Bytes) -> Result<BlobRef, StoreError> {
        Err(StoreError::Closed)
    }
    async fn put_file(&self, _: &Path) -> Result<BlobRef, StoreError> {
        Err(StoreError::Closed)
    }
    async fn blob(&self, _: &str, _: u64) -> Result<Bytes, StoreError> {
        Err(StoreError::Closed)
    }
    async fn blob_path(&self, _: &str) -> Result<PathBuf, StoreError> {
        Err(StoreError::Closed)
    }
    async fn put_attachment(&self, _: Attachment) -> Result<Attachment, StoreError> {
        Err(StoreError::Closed)
    }
    async fn attachment(&self, _: &str) -> Result<Attachment, StoreError> {
        Err(StoreError::Closed)
    }
}

#[async_trait]
impl RunStore for Feeding {
    async fn step_feed(&self, after: u64, limit: usize) -> Result<Vec<Step>, StoreError> {
        let steps = self.steps.lock().unwrap();
        let found = steps.iter().filter(|step| step.journal > after);
        Ok(found.take(limit).cloned().collect())
    }
    async fn beat(&self) -> Result<(), StoreError> {
        Err(StoreError::Closed)
    }
    async fn executors(&self) -> Result<Vec<Executor>, StoreError> {
        Err(StoreError::Closed)
    }
    async fn retire(&self, _: Vec<u64>, _: Timestamp) -> Result<Retired, StoreError> {
        Err(StoreError::Closed)
    }
    async fn claim(&self, _: usize, _: Timestamp) -> Result<Vec<Run>, StoreError> {
        Err(StoreError::Closed)
    }
    async fn mail(&self, _: usize) -> Result<Vec<RunId>, StoreError> {
        Err(StoreError::Closed)
    }
    async fn steps(&self, _: RunId, _: u64, _: usize) -> Result<StepPage, StoreError> {
        Err(StoreError::Closed)
    }
    async fn waits(&self, _: RunId) -> Result<Vec<Wait>, StoreError> {
        Err(StoreError::Closed)
    }
    async fn advance(&self, _: Advance, _: Durability) -> Result<Advanced, StoreError> {
        Err(StoreError::Closed)
    }
    async fn take(&self, _: RunId, _: u64, _: Timestamp) -> Result<Vec<Step>, StoreError> {
        Err(StoreError::Closed)
    }
    async fn park(&self, _: RunId, _: Timestamp) -> Result<bool, StoreError> {
        Err(StoreError::Closed)
    }
    async fn settle(&self, _: Settlement, _: Durability) -> Result<Settled, StoreError> {
        Err(StoreError::Closed)
    }
    async fn send(
        &self,
        _: RunId,
        _: &str,
        _: serde_json::Value,
        _: Caller,
        _: Timestamp,
    ) -> Result<Delivery, StoreError> {
        Err(StoreError::Closed)
    }
    async fn answer_wait(
        &self,
        _: RunId,
        _: u32,
        _: Completion,
        _: Caller,
        _: Timestamp,
    ) -> Result<(), StoreError> {
        Err(StoreError::Closed)
    }
    async fn fire(&self, _: Timestamp) -> Result<Option<Timestamp>, StoreError> {
        Err(StoreError::Closed)
    }
    async fn cancel(&self, _: RunId, _: Caller, _: String, _: Timestamp) -> Result<Canceling, StoreError> {
        Err(StoreError::Closed)
    }
    async fn children(&self, _: RunId, _: usize) -> Result<Vec<Run>, StoreError> {
        Err(StoreError::Closed)
    }
    async fn counts(&self, _: Option<RunId>) -> Result<RunCounts, StoreError> {
        Err(StoreError::Closed)
    }
    async fn verify_run(&self, _: RunId) -> Result<Option<u64>, StoreError> {
        Err(StoreError::Closed)
    }
    async fn stirred(&self, _: u64) -> Result<u64, StoreError> {
        Err(StoreError::Closed)
    }
}

/// Says how many bytes it was given.
pub struct Counting;

#[async_trait]
impl Attachments for Counting {
    async fn attach(
        &self,
        file: &Path,
        name: Option<String>,
        mime: Option<String>,
    ) -> Result<Attachment, Refusal> {
        Ok(Attachment {
            cid: "bafytest".to_owned(),
            name,
            mime: mime.unwrap_or_else(|| "application/octet-stream".to_owned()),
            bytes: std::fs::metadata(file).unwrap().len(),
            created_at: Timestamp(0),
        })
    }
}

/// A served face.
pub struct Served {
    pub address: SocketAddr,
    pub person: String,
    pub client: String,
    pub echo: Arc<Echo>,
    pub store: Arc<Feeding>,
    pub began: mpsc::Receiver<()>,
    pub canceled: mpsc::Receiver<()>,
    pub shutdown: CancellationToken,
    pub task: JoinHandle<Result<(), pentad_web::ServeError>>,
    pub dir: tempfile::TempDir,
}

pub fn client_name() -> Name {
    "cursor".parse().unwrap()
}

pub async fn start() -> Served {
    let listener = listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let tokens = Tokens::generate([client_name()]).unwrap();
    let printed = tokens.printable();
    let (canceled_in, canceled) = mpsc::channel(4);
    let (began_in, began) = mpsc::channel(4);
    let echo = Arc::new(Echo {
        asked: Mutex::default(),
        canceled: canceled_in,
        began: began_in,
    });
    let store = Arc::new(Feeding {
        events: Mutex::default(),
        steps: Mutex::default(),
        owners: Mutex::default(),
        head: watch::channel(0).0,
    });
    let dir = tempfile::tempdir().unwrap();
    let face = face(echo.clone(), store.clone(), Access::Tokens(tokens), dir.path());
    let shutdown = CancellationToken::new();
    let task = tokio::spawn(serve(listener, face, shutdown.clone()));
    Served {
        address,
        person: printed[0].1.clone(),
        client: printed[1].1.clone(),
        echo,
        store,
        began,
        canceled,
        shutdown,
        task,
        dir,
    }
}

pub fn face(echo: Arc<Echo>, store: Arc<Feeding>, access: Access, uploads: &Path) -> Face {
    let workspace = |path: &str| Workspace {
        cwd: path.into(),
        project_root: None,
        trusted: false,
    };
    Face {
        verbs: echo,
        store: store.clone(),
        runs: store,
        attachments: Arc::new(Counting),
        access,
        hosts: vec!["pentad.lan".to_owned()],
        workspace: workspace("/default"),
        workspaces: BTreeMap::from([("site".parse().unwrap(), workspace("/src/site"))]),
        state_key: None,
        uploads: uploads.to_path_buf(),
        body_bytes: 4096,
        attachment_bytes: 100_000,
        heartbeat: Duration::from_millis(50),
        drain: Duration::from_millis(200),
    }
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

impl Served {
    /// Sends raw headers and body on a connection of its own, which the server closes.
    pub async fn raw(&self, head: &str, body: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let head = head
            .replace("{ADDRESS}", &self.address.to_string())
            .replace('\n', "\r\n");
        stream
            .write_all(format!("{head}\r\nConnection: close\r\n\r\n").as_bytes())
            .await
            .unwrap();
        // A server that turns a body away may close before it was sent whole.
        let _ = stream.write_all(body).await;
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes).await;
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        Answer {
            status: head
                .split_whitespace()
                .nth(1)
                .and_then(|s| s.parse().ok())
                .unwrap_or(0),
            head: head.to_owned(),
            body: body.to_owned(),
        }
    }

    pub async fn post(&self, token: &str, path: &str, body: &str) -> Answer {
        let head = format!(
            "POST {path} HTTP/1.1\nHost: {{ADDRESS}}\nAuthorization: Bearer {token}\nContent-Type: application/json\nContent-Length: {}",
            body.len()
        );
        self.raw(&head, body.as_bytes()).await
    }

    /// Opens a stream of events.
    pub async fn stream(&self, token: &str, query: &str, headers: &str) -> EventStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let head = format!(
            "GET /api/v1/events{query} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n{headers}\r\n",
            self.address
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        EventStream {
            stream,
            text: String::new(),
        }
    }
}

pub struct EventStream {
    pub stream: TcpStream,
    pub text: String,
}

impl EventStream {
    /// Reads until `wanted` has been received; tells whether it was before the end.
    pub async fn until(&mut self, wanted: &str) -> bool {
        let mut buffer = vec![0; 65536];
        let mut searched = 0;
        while !self
            .text
            .get(searched..)
            .is_some_and(|rest| rest.contains(wanted))
        {
            let back = self.text.len().saturating_sub(wanted.len());
            searched = (0..=back)
                .rev()
                .find(|at| self.text.is_char_boundary(*at))
                .unwrap_or(0);
            match self.stream.read(&mut buffer).await {
                Ok(0) | Err(_) => return false,
                Ok(n) => self.text.push_str(&String::from_utf8_lossy(&buffer[..n])),
            }
        }
        true
    }
}
