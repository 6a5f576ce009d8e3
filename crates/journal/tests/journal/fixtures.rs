//! A journal in a temporary folder, and short words for what is written to it.

use pentad_journal::{Journal, JournalOptions};
use pentad_model::approval::{Approval, ApprovalState, Subject};
use pentad_model::event::NewEvent;
use pentad_model::run::{RunStatus, Terms};
use pentad_model::{Actor, ApprovalId, Event, EventBody, GrantSet, RunId, ThreadId, Timestamp};
use pentad_program::{Durability, NewRun, NewThread, RunChange, Store};
use serde_json::json;
use std::collections::BTreeMap;
use tempfile::TempDir;

pub const T0: i64 = 1_700_000_000_000;

pub struct Home {
    pub dir: TempDir,
    pub journal: Journal,
}

pub fn home() -> Home {
    home_with(JournalOptions::default())
}

pub fn home_with(options: JournalOptions) -> Home {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::open(dir.path(), options).unwrap();
    Home { dir, journal }
}

impl Home {
    pub async fn thread(&self) -> ThreadId {
        self.thread_at(T0).await
    }

    pub async fn thread_at(&self, at: i64) -> ThreadId {
        let new = NewThread {
            at: Timestamp(at),
            ..new_thread()
        };
        self.journal.open_thread(new).await.unwrap().id
    }

    pub async fn say(&self, thread: ThreadId, text: &str) -> Event {
        self.say_at(thread, text, T0).await
    }

    pub async fn say_at(&self, thread: ThreadId, text: &str, at: i64) -> Event {
        let new = NewEvent {
            at: Timestamp(at),
            ..note(thread, text)
        };
        let events = self.journal.append(vec![new], Durability::Crash).await.unwrap();
        events.into_iter().next().unwrap()
    }
}

pub fn new_thread() -> NewThread {
    NewThread {
        id: ThreadId::generate(),
        key: None,
        agent: "main".parse().unwrap(),
        opened_by: Actor::User,
        title: None,
        parent: None,
        cwd: Some("/project".to_owned()),
        at: Timestamp(T0),
    }
}

pub fn note(thread: ThreadId, text: &str) -> NewEvent {
    with_body(
        thread,
        EventBody::Note {
            text: text.to_owned(),
        },
    )
}

pub fn with_body(thread: ThreadId, body: EventBody) -> NewEvent {
    NewEvent {
        thread,
        at: Timestamp(T0),
        caller: Actor::User.into(),
        call: None,
        run: None,
        body,
    }
}

pub fn new_run(thread: ThreadId, name: Option<&str>) -> NewRun {
    NewRun {
        id: RunId::generate(),
        parent: None,
        thread,
        name: name.map(|n| n.parse().unwrap()),
        title: "Transcribe the meeting".to_owned(),
        tool: Some("transcribe".to_owned()),
        tool_cid: None,
        caller: Actor::Agent("main".parse().unwrap()).into(),
        grants: GrantSet::everything(),
        input: json!({"file": "/tmp/meeting.ogg", "gain": 0.1}),
        terms: Terms::default(),
        status: RunStatus::Running,
        at: Timestamp(T0),
    }
}

pub fn settled(id: RunId, status: RunStatus) -> RunChange {
    RunChange {
        id,
        status,
        output: None,
        error: None,
        stored: BTreeMap::new(),
        at: Timestamp(T0 + 5),
    }
}

pub fn subject() -> Subject {
    Subject {
        actor: "client:cursor".parse().unwrap(),
        agent: "main".parse().unwrap(),
        act: "call:github/create_issue".to_owned(),
        input_hash: "i1".to_owned(),
        closure_hash: "c1".to_owned(),
    }
}

pub fn asked(thread: ThreadId, subject: Subject) -> Approval {
    Approval {
        id: ApprovalId::generate(),
        thread,
        run: None,
        subject,
        question: "May it create an issue?".to_owned(),
        run_at_most: false,
        state: ApprovalState::Open,
        answered_by: None,
        created_at: Timestamp(T0),
        answered_at: None,
    }
}

pub fn text_of(event: &Event) -> &str {
    match &event.body {
        EventBody::Note { text } => text,
        other => panic!("no note: {other:?}"),
    }
}
