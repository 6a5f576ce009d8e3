//! Executors on one journal, and short words for what they do with runs.

use crate::fixtures::{T0, home_with, new_run};
use pentad_journal::{Journal, JournalOptions, Owner};
use pentad_model::run::{OnLoss, Run, RunStatus, Terms, WaitReason};
use pentad_model::step::{Command, CommandKind, Completion, Fingerprint, NewStep, Repeat, Step, StepBody};
use pentad_model::{Actor, Caller, RunId, ThreadId, Timestamp};
use pentad_program::{
    Advance, Advanced, Durability, NewRun, RunStore, Settled, Settlement, Store, StoreError, Wait, WaitFor,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use tempfile::TempDir;

pub const AT: Timestamp = Timestamp(T0 + 100);
pub const WAITING: RunStatus = RunStatus::Waiting(WaitReason::Event);

/// Two executors of one home, and a thread.
pub struct Two {
    pub dir: TempDir,
    pub a: Journal,
    pub b: Journal,
    pub thread: ThreadId,
}

pub fn owner(pid: u32) -> JournalOptions {
    JournalOptions {
        owner: Owner {
            pid,
            born: 1,
            boot: "b".to_owned(),
        },
        poll: Duration::from_millis(2),
        ..JournalOptions::default()
    }
}

pub async fn two() -> Two {
    let home = home_with(owner(1));
    let thread = home.thread().await;
    let b = Journal::open(home.dir.path(), owner(2)).unwrap();
    Two {
        dir: home.dir,
        a: home.journal,
        b,
        thread,
    }
}

impl Two {
    /// A run of a program, as it is started.
    pub fn program(&self) -> NewRun {
        NewRun {
            status: RunStatus::Queued,
            terms: Terms {
                program: "test".to_owned(),
                on_loss: OnLoss::Resume,
                ..Terms::default()
            },
            ..new_run(self.thread, None)
        }
    }

    /// A child as its parent waits for it.
    pub fn child_of(&self, parent: RunId) -> NewRun {
        let new = self.program();
        NewRun {
            parent: Some(parent),
            terms: Terms {
                awaited: true,
                root: Some(parent),
                depth: 1,
                ..new.terms
            },
            ..new
        }
    }

    /// Queues a run and has an executor claim all that are queued.
    pub async fn claimed(&self, by: &Journal) -> RunId {
        let new = self.program();
        self.start(new.clone()).await;
        by.claim(100, AT).await.unwrap();
        new.id
    }

    pub async fn start(&self, new: NewRun) -> RunId {
        let id = new.id;
        self.a
            .start_run(new, Vec::new(), Durability::Crash)
            .await
            .unwrap();
        id
    }

    pub async fn epoch_of(&self, journal: &Journal) -> u64 {
        let listed = journal.executors().await.unwrap();
        listed.iter().find(|executor| executor.own).unwrap().epoch
    }

    pub async fn status(&self, run: RunId) -> RunStatus {
        self.run(run).await.status
    }

    pub async fn run(&self, run: RunId) -> Run {
        self.a.run(run).await.unwrap()
    }

    pub async fn steps(&self, run: RunId) -> Vec<Step> {
        let page = self.a.steps(run, 0, 10_000).await.unwrap();
        assert!(!page.more);
        page.steps
    }

    /// Has the executor wait for something with the run, and give it up.
    pub async fn parked(&self, by: &Journal, run: RunId, after: u64, waits: Vec<Wait>) {
        let advance = Advance {
            waits,
            status: Some(WAITING),
            ..advance(run, after)
        };
        step(by, advance).await.unwrap();
        assert!(by.park(run, AT).await.unwrap());
    }
}

pub fn user() -> Caller {
    Actor::User.into()
}

pub fn command(position: u32, kind: CommandKind) -> NewStep {
    let asked = json!({ "n": position });
    NewStep {
        at: AT,
        by: None,
        body: StepBody::Command(Command {
            position,
            kind,
            fingerprint: Fingerprint::of(kind, &asked).unwrap(),
            repeat: Repeat::Safe,
            label: String::new(),
            asked,
        }),
    }
}

pub fn note(text: &str) -> NewStep {
    NewStep {
        at: AT,
        by: None,
        body: StepBody::Note {
            text: text.to_owned(),
        },
    }
}

pub const fn advance(run: RunId, after: u64) -> Advance {
    Advance {
        run,
        after,
        steps: Vec::new(),
        waits: Vec::new(),
        dropped: Vec::new(),
        children: Vec::new(),
        status: None,
        usage: None,
        events: Vec::new(),
        at: AT,
    }
}

pub async fn step(by: &Journal, advance: Advance) -> Result<Advanced, StoreError> {
    by.advance(advance, Durability::Crash).await
}

pub const fn ended(run: RunId, after: u64, status: RunStatus) -> Settlement {
    Settlement {
        run,
        after,
        steps: Vec::new(),
        status,
        output: None,
        error: None,
        stored: BTreeMap::new(),
        usage: None,
        continued: None,
        events: Vec::new(),
        at: AT,
    }
}

pub async fn settle(by: &Journal, settlement: Settlement) -> Result<Settled, StoreError> {
    by.settle(settlement, Durability::Crash).await
}

pub const fn wait(position: u32, what: WaitFor) -> Wait {
    Wait {
        position,
        what,
        due: None,
    }
}

pub fn event(position: u32, name: &str) -> Wait {
    let name = name.to_owned();
    wait(position, WaitFor::Event { name })
}

pub const fn child(position: u32, run: RunId) -> Wait {
    wait(position, WaitFor::Child { run })
}

pub const fn timer(position: u32, due: i64) -> Wait {
    Wait {
        position,
        what: WaitFor::Timer,
        due: Some(Timestamp(due)),
    }
}

/// The places and results that steps completed.
pub fn results(steps: &[Step]) -> Vec<(u32, Value)> {
    let completed = |step: &Step| match &step.body {
        StepBody::Completed {
            position,
            completion: Completion::Done(value),
        } => Some((*position, value.clone())),
        _ => None,
    };
    steps.iter().filter_map(completed).collect()
}

pub fn conflict<T: std::fmt::Debug>(result: Result<T, StoreError>) -> String {
    match result {
        Err(StoreError::Conflict(text)) => text,
        other => panic!("no conflict: {other:?}"),
    }
}
