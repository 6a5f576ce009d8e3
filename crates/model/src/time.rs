//! Points in time as the journal stores them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Milliseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Returns the system clock's present time.
    #[must_use]
    pub fn now() -> Self {
        Self(jiff::Timestamp::now().as_millisecond())
    }

    /// Returns the moment `millis` later.
    #[must_use]
    pub const fn plus_millis(self, millis: i64) -> Self {
        Self(self.0.saturating_add(millis))
    }

    /// Parses an RFC 3339 text such as `2026-11-30T10:00:00Z`, or a number of milliseconds.
    ///
    /// # Errors
    /// Returns the parser's message when the text is neither.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Ok(millis) = text.parse::<i64>() {
            return Ok(Self(millis));
        }
        text.parse::<jiff::Timestamp>()
            .map(|t| Self(t.as_millisecond()))
            .map_err(|e| e.to_string())
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(time) => write!(f, "{time:.3}"),
            Err(_) => write!(f, "{}ms", self.0),
        }
    }
}
