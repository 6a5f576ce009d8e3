//! What a run waits for, in words, and what ends the wait.

use pentad_model::Timestamp;
use pentad_model::run::Run;
use pentad_model::step::{Command, Step, StepBody};
use pentad_program::{Wait, WaitFor};
use serde_json::{Map, Value, json};

use crate::show;

/// Returns what is waited for in a few words.
pub(super) fn short(what: &WaitFor, due: Option<Timestamp>) -> String {
    let until = due.map_or_else(String::new, |due| format!(" until {}", show::time(due)));
    match what {
        WaitFor::Timer => match due {
            Some(due) => show::time(due),
            None => "a moment".to_owned(),
        },
        WaitFor::Event { name } => format!("the event '{}'{until}", show::line(name, 80)),
        WaitFor::Child { run } => format!("the end of run:{run}{until}"),
        WaitFor::Approval { approval } => format!("approval:{approval}{until}"),
        WaitFor::Budget => format!("more budget{until}"),
        WaitFor::Env { names } => format!("the variables {}{until}", show::line(&names.join(", "), 200)),
    }
}

/// Returns what ends a wait; nothing where it ends by itself.
pub(super) fn ends(run: &Run, wait: &Wait) -> Option<String> {
    let write = |options: Value, content: Option<&str>| {
        let mut request = json!({"address": format!("run:{}", run.id), "options": options});
        if let (Some(map), Some(content)) = (request.as_object_mut(), content) {
            map.insert("content".to_owned(), json!(content));
        }
        format!("write {request}")
    };
    match &wait.what {
        WaitFor::Timer => None,
        WaitFor::Event { name } => {
            let send = write(json!({"signal": name}), Some("…"));
            Some(format!(
                "send it with {send}; content is its value, as JSON or text"
            ))
        }
        WaitFor::Child { run } => Some(format!("read run:{run}/why shows where it stands")),
        WaitFor::Approval { approval } => Some(format!(
            "read approval:{approval} shows the question; a person answers it with `pentad approvals grant {approval}` \
             or `pentad approvals deny {approval}`"
        )),
        WaitFor::Budget => {
            let give = write(json!({"answer": wait.position}), Some(&example(run).to_string()));
            Some(format!(
                "give more with {give}; each limit that is given takes the place of the old one"
            ))
        }
        WaitFor::Env { .. } => {
            let set = write(json!({"answer": wait.position}), None);
            Some(format!(
                "set them where `pentad` is run or with `pentad secret set`, then {set}; values never go into the \
                 journal"
            ))
        }
    }
}

/// Returns a budget that would do: each limit of the run doubled.
fn example(run: &Run) -> Value {
    let budget = &run.terms.budget;
    #[allow(clippy::cast_precision_loss)] // an example
    let scaled = |limit: Option<u64>, by: f64| limit.map(|n| json!(n as f64 * 2.0 / by));
    let doubled = |limit: Option<u64>| limit.map(|n| json!(n.saturating_mul(2)));
    let limits = [
        ("wallSeconds", scaled(budget.wall_ms, 1e3)),
        ("tokens", doubled(budget.tokens)),
        ("costUsd", scaled(budget.cost_micros, 1e6)),
        ("children", doubled(budget.children)),
    ];
    let given: Map<String, Value> = limits
        .into_iter()
        .filter_map(|(key, limit)| Some((key.to_owned(), limit?)))
        .collect();
    if given.is_empty() {
        return json!({"tokens": 100_000});
    }
    Value::Object(given)
}

/// Returns the lines of a run's open waits, each with what ends it, and with `since` how long it has been.
pub(super) fn lines(run: &Run, waits: &[Wait], since: impl Fn(&Wait) -> Option<String>) -> String {
    waits
        .iter()
        .map(|wait| {
            let what = short(&wait.what, wait.due);
            let until = if wait.what == WaitFor::Timer {
                "until"
            } else {
                "for"
            };
            let so_far = since(wait).map_or_else(String::new, |since| format!(", since {since}"));
            let ends = ends(run, wait).map_or_else(String::new, |ends| format!("; {ends}"));
            format!("- #{} waits {until} {what}{so_far}{ends}\n", wait.position)
        })
        .collect()
}

/// Returns the command that waits, when it is among these steps, and since when.
pub(super) fn command_of(steps: &[Step], position: u32) -> Option<(&Command, Timestamp)> {
    steps.iter().rev().find_map(|step| match &step.body {
        StepBody::Command(command) if command.position == position => Some((command, step.at)),
        _ => None,
    })
}
