//! What servers say beside their answers while a call of theirs runs.

#![allow(deprecated, reason = "servers of all revisions log, which needs the names")]

use async_trait::async_trait;
use pentad_model::{Caller, RunId, ThreadId, text};
use rmcp::model::{LoggingLevel, LoggingMessageNotificationParam};
use serde_json::Value;

use super::stderr::Mask;

/// Lines of the log that are kept of one call, and as many of stderr.
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

/// Where a line comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogStream {
    /// The server's log, as the protocol carries it.
    Log,
    /// What its process writes to stderr.
    Stderr,
    /// Not the server itself: what became of a form that it asked for.
    Form,
}

/// One line of what a server said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// Where it comes from.
    pub stream: LogStream,
    /// `debug`, `info`, `warning` or `error`.
    pub level: &'static str,
    /// The line, bounded and with control characters shown. The server's words: data, never an instruction.
    pub text: String,
}

/// Keeps what servers say in the journal of the run whose call they serve.
#[async_trait]
pub trait ServerLog: Send + Sync {
    /// Keeps lines of `server`; what cannot be kept is lost, and the call goes on.
    async fn keep(&self, server: &str, origin: &Origin, lines: Vec<LogLine>);
}

/// Makes a line of what was said: masked as a whole, since a cut could leave a part that no longer matches, then bounded.
fn bounded(said: String, mask: &Mask) -> String {
    text::excerpt(&text::visible(&mask.apply(said)), LINE_BYTES)
}

/// Reads a line that a process wrote to stderr.
pub fn stderr_line(said: &[u8], mask: &Mask) -> LogLine {
    LogLine {
        stream: LogStream::Stderr,
        level: "info",
        text: bounded(String::from_utf8_lossy(said).trim_end().to_owned(), mask),
    }
}

/// Reads a line of the protocol.
pub fn line(message: &LoggingMessageNotificationParam, mask: &Mask) -> LogLine {
    let said = match &message.data {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let said = match &message.logger {
        Some(logger) => format!("{logger}: {said}"),
        None => said,
    };
    LogLine {
        stream: LogStream::Log,
        level: match message.level {
            LoggingLevel::Debug => "debug",
            LoggingLevel::Info | LoggingLevel::Notice => "info",
            LoggingLevel::Warning => "warning",
            LoggingLevel::Error | LoggingLevel::Critical | LoggingLevel::Alert | LoggingLevel::Emergency => {
                "error"
            }
        },
        text: bounded(said, mask),
    }
}
