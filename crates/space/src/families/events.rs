//! Events of the journal for people and models.

use pentad_model::event::{Event, EventBody};
use pentad_model::outcome::Status;
use pentad_model::run::{RunError, RunStatus};
use serde_json::{Value, json};

use crate::show;

/// Bytes of one input or result that a full rendering shows.
const FULL_BYTES: usize = 4096;

/// How much of the verbs' inputs and results is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    Names,
    Full,
}

/// Returns one event as text, under its number in its thread: a line, and with full detail a block.
pub(super) fn markdown(event: &Event, detail: Detail) -> String {
    numbered(event, event.seq, detail)
}

/// Returns one event as text, under its place in the journal.
pub(super) fn placed(event: &Event, detail: Detail) -> String {
    numbered(event, event.position, detail)
}

fn numbered(event: &Event, number: u64, detail: Detail) -> String {
    let actor = show::caller(&event.caller);
    let (headline, block) = body(&event.body, detail);
    let run = match (&event.run, &event.body) {
        (Some(run), EventBody::RunStarted { .. } | EventBody::RunStatus { .. }) => format!(" (run:{run})"),
        _ => String::new(),
    };
    format!(
        "[{number}] {} {actor} {headline}{run}\n{block}",
        show::time(event.at)
    )
}

fn body(body: &EventBody, detail: Detail) -> (String, String) {
    let full = |text: &str, language: &str| match detail {
        Detail::Full => show::fenced(
            &pentad_model::text::excerpt(&pentad_model::text::visible(text), FULL_BYTES),
            language,
        ),
        Detail::Names => String::new(),
    };
    match body {
        EventBody::Called { verb, arguments, .. } => {
            let json = serde_json::to_string_pretty(arguments).unwrap_or_default();
            (format!("→ {verb}{}", target(arguments)), full(&json, "json"))
        }
        EventBody::Returned {
            status, text, bytes, ..
        } => {
            let first = match detail {
                Detail::Names => show::line(
                    text.lines().find(|line| !line.trim().is_empty()).unwrap_or(""),
                    120,
                ),
                Detail::Full => String::new(),
            };
            let colon = if first.is_empty() { "" } else { ": " };
            let headline = format!("← {}, {}{colon}{first}", status_word(*status), show::size(*bytes));
            let block = if text.is_empty() {
                String::new()
            } else {
                full(text, "")
            };
            (headline, block)
        }
        EventBody::Intent { act, .. } => (format!("is about to act: {}", show::code(act)), String::new()),
        EventBody::RunStarted { title } => (
            format!("started a run: {}", show::line(title, 200)),
            String::new(),
        ),
        EventBody::RunStatus { status, error } => (
            format!("run is {}{}", status_of(*status), error_of(error.as_ref())),
            String::new(),
        ),
        EventBody::PlanSet { plan } => {
            let open = plan.open_steps().count();
            let headline = format!("set the plan: {} steps, {open} open", plan.steps.len());
            (headline, full(&plan.to_markdown(), "markdown"))
        }
        EventBody::Promoted { tool, .. } => (format!("learnt the tool {}", show::code(tool)), String::new()),
        EventBody::Approval { approval, state, act } => (
            format!(
                "approval of {} is {} (approval:{approval})",
                show::code(act),
                state.word()
            ),
            String::new(),
        ),
        EventBody::Log { level, source, text } => (
            format!(
                "{} {}: {}",
                show::line(level, 20),
                show::line(source, 80),
                show::line(text, 400)
            ),
            String::new(),
        ),
        EventBody::Note { text } => (format!("noted: {}", show::line(text, 400)), String::new()),
    }
}

/// Returns what a verb was about: the address, the tool, the title.
fn target(arguments: &Value) -> String {
    ["address", "tool", "recipe", "title"]
        .iter()
        .find_map(|key| arguments.get(key).and_then(Value::as_str))
        .map_or_else(String::new, |text| format!(" {}", show::line(text, 200)))
}

const fn status_word(status: Status) -> &'static str {
    match status {
        Status::Ok => "ok",
        Status::Failed => "failed",
        Status::Refused => "refused",
        Status::Waiting => "waiting",
    }
}

/// Returns a run's status with what it waits for.
pub(super) fn status_of(status: RunStatus) -> String {
    match status {
        RunStatus::Waiting(reason) => format!("waiting for {}", reason.word()),
        other => other.word().to_owned(),
    }
}

/// Returns `: code, message`, or nothing.
pub(super) fn error_of(error: Option<&RunError>) -> String {
    error.map_or_else(String::new, |error| {
        format!(": {} ({})", show::line(&error.message, 300), error.code)
    })
}

/// Returns the same in a few words, for lists in which the whole sentence is too much.
pub(super) fn short_error_of(error: Option<&RunError>) -> String {
    error.map_or_else(String::new, |error| {
        let sentence = pentad_model::text::first_sentence(&error.message, 120);
        format!(
            ": {} ({})",
            show::line(&sentence, 120),
            show::line(&error.code, 40)
        )
    })
}

/// Returns an event as a value: what the journal keeps, with its position, without the chain's hash.
pub(super) fn value(event: &Event) -> Value {
    let mut value = serde_json::to_value(event).unwrap_or_else(|_| json!({"seq": event.seq}));
    if let Some(map) = value.as_object_mut() {
        map.remove("prev");
        map.insert("position".to_owned(), json!(event.position));
    }
    value
}
