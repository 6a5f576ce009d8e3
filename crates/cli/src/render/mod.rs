//! From an outcome to two streams and an exit code.

pub mod event;
pub mod findings;

use std::fmt::Write as _;

use pentad_model::outcome::{Omitted, Part};
use pentad_model::{Outcome, Refusal, Status};

use crate::terminal::{Style, Terminal};

/// What goes where.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rendered {
    /// For stdout: data.
    pub out: String,
    /// For stderr: refusals, next steps, notes.
    pub err: String,
    /// The exit code.
    pub code: u8,
}

impl Rendered {
    /// Returns data and an exit code.
    pub fn data(out: impl Into<String>, code: u8) -> Self {
        Self {
            out: out.into(),
            code,
            ..Self::default()
        }
    }

    /// Returns a notice and an exit code.
    pub fn notice(err: impl Into<String>, code: u8) -> Self {
        Self {
            err: err.into(),
            code,
            ..Self::default()
        }
    }
}

/// How the text of an outcome ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ending {
    /// With a line break.
    #[default]
    Line,
    /// As it is, for files and pipes.
    Exact,
}

/// Renders an outcome.
pub fn render(outcome: &Outcome, terminal: &Terminal, ending: Ending) -> Rendered {
    let code = outcome.status.exit_code();
    if terminal.json {
        return Rendered::data(json(outcome, terminal), code);
    }
    let mut rendered = Rendered {
        code,
        ..Rendered::default()
    };
    let text = shown_text(outcome);
    rendered.out.push_str(&terminal.foreign_out(text));
    let ends = text.is_empty() || text.ends_with('\n');
    if !ends && (ending == Ending::Line || terminal.out_is_terminal) {
        rendered.out.push('\n');
    }
    for part in &outcome.parts {
        let _ = writeln!(rendered.out, "{}", terminal.foreign_out(&part_line(part)));
    }
    if let Some(omitted) = &outcome.omitted {
        rendered
            .err
            .push_str(&terminal.paint_err(Style::Dim, &omission(omitted)));
        rendered.err.push('\n');
    }
    match (&outcome.refusal, outcome.status) {
        (Some(refusal), status) => refusal_lines(refusal, status, terminal, &mut rendered.err),
        (None, Status::Ok) => {}
        (None, Status::Failed) => {
            let label = terminal.paint_err(Style::Bad, "failed");
            let run = outcome
                .run
                .map(|run| format!(": pentad read run:{run}/journal shows what happened"));
            let _ = writeln!(rendered.err, "{label}{}", run.unwrap_or_default());
        }
        (None, Status::Refused | Status::Waiting) => {
            let label = terminal.paint_err(Style::Caution, word(outcome.status));
            let _ = writeln!(rendered.err, "{label}");
        }
    }
    rendered
}

/// A refusal's text stands on stderr; what the tool printed before it stays on stdout.
fn shown_text(outcome: &Outcome) -> &str {
    match &outcome.refusal {
        Some(refusal) if outcome.text.contains(&refusal.message) => "",
        _ => &outcome.text,
    }
}

fn word(status: Status) -> &'static str {
    match status {
        Status::Ok => "ok",
        Status::Failed => "failed",
        Status::Refused => "refused",
        Status::Waiting => "waiting",
    }
}

fn refusal_lines(refusal: &Refusal, status: Status, terminal: &Terminal, err: &mut String) {
    let style = if status == Status::Failed {
        Style::Bad
    } else {
        Style::Caution
    };
    let label = terminal.paint_err(style, word(status));
    let _ = writeln!(err, "{label}: {}", terminal.foreign_err(&refusal.message));
    if !refusal.supported.is_empty() {
        let _ = writeln!(
            err,
            "Supported: {}",
            terminal.foreign_err(&refusal.supported.join(", "))
        );
    }
    for step in &refusal.next {
        let next = terminal.paint_err(Style::Step, "Next:");
        let _ = writeln!(err, "{next} {}", terminal.foreign_err(step));
    }
    if let Some(id) = approval_id(refusal).filter(|_| status == Status::Waiting) {
        let next = terminal.paint_err(Style::Step, "Next:");
        let _ = writeln!(err, "{next} pentad approvals grant {id}, then repeat the command");
    }
}

fn approval_id(refusal: &Refusal) -> Option<&str> {
    std::iter::once(&refusal.subject)
        .chain(&refusal.next)
        .find_map(|text| text.split_once("approval:"))
        .map(|(_, rest)| {
            rest.split(|c: char| !c.is_ascii_alphanumeric())
                .next()
                .unwrap_or(rest)
        })
        .filter(|id| !id.is_empty())
}

fn part_line(part: &Part) -> String {
    match part {
        Part::Image { cid, mime, .. } => format!("[image {mime}] attachment:{cid}"),
        Part::Audio { cid, mime, .. } => format!("[audio {mime}] attachment:{cid}"),
        Part::Link { address, title } => match title {
            Some(title) => format!("[{title}] {address}"),
            None => address.clone(),
        },
    }
}

fn omission(omitted: &Omitted) -> String {
    let Omitted {
        shown_bytes,
        total_bytes,
        total_lines,
        address,
    } = omitted;
    let mut text = format!("{shown_bytes} of {total_bytes} bytes ({total_lines} lines) are shown.");
    if !address.is_empty() {
        let _ = write!(text, " The rest: pentad read '{address}' --bytes {shown_bytes}-");
    }
    text
}

/// Prints the same outcome that MCP and HTTP carry: one line in a pipe, indented on a terminal.
fn json(outcome: &Outcome, terminal: &Terminal) -> String {
    let text = if terminal.out_is_terminal {
        serde_json::to_string_pretty(outcome)
    } else {
        serde_json::to_string(outcome)
    };
    let text = text.unwrap_or_else(|error| format!("{{\"status\":\"failed\",\"error\":\"{error}\"}}"));
    let text = if terminal.out_is_terminal {
        escaped(&text)
    } else {
        text
    };
    text + "\n"
}

/// Escapes what [`pentad_model::text::visible`] would show, in JSON's own way.
pub fn escaped(json: &str) -> String {
    if pentad_model::text::visible(json) == json {
        return json.to_owned();
    }
    let mut out = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        let single = c.to_string();
        if pentad_model::text::visible(&single) == single {
            out.push(c);
        } else {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests;
