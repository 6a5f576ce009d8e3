//! Acts: what is judged, just before it happens.

use pentad_model::approval::Subject;
use pentad_model::canonical::{CanonicalError, sha256_hex, to_dag_cbor};
use pentad_model::grant::{Grant, GrantSet, GrantVerb, components};
use pentad_model::{ApprovalId, Caller, Name, RunId, ThreadId};
use serde_json::{Map, Value};

/// Whether the target lies in what the caller reads without asking. Who opens it knows: it resolves the path by
/// handle, the host after DNS, the thread by its agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// A file below the workspace, a thread or run of its own, a public host.
    Own,
    /// Anything else.
    Outside,
}

/// One act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Act {
    /// The verb that a grant would name.
    pub verb: GrantVerb,
    /// The target as a grant would write it: `github/create_issue`, `file:/abs/x`, `~/memory/x`, `https://host`.
    pub target: String,
    /// Whether the target is the caller's own; matters for reads, and for writes to runs.
    pub reach: Reach,
    /// A named right that the act needs besides, such as `execute` or `net:host`; an approval of it lasts for one run
    /// at most.
    pub right: Option<Grant>,
    /// Who acts.
    pub caller: Caller,
    /// For which agent.
    pub agent: Name,
    /// In which thread.
    pub thread: ThreadId,
    /// By which run, when a run acts.
    pub run: Option<RunId>,
    /// The tool is trusted to change nothing ([`pentad_model::ToolDocument::is_trusted_read_only`]).
    pub read_only_trusted: bool,
    /// The tool may destroy, runs code behind a wall, or is a foreign lambda: an approval lasts for one run at most.
    pub destructive: bool,
    /// [`input_hash`] of the input.
    pub input_hash: String,
    /// The source's closure hash: everything that would run.
    pub closure_hash: String,
    /// What a person reads before answering; input shown, secrets masked.
    pub question: String,
}

impl Act {
    /// Returns the act as a grant would write it, the target byte for byte.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{}:{}", verb_word(self.verb), self.target)
    }

    /// Returns what an approval of this act is bound to.
    #[must_use]
    pub fn subject(&self) -> Subject {
        Subject {
            actor: self.caller.actor.clone(),
            agent: self.agent.clone(),
            act: self.text(),
            input_hash: self.input_hash.clone(),
            closure_hash: self.closure_hash.clone(),
        }
    }

    pub(super) fn components(&self) -> Vec<String> {
        components(&self.target)
    }
}

pub(super) const fn verb_word(verb: GrantVerb) -> &'static str {
    match verb {
        GrantVerb::Read => "read",
        GrantVerb::Write => "write",
        GrantVerb::Call => "call",
        GrantVerb::Delegate => "delegate",
    }
}

/// What a caller may do at all, and what of it without asking.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Authority {
    /// The ceiling: the run's stored grants. What they do not cover is refused, never asked.
    pub grants: GrantSet,
    /// What a person granted this client or agent in the configuration: allowed without asking.
    pub standing: GrantSet,
}

impl Authority {
    /// Returns the authority that permits everything and asks as the defaults say.
    #[must_use]
    pub fn everything() -> Self {
        Self {
            grants: GrantSet::everything(),
            standing: GrantSet::default(),
        }
    }

    /// Returns a child's authority: never wider than this one, and exactly this one when nothing narrower is asked.
    #[must_use]
    pub fn child(&self, asked: Option<&GrantSet>) -> Self {
        asked.map_or_else(
            || self.clone(),
            |asked| Self {
                grants: self.grants.intersect(asked),
                standing: self.standing.intersect(asked),
            },
        )
    }
}

/// Why an act may happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// A person acts.
    Person,
    /// The policy allows it.
    Policy,
    /// A standing grant of the configuration covers it.
    Standing,
    /// The defaults allow it.
    Default,
    /// A person approved it.
    Approved(ApprovalId),
}

/// The gate's word that one act may happen now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permit {
    /// Why.
    pub reason: Reason,
}

/// Returns the SHA-256 of an input's canonical form, in hexadecimal.
///
/// # Errors
/// Fails on numbers that have no canonical form.
pub fn input_hash(input: &Map<String, Value>) -> Result<String, CanonicalError> {
    Ok(sha256_hex(&to_dag_cbor(input)?))
}
