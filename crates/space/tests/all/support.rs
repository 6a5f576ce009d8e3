//! A space over a journal in memory, in a folder of its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use pentad_model::approval::{Approval, ApprovalState, Subject};
use pentad_model::canonical::sha256_hex;
use pentad_model::event::{Event, EventBody, NewEvent};
use pentad_model::invocation::Workspace;
use pentad_model::outcome::Product;
use pentad_model::plan::Plan;
use pentad_model::run::Run;
use pentad_model::thread::Thread;
use pentad_model::verb::Request;
use pentad_model::{
    Actor, ApprovalId, Caller, GrantSet, Id, IdEnding, Name, Refusal, RunId, ThreadId, Timestamp, Verb,
};
use pentad_program::{
    ActivityFilter, ApprovalFilter, Attachment, Attendance, BlobRef, Durability, EventPage, EventRange,
    NewRun, NewThread, RunChange, RunFilter, Store, StoreError, ThreadFilter, ThreadHit,
};
use pentad_space::{Scene, SelfFacts, Space, SpaceLimits, SpaceParts, WebPolicy};
use serde_json::Value;
use tempfile::TempDir;

pub const NOW: Timestamp = Timestamp(1_796_000_000_000);

pub fn id(last: u8) -> Id {
    let mut bytes = [7; 16];
    bytes[15] = last;
    Id::from_bytes(bytes)
}

#[derive(Default)]
pub struct State {
    pub threads: Vec<Thread>,
    pub events: Vec<Event>,
    pub runs: Vec<Run>,
    pub approvals: Vec<Approval>,
    pub attachments: BTreeMap<String, Attachment>,
}

pub struct MemoryStore {
    pub state: Mutex<State>,
    blobs: PathBuf,
}

impl MemoryStore {
    pub fn new(blobs: PathBuf) -> Self {
        std::fs::create_dir_all(&blobs).unwrap();
        Self {
            state: Mutex::default(),
            blobs,
        }
    }

    pub fn event(&self, thread: ThreadId, run: Option<RunId>, actor: &str, body: EventBody) {
        let position = self.state.lock().unwrap().events.len() as u64 + 1;
        self.event_at(position, thread, run, actor, body);
    }

    pub fn event_at(
        &self,
        position: u64,
        thread: ThreadId,
        run: Option<RunId>,
        actor: &str,
        body: EventBody,
    ) {
        let mut state = self.state.lock().unwrap();
        let seq = state.events.iter().filter(|event| event.thread == thread).count() as u64 + 1;
        let new = NewEvent {
            thread,
            at: NOW.plus_millis(i64::try_from(seq).unwrap() * 1000),
            caller: actor.parse::<Actor>().unwrap().into(),
            call: None,
            run,
            body,
        };
        let mut event = Event::place(new, seq, [0; 32]);
        event.position = position;
        state.events.push(event);
    }
}

pub fn missing<T>(what: &str) -> Result<T, StoreError> {
    Err(StoreError::NotFound(format!("there is no {what}")))
}

pub fn unused<T>() -> Result<T, StoreError> {
    Err(StoreError::Unusable("not part of these tests".to_owned()))
}

fn page(mut events: Vec<Event>, limit: usize, newest: bool) -> EventPage {
    let more = events.len() > limit;
    if newest {
        events.drain(..events.len().saturating_sub(limit));
    } else {
        events.truncate(limit);
    }
    EventPage { events, more }
}

