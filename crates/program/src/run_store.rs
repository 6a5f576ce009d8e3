//! Durable runs: the journal's contract with whoever executes programs. Each method is one transaction.
//!
//! # Who may write
//! An open store is one *executor*. The first run that it starts or claims gives it an *epoch*, a number greater than any
//! before, which is the fencing token: a run carries the epoch of the executor that has it, and a step, a park or a
//! settlement by any other is refused ([`StoreError::Conflict`]). Everybody else speaks to a run through its waits, its
//! events and its cancel mark, which need no epoch.
//!
//! # A run's journal
//! Only its executor appends to a run's steps, so it knows each place beforehand and tells the last one that it knows.
//! What comes from outside fulfils a *wait*: in one transaction the answer is put at the wait and, if nobody has the run
//! in memory, the run is queued. [`RunStore::take`] moves answers into the steps and deletes their waits, again in one
//! transaction, so each is delivered exactly once.

use async_trait::async_trait;
use pentad_model::event::NewEvent;
use pentad_model::run::{Run, RunError, RunStatus, Stored, Usage};
use pentad_model::step::{Completion, NewStep, Step};
use pentad_model::{ApprovalId, Caller, RunId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

use crate::store::{Durability, NewRun, StoreError};

/// An executor of runs: a process that has, or had, the store open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Executor {
    /// Its fencing token.
    pub epoch: u64,
    /// Its process id.
    pub pid: u32,
    /// How often it has said that it lives. Others compare it with what they saw a while ago by their own monotonic
    /// clock; no clock of the wall has a say. One that has never said so, as a process that only invokes verbs, promises
    /// nothing by it, and only [`Self::gone`] counts.
    pub beats: u64,
    /// Whether its process is known to be gone.
    pub gone: bool,
    /// Whether it is the one that asks.
    pub own: bool,
}

/// What a wait waits for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "for", rename_all = "snake_case")]
pub enum WaitFor {
    /// A moment; only `due` counts.
    Timer,
    /// An event of this name, sent to the waiting run; the answer is `Done({"event": value})`. One that was sent before is
    /// taken at once, oldest first.
    Event {
        /// The name.
        name: String,
    },
    /// The settlement of a child; the answer is `Done` with a [`crate::ChildEnd`]. One that is settled already answers at
    /// once, one that goes on as another run is waited for as that.
    Child {
        /// The child.
        run: RunId,
    },
    /// A person's answer to an approval; the answer is `Done({"state": word})`. One that is answered already answers at
    /// once.
    Approval {
        /// The approval.
        approval: ApprovalId,
    },
    /// More budget, given with [`RunStore::answer_wait`].
    Budget,
    /// Values of variables, given with [`RunStore::answer_wait`] (which ones there are, never what they are).
    Env {
        /// Their names.
        names: Vec<String>,
    },
}

/// A wait of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Wait {
    /// The place of the command that waits.
    pub position: u32,
    /// What for.
    #[serde(flatten)]
    pub what: WaitFor,
    /// When it is answered in any case: with `Done(null)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Timestamp>,
}

/// What one stretch of a program's execution adds to its run.
#[derive(Debug, Clone, PartialEq)]
pub struct Advance {
    /// The run.
    pub run: RunId,
    /// The number of the last step that the executor knows.
    pub after: u64,
    /// Completions and commands, in order.
    pub steps: Vec<NewStep>,
    /// The waits of those commands that wait.
    pub waits: Vec<Wait>,
    /// Waits that are given up, by their command's place: an answer that comes later is not taken, and an event that
    /// nobody has taken is kept for another wait.
    pub dropped: Vec<u32>,
    /// The children of those commands that spawn; their status says whether they are queued.
    pub children: Vec<NewRun>,
    /// The status from here on, when it changes.
    pub status: Option<RunStatus>,
    /// What is used up by now, when it changes.
    pub usage: Option<Usage>,
    /// Events of threads.
    pub events: Vec<NewEvent>,
    /// When.
    pub at: Timestamp,
}

