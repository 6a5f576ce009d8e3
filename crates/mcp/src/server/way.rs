//! How a server is reached: the same for everybody, or by the variables of whoever calls.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use pentad_model::Refusal;
use pentad_program::Environment;

use super::config::{CommandLine, Reach};

/// The variables of a caller that count for one server, by name. They live in memory; only a keyed hash leaves it.
pub type Values = BTreeMap<String, String>;

/// How a server is reached.
#[derive(Clone)]
pub enum Way {
    /// The same for everybody.
    Fixed(Reach),
    /// By the variables of whoever calls.
    ByCaller(Arc<dyn ByCaller>),
}

/// What a person wrote about a server, with everything in place but its callers' variables.
#[derive(Clone, PartialEq, Eq)]
pub enum Definition {
    /// A program; references to variables stand in it as they were written.
    Command(CommandLine),
    /// An endpoint.
    Url {
        /// Its URL, likewise.
        url: String,
        /// The names of the headers that are sent along.
        headers: Vec<String>,
    },
}

/// Knows what of a server depends on its callers' variables. It is asked with every call, so it answers at once.
pub trait ByCaller: Send + Sync {
    /// Returns what does not depend on them.
    fn definition(&self) -> Definition;

    /// Returns those variables of a caller that count; without an environment, those of this process.
    fn values(&self, environment: Option<&Environment>) -> Values;

    /// Puts them in.
    ///
    /// # Errors
    /// Names the variable that is missing, or says what cannot be used; no value is in it.
    fn reach(&self, values: &Values) -> Result<Reach, Refusal>;
}

impl From<Reach> for Way {
    fn from(reach: Reach) -> Self {
        Self::Fixed(reach)
    }
}

impl Way {
    /// Returns what does not depend on who calls.
    pub(super) fn definition(&self) -> Definition {
        match self {
            Self::Fixed(Reach::Command(line)) => Definition::Command(line.clone()),
            Self::Fixed(Reach::Url(endpoint)) => Definition::Url {
                url: endpoint.url().to_string(),
                headers: endpoint.header_names().map(str::to_owned).collect(),
            },
            Self::ByCaller(callers) => callers.definition(),
        }
    }

    /// Returns the variables of a caller that count.
    pub(super) fn values(&self, environment: Option<&Environment>) -> Values {
        match self {
            Self::Fixed(_) => Values::new(),
            Self::ByCaller(callers) => callers.values(environment),
        }
    }

    /// Returns how the server is reached with these variables.
    pub(super) fn reach(&self, values: &Values) -> Result<Reach, Refusal> {
        match self {
            Self::Fixed(reach) => Ok(reach.clone()),
            Self::ByCaller(callers) => callers.reach(values),
        }
    }

    /// Returns how the server is reached from this process, with its own variables.
    ///
    /// # Errors
    /// Names the variable that is missing, or says what cannot be used.
    pub fn from_here(&self) -> Result<Reach, Refusal> {
        self.reach(&self.values(None))
    }
}

impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(reach) => reach.fmt(f),
            Self::ByCaller(callers) => callers.definition().fmt(f),
        }
    }
}

impl fmt::Debug for Definition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(line) => line.fmt(f),
            // The query of a URL often carries a key.
            Self::Url { headers, .. } => f
                .debug_struct("Url")
                .field("headers", headers)
                .finish_non_exhaustive(),
        }
    }
}
