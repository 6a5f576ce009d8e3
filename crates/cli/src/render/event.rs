//! One line for one event of the journal.

use pentad_model::text::excerpt;
use pentad_model::{Event, EventBody, Status};
use serde_json::Value;

use crate::terminal::{Style, Terminal};

const LINE_BYTES: usize = 160;

/// Renders an event as one line with its line break.
pub fn line(event: &Event, terminal: &Terminal) -> String {
    if terminal.json {
        return json(event) + "\n";
    }
    let time = terminal.paint_out(Style::Dim, &event.at.to_string());
    let thread = ending(&event.thread.to_string());
    let what = excerpt(&one_line(&summary(&event.body)), LINE_BYTES);
    let what = match &event.body {
        EventBody::Returned {
            status: Status::Failed,
            ..
        } => terminal.paint_out(Style::Bad, &terminal.foreign_out(&what)),
        EventBody::Returned {
            status: Status::Refused | Status::Waiting,
            ..
        }
        | EventBody::Approval { .. } => terminal.paint_out(Style::Caution, &terminal.foreign_out(&what)),
        _ => terminal.foreign_out(&what),
    };
    format!("{time} {thread} {} {what}\n", event.caller.actor)
}

/// Renders an event with its position as JSON on one line.
pub fn json(event: &Event) -> String {
    let mut value = serde_json::to_value(event).unwrap_or(Value::Null);
    if let Some(map) = value.as_object_mut() {
        map.insert("position".to_owned(), event.position.into());
        map.remove("prev");
    }
    value.to_string()
}

fn ending(id: &str) -> String {
    pentad_model::text::suffix(id, 8).to_owned()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn summary(body: &EventBody) -> String {
    match body {
        EventBody::Called { verb, arguments, .. } => {
            let subject = ["address", "tool", "recipe", "title", "brief"]
                .iter()
                .find_map(|key| arguments.get(key)?.as_str())
                .unwrap_or("");
            format!("{verb} {subject}")
        }
        EventBody::Intent { act, .. } => format!("about to {act}"),
        EventBody::Returned {
            status, text, bytes, ..
        } => {
            let status = match status {
                Status::Ok => "ok",
                Status::Failed => "failed",
                Status::Refused => "refused",
                Status::Waiting => "waiting",
            };
            format!("{status} ({bytes} bytes) {text}")
        }
        EventBody::RunStarted { title } => format!("run started: {title}"),
        EventBody::RunStatus { status, error } => match error {
            Some(error) => format!("run {}: {}", status.word(), error.message),
            None => format!("run {}", status.word()),
        },
        EventBody::PlanSet { plan } => {
            let open = plan.open_steps().count();
            format!("plan of {} steps, {open} open", plan.steps.len())
        }
        EventBody::Promoted { tool, .. } => format!("contract shown: {tool}"),
        EventBody::Approval { approval, state, act } => {
            format!(
                "approval {} {}: {act}",
                ending(&approval.to_string()),
                state.word()
            )
        }
        EventBody::Log { level, source, text } => format!("[{level}] {source}: {text}"),
        EventBody::Note { text } => text.clone(),
    }
}
