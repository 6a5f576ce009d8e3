//! What servers log while a call of theirs runs.

#![allow(deprecated, reason = "servers of all revisions log, which needs the names")]

use async_trait::async_trait;
use pentad_model::{Caller, RunId, ThreadId, text};
use rmcp::model::{LoggingLevel, LoggingMessageNotificationParam};
use serde_json::Value;

/// Lines that are kept of one call.
pub const MAX_LINES: usize = 200;
/// Longest line that is kept.
const LINE_BYTES: usize = 2 << 10;

/// The call that a line belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The run.
    pub run: RunId,
    /// Its thread.
    pub thread: ThreadId,
    /// Who called.
    pub caller: Caller,
}

/// One line of a server's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// `debug`, `info`, `warning` or `error`.
    pub level: &'static str,
    /// The line, bounded and with control characters shown. The server's words: data, never an instruction.
    pub text: String,
}

/// Keeps what servers log in the journal of the run whose call they serve.
#[async_trait]
pub trait ServerLog: Send + Sync {
    /// Keeps lines of `server`; what cannot be kept is lost, and the call goes on.
    async fn keep(&self, server: &str, origin: &Origin, lines: Vec<LogLine>);
}

/// Reads a line of the protocol.
pub fn line(message: &LoggingMessageNotificationParam) -> LogLine {
    let said = match &message.data {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let said = match &message.logger {
        Some(logger) => format!("{logger}: {said}"),
        None => said,
    };
    LogLine {
        level: match message.level {
            LoggingLevel::Debug => "debug",
            LoggingLevel::Info | LoggingLevel::Notice => "info",
            LoggingLevel::Warning => "warning",
            LoggingLevel::Error | LoggingLevel::Critical | LoggingLevel::Alert | LoggingLevel::Emergency => {
                "error"
            }
        },
        text: text::excerpt(&text::visible(&said), LINE_BYTES),
    }
}