#[async_trait]
impl Store for MemoryStore {
    async fn open_thread(&self, _: NewThread) -> Result<Thread, StoreError> {
        unused()
    }
    async fn find_thread(&self, ending: &IdEnding) -> Result<Thread, StoreError> {
        let state = self.state.lock().unwrap();
        let mut found = state.threads.iter().filter(|thread| ending.matches(thread.id.0));
        match (found.next(), found.count()) {
            (Some(thread), 0) => Ok(thread.clone()),
            (None, _) => missing(&format!("thread '{ending}'")),
            (Some(_), more) => Err(StoreError::Ambiguous {
                ending: ending.to_string(),
                count: more + 1,
            }),
        }
    }
    async fn threads(&self, filter: ThreadFilter) -> Result<Vec<ThreadHit>, StoreError> {
        let state = self.state.lock().unwrap();
        let skip = filter.after.map_or(0, |mark| mark.parse().unwrap());
        let wanted = |thread: &&Thread| {
            let query = filter.query.as_ref();
            filter.agent.as_ref().is_none_or(|agent| *agent == thread.agent)
                && query.is_none_or(|query| thread.title.as_ref().is_some_and(|title| title.contains(query)))
        };
        Ok(state
            .threads
            .iter()
            .filter(wanted)
            .enumerate()
            .skip(skip)
            .take(filter.limit)
            .map(|(at, thread)| ThreadHit {
                thread: thread.clone(),
                snippet: filter.query.as_ref().map(|query| format!("…{query}…")),
                mark: (at + 1).to_string(),
            })
            .collect())
    }
    async fn title_thread(&self, _: ThreadId, _: &str) -> Result<(), StoreError> {
        unused()
    }
    async fn append(&self, _: Vec<NewEvent>, _: Durability) -> Result<Vec<Event>, StoreError> {
        unused()
    }
    async fn events(
        &self,
        thread: ThreadId,
        range: EventRange,
        limit: usize,
    ) -> Result<EventPage, StoreError> {
        let state = self.state.lock().unwrap();
        let of_thread = state
            .events
            .iter()
            .filter(|event| event.thread == thread)
            .cloned();
        Ok(match range {
            EventRange::After(seq) => page(of_thread.filter(|event| event.seq > seq).collect(), limit, false),
            EventRange::Before(seq) => page(
                of_thread
                    .filter(|event| seq.is_none_or(|seq| event.seq < seq))
                    .collect(),
                limit,
                true,
            ),
        })
    }
    async fn run_events(&self, run: RunId, after: u64, limit: usize) -> Result<EventPage, StoreError> {
        let state = self.state.lock().unwrap();
        let of_run = state
            .events
            .iter()
            .filter(|event| event.run == Some(run) && event.seq > after);
        Ok(page(of_run.cloned().collect(), limit, false))
    }
    async fn feed(&self, _: u64, _: usize) -> Result<Vec<Event>, StoreError> {
        unused()
    }
    async fn activity(&self, filter: ActivityFilter) -> Result<Vec<Event>, StoreError> {
        let state = self.state.lock().unwrap();
        Ok(state
            .events
            .iter()
            .rev()
            .filter(|event| {
                filter
                    .actor
                    .as_ref()
                    .is_none_or(|actor| *actor == event.caller.actor)
            })
            .filter(|event| filter.before.is_none_or(|before| event.position < before))
            .filter(|event| filter.thread.is_none_or(|thread| thread == event.thread))
            .take(filter.limit)
            .cloned()
            .collect())
    }
    async fn head(&self) -> Result<u64, StoreError> {
        Ok(u64::MAX >> 1)
    }
    async fn changed(&self, _: u64) -> Result<u64, StoreError> {
        unused()
    }
    async fn promoted(&self, _: ThreadId) -> Result<BTreeMap<String, String>, StoreError> {
        unused()
    }
    async fn verify(&self, _: ThreadId) -> Result<Option<u64>, StoreError> {
        unused()
    }
    async fn start_run(&self, _: NewRun, _: Vec<NewEvent>, _: Durability) -> Result<(), StoreError> {
        unused()
    }
    async fn change_run(&self, _: RunChange, _: Vec<NewEvent>, _: Durability) -> Result<(), StoreError> {
        unused()
    }
    async fn run(&self, id: RunId) -> Result<Run, StoreError> {
        let state = self.state.lock().unwrap();
        let found = state.runs.iter().find(|run| run.id == id).cloned();
        found.map_or_else(|| missing(&format!("run {id}")), Ok)
    }
    async fn find_run(&self, name: &Name) -> Result<Run, StoreError> {
        let state = self.state.lock().unwrap();
        let ending = name.as_str().parse::<IdEnding>().ok();
        let fits = |run: &&Run| {
            run.name.as_ref() == Some(name) || ending.as_ref().is_some_and(|ending| ending.matches(run.id.0))
        };
        let found = state.runs.iter().find(fits).cloned();
        found.map_or_else(|| missing(&format!("run '{name}'")), Ok)
    }
    async fn runs(&self, filter: RunFilter) -> Result<Vec<Run>, StoreError> {
        let state = self.state.lock().unwrap();
        Ok(state
            .runs
            .iter()
            .rev()
            .filter(|run| filter.before.is_none_or(|before| run.id < before))
            .filter(|run| {
                filter
                    .status
                    .as_ref()
                    .is_none_or(|word| run.status.word() == word)
            })
            .take(filter.limit)
            .cloned()
            .collect())
    }
    async fn set_plan(&self, _: ThreadId, _: Plan, _: Vec<NewEvent>) -> Result<(), StoreError> {
        unused()
    }
    async fn plan(&self, _: ThreadId) -> Result<Option<Plan>, StoreError> {
        unused()
    }
    async fn ask(&self, _: Approval, _: Vec<NewEvent>) -> Result<Approval, StoreError> {
        unused()
    }
    async fn answer(
        &self,
        _: ApprovalId,
        _: ApprovalState,
        _: Caller,
        _: Timestamp,
    ) -> Result<Approval, StoreError> {
        unused()
    }
    async fn use_approval(&self, _: &Subject, _: ThreadId) -> Result<Option<Approval>, StoreError> {
        unused()
    }
    async fn find_approval(&self, ending: &IdEnding) -> Result<Approval, StoreError> {
        let state = self.state.lock().unwrap();
        let found = state
            .approvals
            .iter()
            .find(|approval| ending.matches(approval.id.0));
        found.cloned().map_or_else(|| missing("such approval"), Ok)
    }
    async fn approvals(&self, filter: ApprovalFilter) -> Result<Vec<Approval>, StoreError> {
        let state = self.state.lock().unwrap();
        let wanted = |approval: &&Approval| {
            filter
                .state
                .as_ref()
                .is_none_or(|word| approval.state.word() == word)
        };
        Ok(state
            .approvals
            .iter()
            .rev()
            .filter(wanted)
            .take(filter.limit)
            .cloned()
            .collect())
    }
    async fn put_blob(&self, bytes: Bytes) -> Result<BlobRef, StoreError> {
        let hash = sha256_hex(&bytes);
        std::fs::write(self.blobs.join(&hash), &bytes).unwrap();
        Ok(BlobRef {
            hash,
            bytes: bytes.len() as u64,
        })
    }
    async fn put_file(&self, _: &Path) -> Result<BlobRef, StoreError> {
        unused()
    }
    async fn blob(&self, _: &str, _: u64) -> Result<Bytes, StoreError> {
        unused()
    }
    async fn blob_path(&self, hash: &str) -> Result<PathBuf, StoreError> {
        let path = self.blobs.join(hash);
        if path.exists() {
            Ok(path)
        } else {
            missing("such blob")
        }
    }
    async fn put_attachment(&self, attachment: Attachment) -> Result<Attachment, StoreError> {
        let mut state = self.state.lock().unwrap();
        Ok(state
            .attachments
            .entry(attachment.cid.clone())
            .or_insert(attachment)
            .clone())
    }
    async fn attachment(&self, cid: &str) -> Result<Attachment, StoreError> {
        let state = self.state.lock().unwrap();
        let found = state.attachments.get(cid).cloned();
        found.map_or_else(|| missing(&format!("attachment {cid}")), Ok)
    }
}

