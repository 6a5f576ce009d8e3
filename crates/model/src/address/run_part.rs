//! A run in an address, and the part of it that is meant.

use std::fmt;

use crate::actor::Name;
use crate::id::IdEnding;

/// How an address names a run: by (an ending of) its id, or by its name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RunName(Name);

impl RunName {
    /// Wraps a name; every id is also a legal name.
    #[must_use]
    pub const fn new(name: Name) -> Self {
        Self(name)
    }

    /// Returns the text as a run's own name.
    #[must_use]
    pub const fn name(&self) -> &Name {
        &self.0
    }

    /// Returns the text as an id's ending when it can be one. A live run of this *name* goes first.
    #[must_use]
    pub fn ending(&self) -> Option<IdEnding> {
        self.0.as_str().parse().ok()
    }
}

impl fmt::Display for RunName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The part of a run that an address means.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RunPart {
    /// The record: status, grants, budget, plan.
    Record,
    /// Why it stands where it stands.
    Why,
    /// What it did, step by step.
    Journal,
    /// The complete output.
    Output,
    /// The list of artifacts.
    Artifacts,
    /// One artifact.
    Artifact(Name),
}

impl fmt::Display for RunPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Record => Ok(()),
            Self::Why => f.write_str("/why"),
            Self::Journal => f.write_str("/journal"),
            Self::Output => f.write_str("/output"),
            Self::Artifacts => f.write_str("/artifacts"),
            Self::Artifact(name) => write!(f, "/artifacts/{name}"),
        }
    }
}
