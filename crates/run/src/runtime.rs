//! Claiming, waking, ending: what keeps runs going.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pentad_model::event::NewEvent;
use pentad_model::run::{Run, RunStatus};
use pentad_model::step::Completion;
use pentad_model::{Caller, RunId};
use pentad_program::{
    Canceling, Delivery, Durability, NewRun, Program, Retired, RunCounts, RunStore, Store, StoreError,
};
use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::task::TaskTracker;

use crate::acts::Invoker;
use crate::clock::Clock;
use crate::core::Core;
use crate::limits::Limits;
use crate::resident::{Exit, Reach, Resident};

/// Runs that one look at the mail finds.
const MAIL: usize = 1_000;
/// How long a journal that cannot be read is left alone.
const PAUSE: Duration = Duration::from_secs(1);
/// How often the end of a run is looked for that another process may execute.
const LOOK: Duration = Duration::from_secs(1);

/// What a runtime is made of.
pub struct RuntimeParts {
    /// The journal.
    pub store: Arc<dyn Store>,
    /// The same journal's runs.
    pub runs: Arc<dyn RunStore>,
    /// Executes verbs.
    pub invoker: Arc<dyn Invoker>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// What can be executed.
    pub programs: Vec<Arc<dyn Program>>,
    /// Limits.
    pub limits: Limits,
}

/// Which runs a runtime executes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// Whatever is queued: for a process that stays.
    Queue,
    /// What it is given with [`Runtime::execute`]: for one that ends with its command.
    Own,
}

/// Executes the runs of a journal.
pub struct Runtime {
    core: Arc<Core>,
    tasks: TaskTracker,
}

impl Runtime {
    /// Returns a runtime that executes nothing yet.
    #[must_use]
    pub fn new(parts: RuntimeParts) -> Arc<Self> {
        let RuntimeParts {
            store,
            runs,
            invoker,
            clock,
            programs,
            limits,
        } = parts;
        Arc::new(Self {
            core: Arc::new(Core::new(store, runs, invoker, clock, limits, programs)),
            tasks: TaskTracker::new(),
        })
    }

    /// Takes over from executors whose process is gone, then begins to execute what is queued. Returns what became of
    /// the runs that were taken over.
    ///
    /// # Errors
    /// Fails when the journal cannot be written; then nothing was begun.
    pub async fn start(self: &Arc<Self>, takes: Takes) -> Result<Retired, StoreError> {
        let gone = self.core.runs.executors().await?;
        let gone: Vec<u64> = gone
            .iter()
            .filter(|e| e.gone && !e.own)
            .map(|e| e.epoch)
            .collect();
        let retired = if gone.is_empty() {
            Retired::default()
        } else {
            self.core.runs.retire(gone, self.core.clock.now()).await?
        };
        let own = Arc::clone(self);
        self.tasks.spawn(async move { own.schedule(takes).await });
        if takes == Takes::Queue {
            let own = Arc::clone(self);
            self.tasks.spawn(async move { own.watch_others().await });
        }
        Ok(retired)
    }

    /// Stops executing: what is being done is cancelled and waited for, `limit` at most; runs that can be resumed are,
    /// by whoever comes next. False when something was left.
    pub async fn shutdown(&self, limit: Duration) -> bool {
        self.core.stopping.cancel();
        self.tasks.close();
        tokio::time::timeout(limit, self.tasks.wait()).await.is_ok()
    }

    /// Records a run to be executed; it is queued.
    ///
    /// # Errors
    /// As [`Store::start_run`].
    pub async fn submit(&self, run: NewRun, events: Vec<NewEvent>) -> Result<(), StoreError> {
        let run = NewRun {
            status: RunStatus::Queued,
            ..run
        };
        self.core.store.start_run(run, events, Durability::Power).await
    }

    /// Records a run and executes it here and now, as soon as one of the places for those at work is free.
    ///
    /// # Errors
    /// As [`Store::start_run`]; `Closed` when the runtime ends first.
    pub async fn execute(self: &Arc<Self>, run: NewRun, events: Vec<NewEvent>) -> Result<(), StoreError> {
        let permit = self.core.permit().await.ok_or(StoreError::Closed)?;
        let run = NewRun {
            status: RunStatus::Running,
            ..run
        };
        let id = run.id;
        self.core.store.start_run(run, events, Durability::Power).await?;
        let record = self.core.store.run(id).await?;
        self.begin(record, Some(permit));
        Ok(())
    }

