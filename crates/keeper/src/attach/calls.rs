//! What is asked over the link, as both ends write and read it.

use std::path::PathBuf;

use pentad_model::approval::Approval;
use pentad_model::step::Step;
use pentad_model::{Event, Form, FormAnswer, Invocation};
use pentad_program::{ActivityFilter, Answer};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::desk::HttpAsk;

/// A call of a face.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "method", content = "params", rename_all = "snake_case")]
pub(super) enum FaceCall {
    /// Runs one verb; answered with the outcome.
    Invoke(Box<Invocation>),
    InputSchema {
        tool: String,
    },
    Explain {
        invocation: Box<Invocation>,
        tool: String,
        input: Map<String, Value>,
    },
    Answer {
        id: String,
        answer: Answer,
    },
    AttachFile {
        file: PathBuf,
        name: Option<String>,
    },
    FindThread {
        ending: String,
    },
    Head {},
    Activity(ActivityFilter),
    Follow {
        after: u64,
        limit: usize,
    },
    FollowSteps {
        after: u64,
        limit: usize,
    },
    ServeHttp(HttpAsk),
    Statuses {},
    Forms {},
    AnswerForm {
        id: String,
        answer: FormAnswer,
    },
    OpenAgain {
        server: String,
    },
}

/// A step as it travels: its place in the journal is no part of the step itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct PlacedStep(u64, Step);

impl PlacedStep {
    /// Puts places beside steps.
    pub fn all(steps: Vec<Step>) -> Vec<Self> {
        steps.into_iter().map(|step| Self(step.journal, step)).collect()
    }

    /// Puts the place back.
    pub fn step(self) -> Step {
        Step {
            journal: self.0,
            ..self.1
        }
    }
}

/// An event as it travels: its place in the journal is no part of the event itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Placed(u64, Event);

impl Placed {
    /// Puts places beside events.
    pub fn all(events: Vec<Event>) -> Vec<Self> {
        events
            .into_iter()
            .map(|event| Self(event.position, event))
            .collect()
    }

    /// Puts the place back.
    pub fn event(self) -> Event {
        Event {
            position: self.0,
            ..self.1
        }
    }
}

/// What came of an approval that was put to a face.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Said {
    pub answer: Answer,
    /// Whether a person was reached: then silence is theirs.
    pub person: bool,
}

impl Said {
    /// Nobody could be asked.
    pub const NOTHING: Self = Self {
        answer: Answer::Unanswered,
        person: false,
    };
}

/// A call of the keeper to a face.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "method", content = "params", rename_all = "snake_case")]
pub(super) enum KeeperCall {
    /// Puts an approval before whoever is behind the call `call`; answered with what they [`Said`].
    Approve { call: u64, approval: Box<Approval> },
    /// Puts a form before whoever is behind the call `call`; answered with a [`FormAnswer`].
    Fill { call: u64, form: Box<Form> },
    /// Asks for variables by name; answered with those that are set.
    Variables { names: Vec<String> },
}