/// What came of an [`Advance`] or [`RunStore::take`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Advanced {
    /// The number of the run's last step now.
    pub last: u64,
    /// True when a wait of the run has an answer that can be taken now.
    pub answered: bool,
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Settlement {
    /// The run.
    pub run: RunId,
    /// The number of the last step that the executor knows.
    pub after: u64,
    /// Steps that come before the end.
    pub steps: Vec<NewStep>,
    /// How it ended; a settled status.
    pub status: RunStatus,
    /// The structured result.
    pub output: Option<Value>,
    /// Why it ended badly.
    pub error: Option<RunError>,
    /// Streams and artifacts to add.
    pub stored: BTreeMap<String, Stored>,
    /// What was used up in all, when known.
    pub usage: Option<Usage>,
    /// The run that goes on under its name and in its place: its parent's wait becomes one for this run. Where the run was
    /// asked to end meanwhile there is none, and it is settled as canceled.
    pub continued: Option<NewRun>,
    /// Events of threads.
    pub events: Vec<NewEvent>,
    /// When.
    pub at: Timestamp,
}

/// What a settlement led to, beside the record.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settled {
    /// Runs that have something to do now: parents whose wait is answered.
    pub woken: Vec<RunId>,
    /// Awaited children, and what is below them, that are asked to end, since nobody waits for them any more.
    pub canceling: Vec<RunId>,
    /// Runs that were settled as canceled with it: ancestors that it was the last to keep, and of the awaited children and
    /// what is below them those of which nothing was being done.
    pub canceled: Vec<RunId>,
}

/// What became of an event that was sent to a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// The run was waiting for it and has it.
    Delivered,
    /// The run does not wait for it yet; it is kept until it does, or until the run ends.
    Kept,
}

/// What a request to end a subtree led to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Canceling {
    /// Runs that were settled as canceled: nothing of them was being done.
    pub canceled: Vec<RunId>,
    /// Runs that are being executed, and are settled when what they do has ended; and runs above them that wait.
    pub canceling: Vec<RunId>,
}

/// What became of the runs of executors that are gone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Retired {
    /// Settled as lost.
    pub lost: Vec<RunId>,
    /// Queued again.
    pub queued: Vec<RunId>,
    /// Settled as canceled: they were asked to end, and nothing below them lives.
    pub canceled: Vec<RunId>,
}

/// A page of a run's steps.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StepPage {
    /// In ascending order.
    pub steps: Vec<Step>,
    /// True when the limit cut the page.
    pub more: bool,
}

/// How many runs there are of the kinds that limits count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RunCounts {
    /// At work.
    pub running: u64,
    /// Accepted, not begun.
    pub queued: u64,
    /// Parked.
    pub waiting: u64,
}

/// Keeps durable runs. See the module for who may write what.
#[async_trait]
pub trait RunStore: Send + Sync {
    /// Says that this executor lives.
    ///
    /// # Errors
    /// `Conflict`, once, when others have taken over from it: whatever it has in memory is no longer its own. After that it
    /// claims under a new epoch.
    async fn beat(&self) -> Result<(), StoreError>;
    /// Lists the executors that have not been retired.
    async fn executors(&self) -> Result<Vec<Executor>, StoreError>;
    /// Takes over from these executors, never from the own one. Of their runs that are running, those of
    /// [`pentad_model::run::OnLoss::Resume`] are queued, the others lost, and each is noted in its thread; those that
    /// wait are nobody's from here on, and queued when they have an answer. What was asked to end is not begun again: it
    /// is canceled, at once or with the last run below it. Fsynced.
    async fn retire(&self, epochs: Vec<u64>, at: Timestamp) -> Result<Retired, StoreError>;

