//! Events: what happened, immutable, actor-stamped, chained by hash within their thread.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::actor::Caller;
use crate::approval::ApprovalState;
use crate::canonical::{CanonicalError, sha256, to_dag_cbor};
use crate::id::{ApprovalId, CallId, RunId, ThreadId};
use crate::outcome::Status;
use crate::plan::Plan;
use crate::run::{RunError, RunStatus};
use crate::time::Timestamp;
use crate::verb::Verb;

/// The version of the event format that this build writes. Older ones are upcast on reading.
pub const EVENT_VERSION: u32 = 1;

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EventBody {
    /// A verb was invoked. Written before anything is judged or done.
    Called {
        /// The verb.
        verb: Verb,
        /// Its arguments, secrets masked; a large value is replaced by `{"blob": …, "bytes": …}`.
        arguments: Value,
        /// The folder it was invoked in.
        cwd: String,
    },
    /// An effect that is not read-only is about to happen. Synced before it does.
    Intent {
        /// The act as a grant would write it.
        act: String,
        /// What runs, by content.
        closure: String,
    },
    /// A verb returned.
    Returned {
        /// How.
        status: Status,
        /// The beginning of the text, at most 2 KiB.
        text: String,
        /// Size of the whole text.
        bytes: u64,
        /// The whole text's blob, where it is longer than what stands here.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        blob: Option<String>,
        /// The structured result, where it is small.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        value: Option<Value>,
    },
    /// A run began.
    RunStarted {
        /// What runs.
        title: String,
    },
    /// A run's status changed.
    RunStatus {
        /// The new status.
        status: RunStatus,
        /// Why it ended badly.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<RunError>,
    },
    /// The thread's plan was replaced.
    PlanSet {
        /// The whole plan.
        plan: Plan,
    },
    /// A tool's contract was shown to the thread's model: it is promoted from here on.
    Promoted {
        /// The tool's full name.
        tool: String,
        /// The version that was shown.
        cid: String,
    },
    /// An approval was asked or answered.
    Approval {
        /// Which.
        approval: ApprovalId,
        /// Where it stands now.
        state: ApprovalState,
        /// The act it is about.
        act: String,
    },
    /// Progress or a log line of a running act.
    Log {
        /// `debug`, `info`, `warning` or `error`.
        level: String,
        /// Where it comes from, for example a server's name.
        source: String,
        /// The text, bounded.
        text: String,
    },
    /// Pentad itself noted something, for example that an act was interrupted.
    Note {
        /// The text.
        text: String,
    },
}

impl EventBody {
    /// Returns the word of this body's type, as the journal indexes it.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Called { .. } => "called",
            Self::Intent { .. } => "intent",
            Self::Returned { .. } => "returned",
            Self::RunStarted { .. } => "run_started",
            Self::RunStatus { .. } => "run_status",
            Self::PlanSet { .. } => "plan_set",
            Self::Promoted { .. } => "promoted",
            Self::Approval { .. } => "approval",
            Self::Log { .. } => "log",
            Self::Note { .. } => "note",
        }
    }
}

/// An event before the journal gave it its place.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEvent {
    /// The thread.
    pub thread: ThreadId,
    /// When.
    pub at: Timestamp,
    /// Who, and for whom.
    pub caller: Caller,
    /// The invocation it belongs to.
    pub call: Option<CallId>,
    /// The run it belongs to.
    pub run: Option<RunId>,
    /// What happened.
    pub body: EventBody,
}

/// An event in its place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The journal's own sequence over all threads; `events?after=` counts in it. No part of the hash.
    #[serde(skip)]
    pub position: u64,
    /// Format version.
    pub v: u32,
    /// The thread.
    pub thread: ThreadId,
    /// Place within the thread, from 1.
    pub seq: u64,
    /// When.
    pub at: Timestamp,
    /// Who, and for whom.
    pub caller: Caller,
    /// The invocation it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
    /// The run it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// What happened.
    pub body: EventBody,
    /// SHA-256 of the thread's previous event in canonical form; zeros for the first.
    #[serde(with = "serde_bytes")]
    pub prev: [u8; 32],
}

impl Event {
    /// Gives a new event its place.
    #[must_use]
    pub fn place(new: NewEvent, seq: u64, prev: [u8; 32]) -> Self {
        let NewEvent {
            thread,
            at,
            caller,
            call,
            run,
            body,
        } = new;
        Self {
            position: 0,
            v: EVENT_VERSION,
            thread,
            seq,
            at,
            caller,
            call,
            run,
            body,
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

    /// Returns the hash that the next event of the thread carries as `prev`.
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
    fn an_event_keeps_its_bytes_through_decoding() {
        let new = NewEvent {
            thread: ThreadId::generate(),
            at: Timestamp(1_700_000_000_000),
            caller: Actor::User.into(),
            call: Some(CallId::generate()),
            run: None,
            body: EventBody::Called {
                verb: Verb::Read,
                arguments: json!({"address": "~/self", "options": {"lines": "1-2"}}),
                cwd: "/tmp".to_owned(),
            },
        };
        let event = Event::place(new, 7, [3; 32]);
        let bytes = event.encode().unwrap();
        let back: Event = crate::canonical::from_dag_cbor(&bytes).unwrap();
        assert_eq!(back, event);
        assert_eq!(back.encode().unwrap(), bytes);

        let approval = EventBody::Approval {
            approval: ApprovalId::generate(),
            state: ApprovalState::Open,
            act: "call:github/create_issue".to_owned(),
        };
        let event = Event {
            body: approval,
            ..event
        };
        let back: Event = crate::canonical::from_dag_cbor(&event.encode().unwrap()).unwrap();
        assert_eq!(back, event);
        let json = serde_json::to_string(&event).unwrap();
        assert_eq!(serde_json::from_str::<Event>(&json).unwrap(), event);
    }
}
