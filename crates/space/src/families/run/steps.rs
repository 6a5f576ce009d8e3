//! Steps of a run for people and models.

use pentad_model::step::{Command, CommandKind, Completion, Step, StepBody};
use pentad_program::WaitFor;
use serde_json::Value;

use super::waits;
use crate::families::events::Detail;
use crate::show;

/// Bytes of JSON that stand on the line itself.
const LINE_BYTES: usize = 160;
/// Bytes of JSON that a block shows.
const BLOCK_BYTES: usize = 4096;

/// Returns one step on a line, under its number in its run.
pub(in crate::families) fn line(step: &Step) -> String {
    numbered(step, step.seq, Detail::Names)
}

/// Returns one step as text, under its place in the journal: a line, and with full detail a block where the value is too
/// long for it.
pub(super) fn markdown(step: &Step, detail: Detail) -> String {
    numbered(step, step.journal, detail)
}

fn numbered(step: &Step, number: u64, detail: Detail) -> String {
    let (headline, value) = body(&step.body);
    let by = step.by.as_ref().map(show::caller);
    let by = match (&step.body, by) {
        (_, None) => String::new(),
        (StepBody::Completed { .. }, Some(by)) => format!(" from {by}"),
        (_, Some(by)) => format!(" (by {by})"),
    };
    let (inline, block) = value.map_or_else(Default::default, |value| shown(value, detail));
    format!(
        "[{number}] {} {headline}{by}{inline}\n{block}",
        show::time(step.at)
    )
}

/// Returns a value for the line, or as a block below it.
fn shown(value: &Value, detail: Detail) -> (String, String) {
    let text = value.to_string();
    if detail == Detail::Names || text.len() <= LINE_BYTES {
        return (format!(" {}", show::line(&text, LINE_BYTES)), String::new());
    }
    let pretty = serde_json::to_string_pretty(value).unwrap_or(text);
    let cut = pentad_model::text::excerpt(&pentad_model::text::visible(&pretty), BLOCK_BYTES);
    (":".to_owned(), show::fenced(&cut, "json"))
}

fn body(body: &StepBody) -> (String, Option<&Value>) {
    match body {
        StepBody::Started => ("began".to_owned(), None),
        StepBody::Command(command) => asked(command),
        StepBody::Completed { position, completion } => got(*position, completion),
        StepBody::Again { position } => (format!("again #{position}: it is done once more"), None),
        StepBody::Note { text } => (format!("note: {}", show::line(text, 400)), None),
    }
}

fn asked(command: &Command) -> (String, Option<&Value>) {
    let label = if command.label.is_empty() {
        String::new()
    } else {
        format!(" '{}'", show::line(&command.label, 120))
    };
    let position = command.position;
    // What waits is said in words, everything else as it was asked for.
    if let Some((what, due)) = waited(command) {
        let word = command.kind.word();
        let until = if what == WaitFor::Timer { "until" } else { "for" };
        let what = waits::short(&what, due);
        return (format!("asked #{position} {word}{label} {until} {what}"), None);
    }
    let asked = (!command.asked.is_null()).then_some(&command.asked);
    (format!("asked #{position} {}{label}", command.kind.word()), asked)
}

/// Returns what a command waits for, when that is all that it asks.
fn waited(command: &Command) -> Option<(WaitFor, Option<pentad_model::Timestamp>)> {
    if !matches!(
        command.kind,
        CommandKind::Join | CommandKind::Sleep | CommandKind::Wait
    ) {
        return None;
    }
    let what = serde_json::from_value(command.asked.get("what")?.clone()).ok()?;
    let due = command.asked.get("due").and_then(Value::as_i64);
    Some((what, due.map(pentad_model::Timestamp)))
}

fn got(position: u32, completion: &Completion) -> (String, Option<&Value>) {
    let head = format!("got #{position}");
    match completion {
        Completion::Done(value) => (head, Some(value)),
        Completion::Stored { blob, bytes } => {
            let name = pentad_model::text::prefix(blob, 12);
            (
                format!(
                    "{head} {} of JSON, kept beside the journal ({name}…)",
                    show::size(*bytes)
                ),
                None,
            )
        }
        Completion::Failed(error) => (
            format!(
                "{head} failed: {} ({})",
                show::line(&error.message, 400),
                show::line(&error.code, 40)
            ),
            None,
        ),
        Completion::Interrupted => (
            format!("{head} interrupted: it was begun, and nobody knows whether it happened"),
            None,
        ),
        Completion::Waits(what) => match serde_json::from_value::<WaitFor>(what.clone()) {
            Ok(what) => (
                format!("{head} not done: it needs {} first", waits::short(&what, None)),
                None,
            ),
            Err(_) => (
                format!("{head} not done: it needs something else first"),
                Some(what),
            ),
        },
    }
}
