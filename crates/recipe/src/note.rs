//! Remarks about one tool file.

use pentad_program::Severity;

/// Is a remark about a tool file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Says how bad it is.
    pub severity: Severity,
    /// Says what is the matter and what to do.
    pub message: String,
}

impl Note {
    /// Returns a remark about something that does not work.
    pub fn error(message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            message: message.into(),
        }
    }

    /// Returns a remark about something that works, but not as one may think.
    pub fn warning(message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            message: message.into(),
        }
    }

    /// Returns a remark that is worth knowing.
    pub fn info(message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Info,
            message: message.into(),
        }
    }
}

impl From<pentad_template::Diagnostic> for Note {
    fn from(diagnostic: pentad_template::Diagnostic) -> Self {
        let message = format!("{}: {}", diagnostic.place, diagnostic.message);
        match diagnostic.severity {
            pentad_template::Severity::Error => Self::error(message),
            pentad_template::Severity::Warning => Self::warning(message),
        }
    }
}
