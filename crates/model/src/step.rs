//! Steps: what a run asked for and what came of it, in the order in which its program learned of it.
//!
//! A run's program is a function of its input and of the completions that it was given, in their order. So a run is
//! resumed by executing its program again and giving it the recorded completions; the commands that it issues on the way
//! must be those that are recorded, or the program is not the one that ran before.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::actor::Caller;
use crate::canonical::{CanonicalError, sha256, to_dag_cbor};
use crate::id::RunId;
use crate::run::RunError;
use crate::time::Timestamp;

/// The version of the step format that this build writes. Older ones are upcast on reading.
pub const STEP_VERSION: u32 = 1;

/// What a command asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandKind {
    /// An act of the program itself.
    Step,
    /// A verb.
    Invoke,
    /// A child run.
    Spawn,
    /// The end of a child run.
    Join,
    /// A moment.
    Sleep,
    /// An event that somebody sends to this run, or an answer: to an approval, for more budget.
    Wait,
}

impl CommandKind {
    /// Returns the word of this kind.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Invoke => "invoke",
            Self::Spawn => "spawn",
            Self::Join => "join",
            Self::Sleep => "sleep",
            Self::Wait => "wait",
        }
    }
}

/// What becomes of an act that was interrupted: begun, perhaps, and not known to have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Repeat {
    /// It changes nothing, or changes the same however often it is done: it is done again.
    Safe,
    /// Whoever is asked was given the idempotency key and honours it: it is asked again with the same key.
    Keyed,
    /// Nobody knows whether it happened: the program is told.
    Never,
}

/// The identity of a command: SHA-256, cut to 16 bytes, over its kind and what it asks for. Labels and titles are no part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fingerprint(#[serde(with = "serde_bytes")] pub [u8; 16]);

impl Fingerprint {
    /// Returns the fingerprint of a command.
    ///
    /// # Errors
    /// Fails when `asked` holds a value that DAG-CBOR excludes.
    pub fn of(kind: CommandKind, asked: &Value) -> Result<Self, CanonicalError> {
        let digest = sha256(&to_dag_cbor(&(kind.word(), asked))?);
        let mut cut = [0; 16];
        cut.copy_from_slice(digest.first_chunk::<16>().unwrap_or(&[0; 16]));
        Ok(Self(cut))
    }
}

impl std::fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// What a program asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Command {
    /// Its place among the commands of its run, from 0.
    pub position: u32,
    /// What kind of thing it asks for.
    pub kind: CommandKind,
    /// What it asks for, by content.
    pub fingerprint: Fingerprint,
    /// What becomes of it when it is interrupted.
    pub repeat: Repeat,
    /// A few words for a person.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// What it asks for, for a person, and for whoever does it again; secrets masked, large values as blobs.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub asked: Value,
}

/// What came of a command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Completion {
    /// It was done, and this is the result.
    Done(Value),
    /// It was done, and the result is a blob of JSON.
    Stored {
        /// SHA-256 of the bytes in hexadecimal.
        blob: String,
        /// Their number.
        bytes: u64,
    },
    /// It was tried, or refused, and this is why there is no result.
    Failed(RunError),
    /// It was begun, and nobody knows whether it happened.
    Interrupted,
    /// Nothing was done: what is described here must come first, and the program waits for it before it asks again.
    Waits(Value),
}

/// What happened in a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StepBody {
    /// The program was begun: the first step of every run, and the time from which its program counts.
    Started,
    /// The program asked for something. Written, and synced where it has an effect, before anything is done about it.
    Command(Command),
    /// The program was given what came of a command.
    Completed {
        /// The command's place.
        position: u32,
        /// What came of it.
        completion: Completion,
    },
    /// An interrupted act is done again, or one that waited for an approval is tried again.
    Again {
        /// The command's place.
        position: u32,
    },
    /// Somebody or something noted this about the run.
    Note {
        /// The text.
        text: String,
    },
}

impl StepBody {
    /// Returns the word of this body's type.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Command(_) => "command",
            Self::Completed { .. } => "completed",
            Self::Again { .. } => "again",
            Self::Note { .. } => "note",
        }
    }
}

