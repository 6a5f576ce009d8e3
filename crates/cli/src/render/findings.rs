//! What `doctor` found.

use std::fmt::Write as _;

use pentad_keeper::Finding;
use pentad_program::Severity;

use super::Rendered;
use crate::terminal::{Style, Terminal};

/// Renders findings; the exit code is 1 when something does not work.
pub fn render(findings: &[Finding], terminal: &Terminal) -> Rendered {
    let broken = findings.iter().any(|finding| finding.severity == Severity::Error);
    let code = u8::from(broken);
    if terminal.json {
        let value = serde_json::json!({"ok": !broken, "findings": findings});
        return Rendered::data(super::escaped(&value.to_string()) + "\n", code);
    }
    let mut out = String::new();
    for finding in findings {
        let (style, word) = match finding.severity {
            Severity::Error => (Style::Bad, "error"),
            Severity::Warning => (Style::Caution, "warning"),
            Severity::Info => (Style::Dim, "info"),
        };
        let label = terminal.paint_out(style, word);
        let subject = terminal.foreign_out(&finding.subject);
        let _ = writeln!(
            out,
            "{label}: {subject}: {}",
            terminal.foreign_out(&finding.message)
        );
        if let Some(next) = &finding.next {
            let arrow = terminal.paint_out(Style::Step, "Next:");
            let _ = writeln!(out, "  {arrow} {}", terminal.foreign_out(next));
        }
    }
    let worth_knowing = findings
        .iter()
        .filter(|finding| finding.severity != Severity::Info)
        .count();
    match worth_knowing {
        0 => out.push_str("Everything is in order.\n"),
        1 => out.push_str("One thing needs attention.\n"),
        n => {
            let _ = writeln!(out, "{n} things need attention.");
        }
    }
    Rendered::data(out, code)
}