/// A home in a folder that goes away with it.
pub struct Home {
    _dir: TempDir,
    pub root: PathBuf,
    pub store: Arc<MemoryStore>,
    pub space: Space,
    pub scene: Scene,
}

pub fn home() -> Home {
    home_with(SpaceLimits::default(), WebPolicy::default())
}

pub fn home_with(limits: SpaceLimits, web: WebPolicy) -> Home {
    let dir = TempDir::new().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let store = Arc::new(MemoryStore::new(root.join("blobs")));
    let pentad = root.join("home");
    let work = root.join("work");
    std::fs::create_dir_all(pentad.join("memory")).unwrap();
    std::fs::create_dir_all(&work).unwrap();
    let parts = SpaceParts {
        store: store.clone(),
        memory_root: pentad.join("memory"),
        agents_dir: pentad.join("agents"),
        forbidden: vec![
            pentad,
            root.join("client.json"),
            root.join("linked.json"),
            root.join("not-yet"),
        ],
        limits,
        web,
        facts: SelfFacts {
            build: "pentad 0.1.0".to_owned(),
            limits: BTreeMap::from([("view".to_owned(), "8.0 KiB".to_owned())]),
        },
    };
    let scene = Scene {
        caller: Actor::User.into(),
        agent: Name::main(),
        thread: ThreadId(id(1)),
        run: None,
        workspace: Workspace {
            cwd: work.clone(),
            project_root: None,
            trusted: false,
        },
        read_roots: vec![work.clone()],
        write_roots: vec![work],
        grants: GrantSet::default(),
        dry_run: false,
        attendance: Attendance::default(),
        now: NOW,
    };
    Home {
        _dir: dir,
        root,
        store,
        space: Space::new(parts),
        scene,
    }
}

impl Home {
    pub fn work(&self, path: &str) -> PathBuf {
        self.root.join("work").join(path)
    }

    pub fn memory(&self, path: &str) -> PathBuf {
        self.root.join("home/memory/main").join(path)
    }

    pub async fn read(&self, arguments: Value) -> Result<Product, Refusal> {
        match Request::parse(Verb::Read, &arguments)? {
            Request::Read(read) => self.space.read(&self.scene, &read).await,
            _ => panic!("no read"),
        }
    }

    pub async fn text(&self, address: &str) -> String {
        self.read(serde_json::json!({"address": address}))
            .await
            .unwrap()
            .text
    }

    pub async fn refused(&self, address: &str) -> Refusal {
        self.read(serde_json::json!({"address": address}))
            .await
            .unwrap_err()
    }

    pub async fn write(&self, arguments: Value) -> Result<Product, Refusal> {
        match Request::parse(Verb::Write, &arguments)? {
            Request::Write(write) => self.space.write(&self.scene, &write).await,
            _ => panic!("no write"),
        }
    }

    /// Replaces what differs between runs: the folder, and times that the file system gave.
    pub fn stable(&self, text: &str) -> String {
        let text = text.replace(self.root.to_str().unwrap(), "ROOT");
        regex::Regex::new(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
            .unwrap()
            .replace_all(&text, |found: &regex::Captures<'_>| {
                let time = Timestamp::parse(&found[0]).unwrap();
                let near = (time.0 - NOW.0).abs() < 3_600_000;
                if near {
                    found[0].to_owned()
                } else {
                    "TIME".to_owned()
                }
            })
            .into_owned()
    }
}

/// The smallest PNG.
pub const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89";
