//! The five verbs and their parsed requests.

mod fields;
mod parse;

pub(crate) use self::fields::nearest as nearest_key;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::actor::Name;
use crate::address::Address;
use crate::id::IdEnding;
use crate::options::Options;
use crate::plan::Plan;
use crate::refusal::{Refusal, RefusalKind};

/// A verb. New capability arrives as an address or a tool document, never as a sixth verb.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    /// Reads an address.
    Read,
    /// Writes an address.
    Write,
    /// Calls a tool.
    Call,
    /// Starts a child run.
    Delegate,
    /// Replaces the thread's plan.
    Plan,
}

impl Verb {
    /// The verbs in the order in which clients list them.
    pub const ALL: [Self; 5] = [Self::Read, Self::Write, Self::Call, Self::Delegate, Self::Plan];

    /// Returns the verb's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Call => "call",
            Self::Delegate => "delegate",
            Self::Plan => "plan",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Verb {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        Self::ALL
            .into_iter()
            .find(|verb| verb.name() == text)
            .ok_or_else(|| {
                Refusal::new(RefusalKind::BadRequest, text, format!("'{text}' is no verb."))
                    .supported(Self::ALL.map(Self::name))
                    .next_step("call {\"tool\":NAME,\"input\":{…}} runs a tool; read ~/tools/ lists them")
            })
    }
}

/// How a read result is rendered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Markdown, for reading.
    #[default]
    Markdown,
    /// The structured value as JSON.
    Json,
}

/// A parsed `read`.
#[derive(Debug, Clone, PartialEq)]
pub struct Read {
    /// What to read.
    pub address: Address,
    /// How to render it.
    pub format: Format,
    /// Options the address' family declares.
    pub options: Options,
}

/// A parsed `write`.
#[derive(Debug, Clone, PartialEq)]
pub struct Write {
    /// What to write.
    pub address: Address,
    /// The new content; absent and empty differ.
    pub content: Option<String>,
    /// Options the address' family declares.
    pub options: Options,
    /// Validate everything, change nothing.
    pub dry_run: bool,
}

/// A parsed `call`.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// The tool as written: `name` or `source/name`.
    pub tool: String,
    /// The input object, not yet checked against the tool's contract.
    pub input: Map<String, Value>,
    /// The thread handle that the caller passed back.
    pub thread: Option<IdEnding>,
}

/// What a child run executes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// A recipe by tool name.
    Recipe(String),
    /// A brief for a model.
    Brief(String),
    /// A script's source or address.
    Script(String),
}

/// Limits of a child run; reaching one parks it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Budget {
    /// Wall time in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall_ms: Option<u64>,
    /// Model tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Cost in millionths of a US dollar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<u64>,
    /// Child runs, all generations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub children: Option<u64>,
    /// Generations below this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u64>,
}

impl Budget {
    /// Reads limits as people and models write them: `wallSeconds`, `tokens`, `costUsd`, `children`, `depth`.
    ///
    /// # Errors
    /// Refuses unknown limits and values that are none.
    pub fn parse(given: &Map<String, Value>) -> Result<Self, Refusal> {
        parse::budget(given)
    }
}

/// A parsed `delegate`.
#[derive(Debug, Clone, PartialEq)]
pub struct Delegate {
    /// A title for lists.
    pub title: Option<String>,
    /// What to run.
    pub work: Work,
    /// The work's input.
    pub input: Map<String, Value>,
    /// Another agent of this home.
    pub agent: Option<Name>,
    /// Tools asked for; the child gets the intersection with the parent's.
    pub tools: Option<Vec<String>>,
    /// The schema of the result that the child owes.
    pub output: Option<Value>,
    /// Limits.
    pub budget: Budget,
    /// False detaches: the result is read at the run's address.
    pub awaits: bool,
    /// The thread handle that the caller passed back.
    pub thread: Option<IdEnding>,
}

/// A parsed `plan`.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanUpdate {
    /// The whole new plan.
    pub plan: Plan,
    /// The thread handle that the caller passed back.
    pub thread: Option<IdEnding>,
}

/// A parsed request.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    /// `read`
    Read(Read),
    /// `write`
    Write(Write),
    /// `call`
    Call(Call),
    /// `delegate`
    Delegate(Box<Delegate>),
    /// `plan`
    Plan(PlanUpdate),
}

impl Request {
    /// Parses a verb's arguments.
    ///
    /// # Errors
    /// Refuses unknown keys, wrong types, unknown addresses and options that the address does not declare.
    pub fn parse(verb: Verb, arguments: &Value) -> Result<Self, Refusal> {
        parse::parse(verb, arguments)
    }

    /// Returns the thread handle that the arguments carry.
    #[must_use]
    pub const fn thread(&self) -> Option<&IdEnding> {
        match self {
            Self::Read(_) | Self::Write(_) => None,
            Self::Call(call) => call.thread.as_ref(),
            Self::Delegate(delegate) => delegate.thread.as_ref(),
            Self::Plan(update) => update.thread.as_ref(),
        }
    }
}

#[cfg(test)]
mod tests;
