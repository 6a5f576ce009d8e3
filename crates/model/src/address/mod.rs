//! Addresses: where everything is. Parsed once into an enum; unknown ones are refused with the supported list.

mod memory;
mod parse;
mod run_part;
mod tool_path;

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use url::Url;

pub use self::memory::MemoryPath;
pub use self::run_part::{RunName, RunPart};
pub use self::tool_path::{decode_tool_name, encode_tool_name};
use crate::actor::Name;
use crate::id::IdEnding;
use crate::refusal::Refusal;

/// Longest accepted address in bytes.
pub const MAX_ADDRESS_BYTES: usize = 4096;

/// Every address form with a line of description, in the order of the documentation.
pub const FORMS: &[(&str, &str)] = &[
    ("~/memory/<path>", "this agent's files; a trailing / lists"),
    ("~/tools/[<source>/]<name>", "tools; ~/tools/ lists and searches"),
    ("~/triggers/<name>", "what starts runs"),
    ("~/channels/<name>", "where results go"),
    ("~/self", "this agent: grants, memory, workspace"),
    ("thread:[<id>]", "conversations; thread: lists and searches"),
    (
        "run:[<id|name>][/why|/journal|/output|/artifacts[/<name>]]",
        "executions; run: lists",
    ),
    ("approval:[<id>]", "requests for a person's approval"),
    ("activity:", "what happened, by actor, verb, thread and time"),
    ("attachment:<cid>", "an attached file or image"),
    ("hm://…, ipfs://…", "hypermedia"),
    ("https://…", "a page as Markdown"),
    ("file:<path>", "a file, relative to the workspace or absolute"),
    ("mcp:<server>/<uri>", "a resource of a connected MCP server"),
    ("agent:<name>", "an agent of this home"),
];

/// A parsed address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// `~/memory/…`
    Memory(MemoryPath),
    /// `~/tools/` or one tool in it; the decoded text after `~/tools/`.
    Tools(Option<String>),
    /// `~/triggers/…`
    Triggers(Option<Name>),
    /// `~/channels/…`
    Channels(Option<Name>),
    /// `~/self`
    SelfAgent,
    /// `thread:` or one thread.
    Thread(Option<IdEnding>),
    /// `run:` or a run and one of its parts.
    Run(Option<RunName>, RunPart),
    /// `approval:` or one approval.
    Approval(Option<IdEnding>),
    /// `activity:`
    Activity,
    /// `attachment:<cid>`
    Attachment(String),
    /// `hm://…`
    Hypermedia(String),
    /// `ipfs://…`
    Ipfs(String),
    /// `http://…` and `https://…`
    Web(Url),
    /// `file:<path>`; the path as written, resolved against the workspace by whoever opens it.
    File(String),
    /// `mcp:<server>/<uri>`; an empty one lists what the server offers, and `prompts/<name>` is a prompt.
    Mcp {
        /// The server's name.
        server: String,
        /// The resource's own identifier, as the server wrote it.
        uri: String,
    },
    /// `agent:` or one agent.
    Agent(Option<Name>),
}

/// The family of an address: one row of the option tables, one file of the `space` crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// `~/memory/`
    Memory,
    /// `~/tools/` itself
    ToolList,
    /// one tool
    Tool,
    /// `~/triggers/`
    Triggers,
    /// `~/channels/`
    Channels,
    /// `~/self`
    SelfAgent,
    /// `thread:`
    ThreadList,
    /// one thread
    Thread,
    /// `run:`
    RunList,
    /// one run's record, or its artifacts' list
    Run,
    /// a run's journal
    RunJournal,
    /// a run's output or one artifact
    RunOutput,
    /// `approval:`
    Approvals,
    /// `activity:`
    Activity,
    /// `attachment:`
    Attachment,
    /// `hm://` and `ipfs://`
    Hypermedia,
    /// `https://`
    Web,
    /// `file:`
    File,
    /// `mcp:`
    Mcp,
    /// `agent:`
    Agents,
}

impl Address {
    /// Parses an address.
    ///
    /// # Errors
    /// Refuses (400) what is empty, too long, malformed or of no known form, with the supported list.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        parse::parse(text)
    }

    /// Returns the family that serves this address.
    #[must_use]
    pub const fn family(&self) -> Family {
        match self {
            Self::Memory(_) => Family::Memory,
            Self::Tools(None) => Family::ToolList,
            Self::Tools(Some(_)) => Family::Tool,
            Self::Triggers(_) => Family::Triggers,
            Self::Channels(_) => Family::Channels,
            Self::SelfAgent => Family::SelfAgent,
            Self::Thread(None) => Family::ThreadList,
            Self::Thread(Some(_)) => Family::Thread,
            Self::Run(None, _) => Family::RunList,
            Self::Run(Some(_), RunPart::Record | RunPart::Why | RunPart::Artifacts) => Family::Run,
            Self::Run(Some(_), RunPart::Journal) => Family::RunJournal,
            Self::Run(Some(_), RunPart::Output | RunPart::Artifact(_)) => Family::RunOutput,
            Self::Approval(_) => Family::Approvals,
            Self::Activity => Family::Activity,
            Self::Attachment(_) => Family::Attachment,
            Self::Hypermedia(_) | Self::Ipfs(_) => Family::Hypermedia,
            Self::Web(_) => Family::Web,
            Self::File(_) => Family::File,
            Self::Mcp { .. } => Family::Mcp,
            Self::Agent(_) => Family::Agents,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn optional(
            f: &mut fmt::Formatter<'_>,
            prefix: &str,
            rest: Option<&dyn fmt::Display>,
        ) -> fmt::Result {
            f.write_str(prefix)?;
            rest.map_or(Ok(()), |rest| rest.fmt(f))
        }
        match self {
            Self::Memory(path) => write!(f, "~/memory/{path}"),
            Self::Tools(None) => f.write_str("~/tools/"),
            Self::Tools(Some(name)) => write!(f, "~/tools/{}", encode_tool_name(name)),
            Self::Triggers(name) => optional(f, "~/triggers/", name.as_ref().map(|n| n as _)),
            Self::Channels(name) => optional(f, "~/channels/", name.as_ref().map(|n| n as _)),
            Self::SelfAgent => f.write_str("~/self"),
            Self::Thread(id) => optional(f, "thread:", id.as_ref().map(|n| n as _)),
            Self::Run(None, _) => f.write_str("run:"),
            Self::Run(Some(run), part) => write!(f, "run:{run}{part}"),
            Self::Approval(id) => optional(f, "approval:", id.as_ref().map(|n| n as _)),
            Self::Activity => f.write_str("activity:"),
            Self::Attachment(cid) => write!(f, "attachment:{cid}"),
            Self::Hypermedia(rest) => write!(f, "hm://{rest}"),
            Self::Ipfs(rest) => write!(f, "ipfs://{rest}"),
            Self::Web(url) => f.write_str(url.as_str()),
            Self::File(path) => write!(f, "file:{path}"),
            Self::Mcp { server, uri } => write!(f, "mcp:{server}/{uri}"),
            Self::Agent(name) => optional(f, "agent:", name.as_ref().map(|n| n as _)),
        }
    }
}

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