    /// Checks how far the tree below `parent` may grow, for a child that is not started by its program; returns the
    /// child's place in the tree.
    ///
    /// # Errors
    /// Says which limit is reached, what is in use, and what is queued.
    pub async fn place_below(&self, parent: &Run) -> Result<(RunId, u16), String> {
        let limits = &self.core.limits;
        let depth = parent.terms.depth + 1;
        if depth > limits.depth || parent.terms.budget.depth == Some(0) {
            return Err(format!(
                "This would be {depth} generations below the first run of its tree, and {} is the limit; do it in the \
                 run that asks.",
                limits.depth
            ));
        }
        let own = parent
            .terms
            .budget
            .children
            .unwrap_or(limits.children)
            .min(limits.children);
        let asked = usize::try_from(own).unwrap_or(usize::MAX);
        // A journal that cannot be read now refuses the write that follows.
        let children = self
            .core
            .runs
            .children(parent.id, asked)
            .await
            .unwrap_or_default()
            .len() as u64;
        if children >= own {
            return Err(format!(
                "This run has started {children} children, and {own} is the limit."
            ));
        }
        let root = parent.terms.root.unwrap_or(parent.id);
        crate::admit::tree_limit(&self.core, root, 0).await?;
        Ok((root, depth))
    }

    /// Returns how many runs have not ended, verbs that are being executed among them.
    ///
    /// # Errors
    /// Fails when the journal cannot be read.
    pub async fn counts(&self) -> Result<RunCounts, StoreError> {
        self.core.runs.counts(None).await
    }

    /// Returns a run's record.
    pub(crate) async fn record(&self, run: RunId) -> Result<Run, StoreError> {
        self.core.store.run(run).await
    }

    /// Returns the time.
    pub(crate) fn now(&self) -> pentad_model::Timestamp {
        self.core.clock.now()
    }

    /// Waits until a run has ended and returns its record. Cancel by dropping.
    ///
    /// # Errors
    /// Fails when there is no such run or the journal cannot be read.
    pub async fn ended(&self, run: RunId) -> Result<Run, StoreError> {
        loop {
            let told = self.core.end_of(run);
            let record = self.core.store.run(run).await?;
            if record.status.is_settled() {
                return Ok(record);
            }
            // One that another process executes ends without a word here.
            let _looked = tokio::time::timeout(LOOK, told).await;
        }
    }

    /// Asks a run and everything below it to end.
    ///
    /// # Errors
    /// As [`RunStore::cancel`].
    pub async fn cancel(&self, run: RunId, by: Caller, reason: String) -> Result<Canceling, StoreError> {
        let at = self.core.clock.now();
        let canceling = self.core.runs.cancel(run, by, reason, at).await?;
        self.core.cancel(&canceling.canceling);
        self.core.ended(&canceling.canceled);
        // Those that waited in memory learn that they have ended.
        self.core.mail(&canceling.canceled);
        Ok(canceling)
    }

    /// Sends an event to a run.
    ///
    /// # Errors
    /// As [`RunStore::send`].
    pub async fn send(
        &self,
        run: RunId,
        name: &str,
        value: Value,
        by: Caller,
    ) -> Result<Delivery, StoreError> {
        let delivery = self
            .core
            .runs
            .send(run, name, value, by, self.core.clock.now())
            .await?;
        self.core.mail(&[run]);
        Ok(delivery)
    }

    /// Answers a wait of a run.
    ///
    /// # Errors
    /// As [`RunStore::answer_wait`].
    pub async fn answer(
        &self,
        run: RunId,
        position: u32,
        answer: Value,
        by: Caller,
    ) -> Result<(), StoreError> {
        let at = self.core.clock.now();
        self.core
            .runs
            .answer_wait(run, position, Completion::Done(answer), by, at)
            .await?;
        self.core.mail(&[run]);
        Ok(())
    }

    /// Returns how many runs are in memory.
    #[must_use]
    pub fn in_memory(&self) -> usize {
        self.core.in_memory()
    }

    /// Returns the programs' kinds that can be executed.
    #[must_use]
    pub fn has_program(&self, kind: &str) -> bool {
        self.core.program(kind).is_some()
    }

    async fn schedule(self: Arc<Self>, takes: Takes) {
        let mut seen = 0;
        while !self.core.stopping.is_cancelled() {
            match self.turn(seen, takes).await {
                Ok(stirred) => seen = stirred,
                Err(StoreError::Closed) => return,
                Err(error) => {
                    tracing::warn!(%error, "the queue of runs cannot be looked at; the next look tries again");
                    tokio::select! {
                        () = tokio::time::sleep(PAUSE) => {}
                        () = self.core.stopping.cancelled() => return,
                    }
                }
            }
        }
    }

