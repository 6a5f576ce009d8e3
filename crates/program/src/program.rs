//! What a run executes, and the only way in which it touches the world.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use pentad_model::grant::GrantSet;
use pentad_model::outcome::Outcome;
use pentad_model::run::{OnLoss, Run, RunError, RunStatus, Stored, Usage};
use pentad_model::step::Repeat;
use pentad_model::verb::Budget;
use pentad_model::{Name, RunId, Timestamp, Verb};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::attend::Attendance;
use crate::run_store::WaitFor;

/// Something that a program waits for.
pub type Pending<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// An act while it is being done.
pub type ActFuture = Pending<Result<Value, ActFailure>>;

/// What does an act; called again where an interrupted act is repeated.
pub type Act = Box<dyn Fn(Attempt) -> ActFuture + Send + Sync>;

/// One attempt at an act.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// Names the act over all attempts: the run's id and the command's place. For whoever honours idempotency keys.
    pub key: String,
    /// Cancellation, and where progress is told.
    pub attendance: Attendance,
}

/// Why an act has no result.
#[derive(Debug, Clone, PartialEq)]
pub enum ActFailure {
    /// It was tried, or refused.
    Failed(RunError),
    /// Nobody knows whether it happened.
    Interrupted,
    /// Nothing was done: this must come first, and then it is tried again.
    Waits(WaitFor),
}

/// Why a command has no result.
#[derive(Debug, Clone, PartialEq)]
pub enum Failure {
    /// It was tried, or refused.
    Failed(RunError),
    /// It was begun, and nobody knows whether it happened.
    Interrupted,
}

impl Failure {
    /// Returns the error of a run that ends because of this failure.
    #[must_use]
    pub fn into_error(self) -> RunError {
        match self {
            Self::Failed(error) => error,
            Self::Interrupted => RunError {
                code: "interrupted".to_owned(),
                message:
                    "An act was interrupted, and nobody knows whether it happened; look before you repeat it."
                        .to_owned(),
            },
        }
    }
}

/// A step of a program's own.
#[derive(Debug, Clone, PartialEq)]
pub struct StepSpec {
    /// What it is, as part of its identity.
    pub name: String,
    /// What it depends on, as part of its identity.
    pub input: Value,
    /// A few words for a person; no part of its identity.
    pub label: String,
    /// What becomes of it when it is interrupted.
    pub repeat: Repeat,
}

/// A verb that a program invokes with its run's grants.
#[derive(Debug, Clone, PartialEq)]
pub struct Invoke {
    /// The verb.
    pub verb: Verb,
    /// Its arguments.
    pub arguments: Value,
}

/// A child to be started.
#[derive(Debug, Clone, PartialEq)]
pub struct Child {
    /// The kind of the program that executes it.
    pub program: String,
    /// Its title; no part of the command's identity.
    pub title: String,
    /// Its name, unique among live runs.
    pub name: Option<Name>,
    /// Its input.
    pub input: Value,
    /// What it may do, at most; without it, what its parent may.
    pub grants: Option<GrantSet>,
    /// The schema of the result that it owes.
    pub output: Option<Value>,
    /// Its limits.
    pub budget: Budget,
    /// False detaches: it stays in the tree and outlives its parent.
    pub awaited: bool,
    /// What becomes of it when its executor is gone.
    pub on_loss: OnLoss,
}

/// How a child ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChildEnd {
    /// Which.
    pub run: RunId,
    /// How; a settled status.
    pub status: RunStatus,
    /// Its structured result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// Why it ended badly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ending {
    /// With a result.
    Done {
        /// The structured result.
        output: Value,
        /// Streams and artifacts by name.
        stored: BTreeMap<String, Stored>,
    },
    /// Without the result that it owes, but with something to keep.
    Failed {
        /// Why.
        error: RunError,
        /// The structured result, as far as there is one.
        output: Value,
        /// Streams and artifacts by name.
        stored: BTreeMap<String, Stored>,
    },
    /// To begin again with this input and an empty journal, under the same name and in the same place of the tree.
    ContinueAsNew(Value),
}

impl Ending {
    /// Returns the ending with a result and nothing beside it.
    #[must_use]
    pub const fn done(output: Value) -> Self {
        Self::Done {
            output,
            stored: BTreeMap::new(),
        }
    }
}

/// Executes runs of one kind.
///
/// A program is executed again from the beginning whenever its run is resumed, and must then ask for the same: what it
/// does may depend on its input, on what its [`Context`] gave it, and on nothing else. It waits for nothing but what the
/// context returns, unless it holds [`Context::busy`].
pub trait Program: Send + Sync {
    /// The kind, by which runs name it in the journal. It never changes, and what it means changes only compatibly.
    fn kind(&self) -> &str;

    /// Executes a run to its end.
    fn execute(&self, context: Arc<dyn Context>, input: Value) -> Pending<Result<Ending, RunError>>;
}

/// A program's way to the world. Each method that returns [`Pending`] is a command: it takes the next place in the run's
/// journal when it is called, whether or not its result is waited for.
pub trait Context: Send + Sync {
    /// The run as it was when it was started.
    fn run(&self) -> &Run;

    /// Does something of the program's own. Where `spec.repeat` is `Never` and the act is interrupted, the result is
    /// [`Failure::Interrupted`].
    fn step(&self, spec: StepSpec, act: Act) -> Pending<Result<Value, Failure>>;

    /// Invokes a verb. A refusal is an outcome like any other.
    fn invoke(&self, invoke: Invoke) -> Pending<Result<Outcome, Failure>>;

    /// Starts a child; the result is its id. Fails when a limit is reached; the text says which.
    fn spawn(&self, child: Child) -> Pending<Result<RunId, Failure>>;

    /// Waits for the end of a child.
    fn join(&self, child: RunId) -> Pending<Result<ChildEnd, Failure>>;

    /// Waits until so much time has passed; days are no problem.
    fn sleep(&self, time: Duration) -> Pending<()>;

    /// Waits for an event that somebody sends to this run; nothing when `limit` passes first.
    fn wait(&self, event: &str, limit: Option<Duration>) -> Pending<Option<Value>>;

    /// Says something to whoever watches: a line of the run's log.
    fn emit(&self, level: &str, text: &str);

    /// Adds to what the run has used up. Checked against its budget before the next command.
    fn spend(&self, usage: Usage);

    /// The time, as of what the program was last given.
    fn now(&self) -> Timestamp;

    /// A number that nobody foresees by chance; the same whenever the run is resumed. Not for secrets.
    fn random(&self) -> u64;

    /// While this is held the program may wait for something else than what the context returns, for example a process
    /// that computes for it; nothing is given to it meanwhile.
    fn busy(&self) -> Box<dyn Send + Sync>;

    /// Ends when the run is asked to end.
    fn canceled(&self) -> tokio_util::sync::CancellationToken;
}
