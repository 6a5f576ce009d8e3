//! Refusals: values that say what was wrong, what would be accepted, and the next step.

use serde::{Deserialize, Serialize};

/// The kind of a refusal; its number is the HTTP status that adapters use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalKind {
    /// Malformed or unknown input (400).
    BadRequest,
    /// Not permitted for this caller (403).
    Forbidden,
    /// A person must approve first (403); the refusal carries the approval's address.
    ApprovalRequired,
    /// Nothing at that address, or nothing the caller may see (404).
    NotFound,
    /// The address exists but not for this verb (405).
    NotSupported,
    /// The state changed or a name is taken (409).
    Conflict,
    /// Over a limit that the text names (413).
    TooLarge,
    /// Well-formed but not acceptable, for example a schema mismatch (422).
    Invalid,
    /// Too many at once (429).
    TooMany,
    /// A fault of ours (500).
    Internal,
    /// Known, but this build or home has no part that does it (501).
    NotAvailable,
    /// A source or service is away for the moment (503).
    Unavailable,
    /// A limit of time was reached (504).
    Timeout,
}

impl RefusalKind {
    /// Returns the HTTP status of this kind.
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            Self::BadRequest => 400,
            Self::Forbidden | Self::ApprovalRequired => 403,
            Self::NotFound => 404,
            Self::NotSupported => 405,
            Self::Conflict => 409,
            Self::TooLarge => 413,
            Self::Invalid => 422,
            Self::TooMany => 429,
            Self::Internal => 500,
            Self::NotAvailable => 501,
            Self::Unavailable => 503,
            Self::Timeout => 504,
        }
    }
}

/// A refusal. It is returned, never thrown past an adapter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// What kind of refusal this is.
    pub kind: RefusalKind,
    /// The offending key, address, tool or value.
    pub subject: String,
    /// One sentence for a person or a model.
    pub message: String,
    /// What would be accepted in the subject's place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub supported: Vec<String>,
    /// What to do next, one step a line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub next: Vec<String>,
}

impl Refusal {
    /// Returns a refusal of `kind` about `subject`.
    #[must_use]
    pub fn new(kind: RefusalKind, subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            kind,
            subject: subject.into(),
            message: message.into(),
            supported: Vec::new(),
            next: Vec::new(),
        }
    }

    /// Adds what would be accepted.
    #[must_use]
    pub fn supported<S: Into<String>>(mut self, supported: impl IntoIterator<Item = S>) -> Self {
        self.supported.extend(supported.into_iter().map(Into::into));
        self
    }

    /// Adds a next step.
    #[must_use]
    pub fn next_step(mut self, step: impl Into<String>) -> Self {
        self.next.push(step.into());
        self
    }

    /// Returns the text that a model or person reads.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = self.message.clone();
        if !self.supported.is_empty() {
            text.push_str("\nSupported: ");
            text.push_str(&self.supported.join(", "));
            text.push('.');
        }
        for step in &self.next {
            text.push_str("\nNext: ");
            text.push_str(step);
        }
        text
    }
}
