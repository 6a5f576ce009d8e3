//! What an invocation returns: the same value for every adapter.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{CallId, Id, RunId, ThreadId};
use crate::refusal::{Refusal, RefusalKind};
use crate::verb::Verb;

/// How an invocation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It did what was asked.
    Ok,
    /// It was tried and failed, for example a command that exited with 1.
    Failed,
    /// It was refused; nothing happened.
    Refused,
    /// A person or event must come first; nothing happened yet.
    Waiting,
}

impl Status {
    /// Returns the shell's exit code: 0 ok, 1 failed, 3 refused, 4 waiting (2 is the shell's own usage error).
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Failed => 1,
            Self::Refused => 3,
            Self::Waiting => 4,
        }
    }
}

/// A piece of rich output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// An image, stored as an attachment.
    Image {
        /// Content address, readable as `attachment:<cid>`.
        cid: String,
        /// Media type.
        mime: String,
        /// Base64 of the bytes; absent where only the address travels.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<String>,
    },
    /// Sound, stored as an attachment.
    Audio {
        /// Content address.
        cid: String,
        /// Media type.
        mime: String,
        /// Base64 of the bytes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<String>,
    },
    /// A pointer to something that can be read.
    Link {
        /// The address to read.
        address: String,
        /// What it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
    },
}

/// What was left out of a text and how to read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Omitted {
    /// Bytes shown.
    pub shown_bytes: u64,
    /// Bytes in all.
    pub total_bytes: u64,
    /// Lines in all.
    pub total_lines: u64,
    /// The address that reads the rest, with `options` lines, bytes or grep.
    pub address: String,
}

/// The result of one invocation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// How it ended.
    pub status: Status,
    /// The verb.
    pub verb: Verb,
    /// Identifies the invocation in the journal.
    pub call: CallId,
    /// The thread it belongs to.
    pub thread: ThreadId,
    /// The run it made, if it made one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The bounded text for the caller.
    pub text: String,
    /// What `text` leaves out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub omitted: Option<Omitted>,
    /// The structured result; whole for a person, absent where its size exceeds the caller's view.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// Images and links.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
    /// Why it was refused or waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Refusal>,
}

impl Outcome {
    /// Returns the outcome of an invocation of which there is no record: no thread was found for it, or whoever keeps
    /// the record was not reached. Its thread is none.
    #[must_use]
    pub fn unrecorded(verb: Verb, refusal: Refusal) -> Self {
        Self {
            status: Status::from(&refusal),
            verb,
            call: CallId::generate(),
            thread: ThreadId(Id::from_bytes([0; 16])),
            run: None,
            text: refusal.to_text(),
            omitted: None,
            value: None,
            parts: Vec::new(),
            refusal: Some(refusal),
        }
    }
}

/// What one verb produced, before journal and view.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Product {
    /// False when something was tried and failed.
    pub failed: bool,
    /// The whole text.
    pub text: String,
    /// The structured result.
    pub value: Option<Value>,
    /// Images and links.
    pub parts: Vec<Part>,
    /// The run that was made.
    pub run: Option<RunId>,
    /// The address under which the whole text can be read again; empty where there is none.
    pub address: String,
    /// The whole text's size when `text` is already only a part of it.
    pub total: Option<(u64, u64)>,
    /// The options lines, bytes and grep have been applied already, by a family that streams.
    pub selected: bool,
    /// The text is a tool contract: its own limit of 24 KiB holds, and its schema is never cut.
    pub contract: bool,
}

impl Product {
    /// Returns a successful product of a text readable again at `address`.
    #[must_use]
    pub fn text(text: impl Into<String>, address: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            address: address.into(),
            ..Self::default()
        }
    }

    /// Adds the structured result.
    #[must_use]
    pub fn value(mut self, value: Value) -> Self {
        self.value = Some(value);
        self
    }
}

impl From<&Refusal> for Status {
    fn from(refusal: &Refusal) -> Self {
        match refusal.kind {
            RefusalKind::ApprovalRequired => Self::Waiting,
            RefusalKind::Internal | RefusalKind::Unavailable | RefusalKind::Timeout => Self::Failed,
            _ => Self::Refused,
        }
    }
}
