//! A runtime over a real journal, with a clock that the test turns.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pentad_journal::{Journal, JournalOptions};
use pentad_model::run::{OnLoss, Run, RunStatus, Terms};
use pentad_model::step::{Completion, Repeat, Step, StepBody};
use pentad_model::{Actor, Caller, GrantSet, Name, Outcome, RunId, ThreadId, Timestamp};
use pentad_program::{ActFailure, Attempt, Invoke, NewRun, NewThread, Program, RunStore, Store, StoreError};
use pentad_run::{Clock, Invoker, Limits, Runtime, RuntimeParts, Takes, programs};
use serde_json::Value;
use tokio::sync::watch;

pub const T0: i64 = 1_700_000_000_000;

/// A clock that stands still until it is turned.
pub struct Turned(pub watch::Sender<i64>);

impl Turned {
    pub fn new() -> Arc<Self> {
        Arc::new(Self(watch::channel(T0).0))
    }

    pub fn turn(&self, millis: i64) {
        self.0.send_modify(|now| *now += millis);
    }
}

#[async_trait]
impl Clock for Turned {
    fn now(&self) -> Timestamp {
        Timestamp(*self.0.borrow())
    }

    async fn reach(&self, moment: Timestamp) {
        let mut seen = self.0.subscribe();
        let _turned = seen.wait_for(|now| *now >= moment.0).await;
    }
}

/// No verbs here.
struct NoVerbs;

#[async_trait]
impl Invoker for NoVerbs {
    fn repeat(&self, _: &Run, _: &Invoke) -> Repeat {
        Repeat::Safe
    }

    async fn invoke(&self, _: &Run, _: Invoke, _: Attempt) -> Result<Outcome, ActFailure> {
        Err(ActFailure::Interrupted)
    }
}

pub struct Host {
    pub dir: Arc<tempfile::TempDir>,
    pub journal: Arc<Journal>,
    pub runtime: Arc<Runtime>,
    pub clock: Arc<Turned>,
    pub thread: ThreadId,
}

/// What a test wants of its host.
pub struct Setup {
    pub limits: Limits,
    pub programs: Vec<Arc<dyn Program>>,
    pub journal: JournalOptions,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            limits: limits(),
            programs: programs::all(),
            journal: JournalOptions::default(),
        }
    }
}

/// Parks whatever waits, at once: each wake is a replay.
pub fn limits() -> Limits {
    Limits {
        linger: Duration::ZERO,
        ..Limits::default()
    }
}

impl Host {
    pub async fn new() -> Self {
        Self::with(Setup::default()).await
    }

    pub async fn with(setup: Setup) -> Self {
        Self::at(Arc::new(tempfile::tempdir().unwrap()), setup, Turned::new()).await
    }

    pub async fn at(dir: Arc<tempfile::TempDir>, setup: Setup, clock: Arc<Turned>) -> Self {
        let journal = Arc::new(Journal::open(&dir.path().join("state"), setup.journal).unwrap());
        let runtime = Runtime::new(RuntimeParts {
            store: Arc::clone(&journal) as _,
            runs: Arc::clone(&journal) as _,
            invoker: Arc::new(NoVerbs),
            clock: Arc::clone(&clock) as _,
            programs: setup.programs,
            limits: setup.limits,
        });
        runtime.start(Takes::Queue).await.unwrap();
        let thread = journal
            .open_thread(NewThread {
                id: ThreadId::generate(),
                key: Some("test".to_owned()),
                agent: Name::main(),
                opened_by: Actor::User,
                title: None,
                parent: None,
                cwd: None,
                at: Timestamp(T0),
            })
            .await
            .unwrap()
            .id;
        Self {
            dir,
            journal,
            runtime,
            clock,
            thread,
        }
    }

    pub fn new_run(&self, program: &str, input: Value) -> NewRun {
        NewRun {
            id: RunId::generate(),
            parent: None,
            thread: self.thread,
            name: None,
            title: program.to_owned(),
            tool: None,
            tool_cid: None,
            caller: user(),
            grants: GrantSet::everything(),
            input,
            terms: Terms {
                program: program.to_owned(),
                on_loss: OnLoss::Resume,
                ..Terms::default()
            },
            status: RunStatus::Queued,
            at: self.clock.now(),
        }
    }

    pub async fn submit(&self, new: NewRun) -> RunId {
        let id = new.id;
        self.runtime.submit(new, Vec::new()).await.unwrap();
        id
    }

    pub async fn start(&self, program: &str, input: Value) -> RunId {
        self.submit(self.new_run(program, input)).await
    }

    pub async fn end(&self, run: RunId) -> Run {
        self.runtime.ended(run).await.unwrap()
    }

    pub async fn run(&self, run: RunId) -> Run {
        self.journal.run(run).await.unwrap()
    }

    pub async fn all(&self) -> Vec<Run> {
        let filter = pentad_program::RunFilter {
            limit: 10_000,
            ..pentad_program::RunFilter::default()
        };
        self.journal.runs(filter).await.unwrap()
    }

    pub async fn waits(&self, run: RunId) -> Vec<pentad_program::Wait> {
        self.journal.waits(run).await.unwrap()
    }

    pub async fn children(&self, run: RunId) -> Vec<Run> {
        self.journal.children(run, 10_000).await.unwrap()
    }

    pub async fn steps(&self, run: RunId) -> Vec<Step> {
        self.journal.steps(run, 0, 10_000).await.unwrap().steps
    }

    /// Waits until a run stands as `wanted` says.
    pub async fn until(&self, run: RunId, wanted: impl Fn(&Run) -> bool) -> Run {
        loop {
            let now = self.run(run).await;
            if wanted(&now) {
                return now;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Waits until a run waits and is not in memory any more.
    pub async fn until_parked(&self, run: RunId) -> Run {
        let parked = self
            .until(run, |run| matches!(run.status, RunStatus::Waiting(_)))
            .await;
        while self.runtime.in_memory() > 0 {
            tokio::task::yield_now().await;
        }
        parked
    }

    pub async fn stop(&self) {
        assert!(self.runtime.shutdown(Duration::from_secs(30)).await);
    }

    pub fn witness(&self) -> std::path::PathBuf {
        self.dir.path().join("witness")
    }

    /// How often each key stands in the witness.
    pub fn witnessed(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for line in std::fs::read_to_string(self.witness())
            .unwrap_or_default()
            .lines()
        {
            *counts.entry(line.to_owned()).or_default() += 1;
        }
        counts
    }
}

pub fn user() -> Caller {
    Actor::User.into()
}

/// A journal as words: what was asked for and what came of it.
pub fn words(steps: &[Step]) -> Vec<String> {
    let word = |step: &Step| match &step.body {
        StepBody::Started => "started".to_owned(),
        StepBody::Command(command) => format!("{} {}", command.kind.word(), command.position),
        StepBody::Completed { position, completion } => {
            let word = match completion {
                Completion::Done(_) => "done",
                Completion::Stored { .. } => "stored",
                Completion::Failed(_) => "failed",
                Completion::Interrupted => "interrupted",
                Completion::Waits(_) => "waits",
            };
            format!("{word} {position}")
        }
        StepBody::Again { position } => format!("again {position}"),
        StepBody::Note { .. } => "note".to_owned(),
    };
    steps.iter().map(word).collect()
}

pub fn is_conflict<T: std::fmt::Debug>(result: &Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::Conflict(_)))
}