/// A step before the journal gave it its place.
#[derive(Debug, Clone, PartialEq)]
pub struct NewStep {
    /// When.
    pub at: Timestamp,
    /// Who did it, where it was not the run itself: whoever sent an event or answered a question.
    pub by: Option<Caller>,
    /// What happened.
    pub body: StepBody,
}

/// A step in its place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The journal's own sequence, shared with events; `events?after=` counts in it. No part of the hash.
    #[serde(skip)]
    pub journal: u64,
    /// Format version.
    pub v: u32,
    /// The run.
    pub run: RunId,
    /// Place within the run, from 1.
    pub seq: u64,
    /// When.
    pub at: Timestamp,
    /// Who did it, where it was not the run itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Caller>,
    /// What happened.
    pub body: StepBody,
    /// SHA-256 of the run's previous step in canonical form; zeros for the first.
    #[serde(with = "serde_bytes")]
    pub prev: [u8; 32],
}

impl Step {
    /// Gives a new step its place.
    #[must_use]
    pub fn place(new: NewStep, run: RunId, seq: u64, prev: [u8; 32]) -> Self {
        Self {
            journal: 0,
            v: STEP_VERSION,
            run,
            seq,
            at: new.at,
            by: new.by,
            body: new.body,
            prev,
        }
    }

    /// Returns the canonical bytes.
    ///
    /// # Errors
    /// Fails when the body holds a value that DAG-CBOR excludes.
    pub fn encode(&self) -> Result<Vec<u8>, CanonicalError> {
        to_dag_cbor(self)
    }

    /// Returns the step as people and programs are shown it: with its position, its fingerprint in words, and without the
    /// chain's hash.
    #[must_use]
    pub fn shown(&self) -> Value {
        let mut shown = serde_json::to_value(self).unwrap_or_default();
        if let Some(map) = shown.as_object_mut() {
            map.remove("prev");
            map.insert("position".to_owned(), self.journal.into());
            if let StepBody::Command(command) = &self.body
                && let Some(body) = map.get_mut("body").and_then(Value::as_object_mut)
            {
                body.insert("fingerprint".to_owned(), command.fingerprint.to_string().into());
            }
        }
        shown
    }

    /// Returns the hash that the next step of the run carries as `prev`.
    #[must_use]
    pub fn hash(encoded: &[u8]) -> [u8; 32] {
        sha256(encoded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actor::Actor;
    use serde_json::json;

    #[test]
    fn a_step_keeps_its_bytes_through_decoding() {
        let asked = json!({"verb": "read", "arguments": {"address": "~/self"}});
        let command = Command {
            position: 3,
            kind: CommandKind::Invoke,
            fingerprint: Fingerprint::of(CommandKind::Invoke, &asked).unwrap(),
            repeat: Repeat::Safe,
            label: "look".to_owned(),
            asked,
        };
        let bodies = [
            StepBody::Command(command),
            StepBody::Completed {
                position: 3,
                completion: Completion::Done(json!([1, 2.5, null])),
            },
            StepBody::Completed {
                position: 3,
                completion: Completion::Interrupted,
            },
            StepBody::Again { position: 3 },
            StepBody::Note { text: "x".to_owned() },
        ];
        for (seq, body) in (1..).zip(bodies) {
            let new = NewStep {
                at: Timestamp(5),
                by: Some(Actor::User.into()),
                body,
            };
            let step = Step::place(new, RunId::generate(), seq, [9; 32]);
            let bytes = step.encode().unwrap();
            let back: Step = crate::canonical::from_dag_cbor(&bytes).unwrap();
            assert_eq!(back, step);
            assert_eq!(back.encode().unwrap(), bytes);
        }
    }

    #[test]
    fn a_fingerprint_is_of_the_kind_and_what_is_asked() {
        let (a, b) = (json!({"x": 1}), json!({"x": 2}));
        let of = |kind, value| Fingerprint::of(kind, value).unwrap();
        assert_eq!(of(CommandKind::Step, &a), of(CommandKind::Step, &a));
        assert_ne!(of(CommandKind::Step, &a), of(CommandKind::Step, &b));
        assert_ne!(of(CommandKind::Step, &a), of(CommandKind::Sleep, &a));
    }
}