    /// Does what there is to do, and waits until there is more.
    async fn turn(self: &Arc<Self>, seen: u64, takes: Takes) -> Result<u64, StoreError> {
        let core = &self.core;
        let next = core.runs.fire(core.clock.now()).await?;
        for run in core.runs.mail(MAIL).await? {
            match core.reach(run) {
                Some(reach) => reach.mail.notify_one(),
                None => self.adopt(run).await?,
            }
        }
        if takes == Takes::Queue {
            self.claim().await?;
        }
        let due = async {
            match next {
                Some(moment) => core.clock.reach(moment).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            stirred = core.runs.stirred(seen) => stirred,
            () = due => Ok(seen),
            () = core.freed.notified() => Ok(seen),
            () = core.stopping.cancelled() => Ok(seen),
        }
    }

    /// Claims as many queued runs as there are free places.
    async fn claim(self: &Arc<Self>) -> Result<(), StoreError> {
        let mut permits: Vec<OwnedSemaphorePermit> = Vec::new();
        while let Ok(permit) = Arc::clone(&self.core.active).try_acquire_owned() {
            permits.push(permit);
        }
        if permits.is_empty() {
            return Ok(());
        }
        let claimed = self.core.runs.claim(permits.len(), self.core.clock.now()).await?;
        for (run, permit) in claimed.into_iter().zip(permits) {
            self.begin(run, Some(permit));
        }
        Ok(())
    }

    /// Takes into memory a run of this executor that is not there: its task ended without giving it up.
    async fn adopt(self: &Arc<Self>, run: RunId) -> Result<(), StoreError> {
        let run = self.core.store.run(run).await?;
        if !run.status.is_settled() && !run.terms.program.is_empty() {
            tracing::warn!(run = %run.id, "a run had left the memory without a word; it is taken up again");
            self.begin(run, None);
        }
        Ok(())
    }

    fn begin(self: &Arc<Self>, run: Run, permit: Option<OwnedSemaphorePermit>) {
        let reach = Reach::default();
        let id = run.id;
        if run.canceling {
            reach.cancel.cancel();
        }
        if !self.core.enter(id, &reach) {
            return;
        }
        let core = Arc::clone(&self.core);
        self.tasks.spawn(async move {
            let kind = run.terms.program.clone();
            match Resident::new(Arc::clone(&core), run, reach, permit) {
                Some(resident) => match resident.execute().await {
                    Ok(Exit::Settled | Exit::Parked | Exit::Stopped) => {}
                    Ok(Exit::Fenced) => core.ended(&[id]),
                    Err(error) => tracing::error!(run = %id, %error, "a run cannot go on now"),
                },
                None => tracing::error!(run = %id, kind, "this build has no program of the run's kind"),
            }
            core.leave(id);
        });
    }

    /// Says that this executor lives, and takes over from those that no longer do. Only the own monotonic clock counts.
    async fn watch_others(self: Arc<Self>) {
        let limits = self.core.limits;
        let mut seen: HashMap<u64, (u64, Instant)> = HashMap::new();
        loop {
            tokio::select! {
                () = tokio::time::sleep(limits.beat) => {}
                () = self.core.stopping.cancelled() => return,
            }
            match self.core.runs.beat().await {
                Ok(()) => {}
                Err(StoreError::Conflict(why)) => {
                    tracing::error!(
                        why,
                        "another process has taken over; this one executes nothing any more"
                    );
                    self.core.stopping.cancel();
                    return;
                }
                Err(StoreError::Closed) => return,
                Err(error) => tracing::warn!(%error, "this executor could not say that it lives"),
            }
            if let Err(error) = self.take_over(&mut seen).await {
                tracing::warn!(%error, "other executors could not be looked at");
            }
        }
    }

    async fn take_over(&self, seen: &mut HashMap<u64, (u64, Instant)>) -> Result<(), StoreError> {
        let others = self.core.runs.executors().await?;
        let mut lapsed = Vec::new();
        for other in others.iter().filter(|other| !other.own) {
            let (beats, since) = seen
                .entry(other.epoch)
                .or_insert_with(|| (other.beats, Instant::now()));
            if *beats != other.beats {
                (*beats, *since) = (other.beats, Instant::now());
            }
            // One that never says that it lives executes verbs for whoever invoked them, and cannot be silent.
            let silent = other.beats > 0 && since.elapsed() >= self.core.limits.lapse;
            if other.gone || silent {
                lapsed.push(other.epoch);
            }
        }
        seen.retain(|epoch, _| others.iter().any(|other| other.epoch == *epoch));
        if lapsed.is_empty() {
            return Ok(());
        }
        let retired = self.core.runs.retire(lapsed, self.core.clock.now()).await?;
        for run in &retired.lost {
            tracing::warn!(%run, "a run is lost: its executor is gone");
        }
        self.core.ended(&retired.lost);
        self.core.ended(&retired.canceled);
        Ok(())
    }
}
