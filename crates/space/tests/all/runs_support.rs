//! Steps and waits in memory, and somebody who says what he was told.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use pentad_model::run::Run;
use pentad_model::step::{Command, CommandKind, Completion, Fingerprint, NewStep, Repeat, Step, StepBody};
use pentad_model::{Caller, Refusal, RunId, Timestamp};
use pentad_program::{
    Advance, Advanced, Canceling, Delivery, Durability, Executor, Retired, RunControl, RunCounts, RunStore,
    Settled, Settlement, StepPage, StoreError, Wait,
};
use serde_json::{Value, json};

use crate::support::{MemoryStore, NOW, unused};

pub struct MemoryRuns {
    pub store: Arc<MemoryStore>,
    pub steps: Mutex<Vec<Step>>,
    pub waits: Mutex<BTreeMap<RunId, Vec<Wait>>>,
}

impl MemoryRuns {
    pub fn new(store: &Arc<MemoryStore>) -> Arc<Self> {
        Arc::new(Self {
            store: Arc::clone(store),
            steps: Mutex::default(),
            waits: Mutex::default(),
        })
    }

    /// Adds a step at a place of the journal.
    pub fn step(&self, journal: u64, run: RunId, by: Option<&str>, body: StepBody) {
        let mut steps = self.steps.lock().unwrap();
        let seq = steps.iter().filter(|step| step.run == run).count() as u64 + 1;
        let new = NewStep {
            at: NOW.plus_millis(i64::try_from(journal).unwrap() * 1000),
            by: by.map(|by| by.parse::<pentad_model::Actor>().unwrap().into()),
            body,
        };
        let mut step = Step::place(new, run, seq, [0; 32]);
        step.journal = journal;
        steps.push(step);
        steps.sort_by_key(|step| step.journal);
    }

    pub fn wait(&self, run: RunId, wait: Wait) {
        self.waits.lock().unwrap().entry(run).or_default().push(wait);
    }
}

pub fn command(position: u32, kind: CommandKind, label: &str, asked: Value) -> StepBody {
    StepBody::Command(Command {
        position,
        kind,
        fingerprint: Fingerprint::of(kind, &asked).unwrap(),
        repeat: Repeat::Safe,
        label: label.to_owned(),
        asked,
    })
}

pub fn done(position: u32, value: Value) -> StepBody {
    StepBody::Completed {
        position,
        completion: Completion::Done(value),
    }
}

#[async_trait]
impl RunStore for MemoryRuns {
    async fn beat(&self) -> Result<(), StoreError> {
        unused()
    }
    async fn executors(&self) -> Result<Vec<Executor>, StoreError> {
        unused()
    }
    async fn retire(&self, _: Vec<u64>, _: Timestamp) -> Result<Retired, StoreError> {
        unused()
    }
    async fn claim(&self, _: usize, _: Timestamp) -> Result<Vec<Run>, StoreError> {
        unused()
    }
    async fn mail(&self, _: usize) -> Result<Vec<RunId>, StoreError> {
        unused()
    }
    async fn steps(&self, run: RunId, after: u64, limit: usize) -> Result<StepPage, StoreError> {
        let steps = self.steps.lock().unwrap();
        let mut found: Vec<Step> = steps
            .iter()
            .filter(|step| step.run == run && step.seq > after)
            .take(limit + 1)
            .cloned()
            .collect();
        let more = found.len() > limit;
        found.truncate(limit);
        Ok(StepPage { steps: found, more })
    }
    async fn step_feed(&self, after: u64, limit: usize) -> Result<Vec<Step>, StoreError> {
        let steps = self.steps.lock().unwrap();
        let found = steps.iter().filter(|step| step.journal > after);
        Ok(found.take(limit).cloned().collect())
    }
    async fn waits(&self, run: RunId) -> Result<Vec<Wait>, StoreError> {
        Ok(self.waits.lock().unwrap().get(&run).cloned().unwrap_or_default())
    }
    async fn advance(&self, _: Advance, _: Durability) -> Result<Advanced, StoreError> {
        unused()
    }
    async fn take(&self, _: RunId, _: u64, _: Timestamp) -> Result<Vec<Step>, StoreError> {
        unused()
    }
    async fn park(&self, _: RunId, _: Timestamp) -> Result<bool, StoreError> {
        unused()
    }
    async fn settle(&self, _: Settlement, _: Durability) -> Result<Settled, StoreError> {
        unused()
    }
    async fn send(
        &self,
        _: RunId,
        _: &str,
        _: Value,
        _: Caller,
        _: Timestamp,
    ) -> Result<Delivery, StoreError> {
        unused()
    }
    async fn answer_wait(
        &self,
        _: RunId,
        _: u32,
        _: Completion,
        _: Caller,
        _: Timestamp,
    ) -> Result<(), StoreError> {
        unused()
    }
    async fn fire(&self, _: Timestamp) -> Result<Option<Timestamp>, StoreError> {
        unused()
    }
    async fn cancel(&self, _: RunId, _: Caller, _: String, _: Timestamp) -> Result<Canceling, StoreError> {
        unused()
    }
    async fn children(&self, run: RunId, limit: usize) -> Result<Vec<Run>, StoreError> {
        let state = self.store.state.lock().unwrap();
        let found = state.runs.iter().filter(|child| child.parent == Some(run));
        Ok(found.take(limit).cloned().collect())
    }
    async fn counts(&self, _: Option<RunId>) -> Result<RunCounts, StoreError> {
        let state = self.store.state.lock().unwrap();
        let count = |word: &str| state.runs.iter().filter(|run| run.status.word() == word).count() as u64;
        Ok(RunCounts {
            running: count("running"),
            queued: count("queued"),
            waiting: count("waiting"),
        })
    }
    async fn verify_run(&self, _: RunId) -> Result<Option<u64>, StoreError> {
        unused()
    }
    async fn stirred(&self, _: u64) -> Result<u64, StoreError> {
        unused()
    }
}

/// Notes what it is told.
#[derive(Default)]
pub struct Told(pub Mutex<Vec<Value>>);

#[async_trait]
impl RunControl for Told {
    async fn cancel(&self, run: RunId, by: Caller, reason: String) -> Result<Canceling, Refusal> {
        let told = json!({"cancel": run, "by": by.actor, "reason": reason});
        self.0.lock().unwrap().push(told);
        Ok(Canceling {
            canceled: Vec::new(),
            canceling: vec![run],
        })
    }
    async fn signal(&self, run: RunId, event: &str, value: Value, by: Caller) -> Result<Delivery, Refusal> {
        let told = json!({"signal": event, "run": run, "by": by.actor, "value": value});
        self.0.lock().unwrap().push(told);
        Ok(if event == "approve" {
            Delivery::Delivered
        } else {
            Delivery::Kept
        })
    }
    async fn answer(&self, run: RunId, position: u32, answer: Value, by: Caller) -> Result<(), Refusal> {
        let told = json!({"answer": position, "run": run, "by": by.actor, "value": answer});
        self.0.lock().unwrap().push(told);
        Ok(())
    }
    async fn retry(&self, run: RunId, by: Caller) -> Result<RunId, Refusal> {
        let told = json!({"retry": run, "by": by.actor});
        self.0.lock().unwrap().push(told);
        Ok(RunId(crate::support::id(99)))
    }
}
