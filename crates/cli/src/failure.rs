//! Faults of the command itself, before or besides any outcome.

use std::process::ExitCode;

use crate::render::Rendered;
use crate::terminal::Terminal;

/// The arguments make no sense together; exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// The caller may not do it; exit code 3.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotAllowed(pub String);

/// Returns a usage error.
pub fn usage(message: impl Into<String>) -> anyhow::Error {
    Usage(message.into()).into()
}

/// Returns an error of what the caller may not do.
pub fn not_allowed(message: impl Into<String>) -> anyhow::Error {
    NotAllowed(message.into()).into()
}

/// Prints an error and returns its exit code.
pub fn report(error: &anyhow::Error, terminal: &Terminal) -> ExitCode {
    let (code, word) = if error.is::<Usage>() {
        (2, "error")
    } else if error.is::<NotAllowed>() {
        (3, "refused")
    } else {
        (1, "error")
    };
    let mut lines: Vec<String> = Vec::new();
    for cause in error.chain() {
        let text = cause.to_string();
        // Many errors name their cause in their own text already.
        if !lines.iter().any(|line| line.contains(&text)) {
            lines.push(text);
        }
    }
    let rendered = if terminal.json {
        let value = serde_json::json!({"status": if code == 3 { "refused" } else { "failed" }, "error": lines.join(": ")});
        Rendered::data(format!("{value}\n"), code)
    } else {
        let text = format!(
            "{}: {}\n",
            terminal.paint_err(terminal::Style::Bad, word),
            lines.join("\n  because ")
        );
        Rendered::notice(text, code)
    };
    terminal.emit(&rendered)
}

use crate::terminal;