    /// Makes at most `limit` queued runs running and this executor's, oldest first; never one that is asked to end. Crash
    /// class: a lost claim is claimed again.
    ///
    /// # Errors
    /// `Conflict` when others have taken over from this executor and [`Self::beat`] has not said so yet.
    async fn claim(&self, limit: usize, at: Timestamp) -> Result<Vec<Run>, StoreError>;
    /// Returns this executor's runs that have an answer to take, whether they wait in its memory or something else of them
    /// is being done; then those that are asked to end.
    async fn mail(&self, limit: usize) -> Result<Vec<RunId>, StoreError>;
    /// Reads a run's steps, ascending, after a number.
    async fn steps(&self, run: RunId, after: u64, limit: usize) -> Result<StepPage, StoreError>;
    /// Reads steps over all runs after a journal position, ascending.
    async fn step_feed(&self, after: u64, limit: usize) -> Result<Vec<Step>, StoreError>;
    /// Reads a run's open waits.
    async fn waits(&self, run: RunId) -> Result<Vec<Wait>, StoreError>;

    /// Appends to a run that this executor has and that is not settled.
    ///
    /// # Errors
    /// `Conflict` when it is not, when `after` is not the last step, or when the name of a child is taken.
    async fn advance(&self, advance: Advance, durability: Durability) -> Result<Advanced, StoreError>;
    /// Moves the answers of a run's waits into its steps, in the order in which they came, and returns those steps. Crash
    /// class: what is lost is still at its wait. Where there are some, a run that waited is running from here on.
    async fn take(&self, run: RunId, after: u64, at: Timestamp) -> Result<Vec<Step>, StoreError>;
    /// Gives up a waiting run that this executor has: nobody has it from here on. False, and nothing changes, when it has
    /// an answer to take or is asked to end.
    async fn park(&self, run: RunId, at: Timestamp) -> Result<bool, StoreError>;
    /// Ends a run: its record, its steps and events; its waits and kept events go; the wait of its parent is answered
    /// with its result, or, when its parent has ended and had asked for it, a note in its thread tells of the late result;
    /// its awaited children are asked to end; the step of the plan that it works on is settled when all runs attached to
    /// it have succeeded. A run that was asked to end is settled as canceled in the words of whoever asked; while
    /// something below it lives it waits for that instead, as nobody's run, and is settled with the last of it.
    ///
    /// # Errors
    /// As [`Self::advance`]; a settled run is never settled again.
    async fn settle(&self, settlement: Settlement, durability: Durability) -> Result<Settled, StoreError>;

    /// Sends an event to a run. Fsynced.
    ///
    /// # Errors
    /// `Conflict` when the run is settled, or keeps too many events already; `NotFound` when there is none.
    async fn send(
        &self,
        run: RunId,
        name: &str,
        value: Value,
        by: Caller,
        at: Timestamp,
    ) -> Result<Delivery, StoreError>;
    /// Answers one wait of a run. Fsynced.
    ///
    /// # Errors
    /// `Conflict` when the run has no such wait, or it has an answer.
    async fn answer_wait(
        &self,
        run: RunId,
        position: u32,
        answer: Completion,
        by: Caller,
        at: Timestamp,
    ) -> Result<(), StoreError>;
    /// Answers all waits that are due, and returns when the next one is. Fsynced where there were any.
    async fn fire(&self, now: Timestamp) -> Result<Option<Timestamp>, StoreError>;
    /// Asks a run and everything below it to end. What nobody executes is settled as canceled at once, but a run only after
    /// everything below it; what is being executed is marked, and so is what waits above it, which is nobody's from here on
    /// and settled with the last run below it. Fsynced.
    ///
    /// # Errors
    /// `Conflict` when the run is settled and nothing below it lives.
    async fn cancel(
        &self,
        run: RunId,
        by: Caller,
        reason: String,
        at: Timestamp,
    ) -> Result<Canceling, StoreError>;

    /// Lists a run's children, oldest first.
    async fn children(&self, run: RunId, limit: usize) -> Result<Vec<Run>, StoreError>;
    /// Counts the runs that have not ended: of the whole home, or of the tree of a root.
    async fn counts(&self, root: Option<RunId>) -> Result<RunCounts, StoreError>;
    /// Checks the chain of a run's steps; returns the number of the first that does not fit.
    async fn verify_run(&self, run: RunId) -> Result<Option<u64>, StoreError>;
    /// Waits until something may be claimed, taken or fired that could not before `after`, and returns a later mark.
    /// Cancel by dropping.
    async fn stirred(&self, after: u64) -> Result<u64, StoreError>;
}
