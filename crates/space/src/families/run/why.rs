//! Why a run stands where it stands, on one screen.

use std::collections::BTreeSet;

use pentad_model::Timestamp;
use pentad_model::outcome::Product;
use pentad_model::refusal::Refusal;
use pentad_model::run::{Run, RunStatus};
use pentad_model::step::{Command, Step, StepBody};
use pentad_program::{RunFilter, RunStore, Store, StoreError, Wait};
use serde_json::{Value, json};

use super::{journal, record, steps, waits};
use crate::families::events::Detail;
use crate::show;
use crate::trouble::from_store;

/// Steps that are looked at, from the last one back, and those that are shown.
const LOOKED_AT: u64 = 500;
const SHOWN: usize = 8;
/// Runs in the queue that are counted.
const QUEUE: usize = 1_000;
/// Acts and waits that are told.
const TOLD: usize = 10;

/// What is known about where a run stands.
struct Standing {
    /// Its last steps.
    steps: Vec<Step>,
    waits: Vec<Wait>,
    /// Runs that are claimed before it.
    ahead: usize,
    /// Runs at work in the whole home.
    at_work: u64,
}

impl Standing {
    async fn of(store: &dyn Store, runs: Option<&dyn RunStore>, run: &Run) -> Result<Self, StoreError> {
        let mut standing = Self {
            steps: Vec::new(),
            waits: Vec::new(),
            ahead: 0,
            at_work: 0,
        };
        if let Some(runs) = runs {
            let last = journal::steps_up_to(runs, run, store.head().await?).await?;
            let after = last.saturating_sub(LOOKED_AT);
            standing.steps = runs.steps(run.id, after, LOOKED_AT as usize).await?.steps;
            if !run.status.is_settled() {
                standing.waits = runs.waits(run.id).await?;
            }
            if run.status == RunStatus::Queued {
                standing.at_work = runs.counts(None).await?.running;
            }
        }
        if run.status == RunStatus::Queued {
            let older = RunFilter {
                status: Some(RunStatus::Queued.word().to_owned()),
                before: Some(run.id),
                limit: QUEUE,
                ..RunFilter::default()
            };
            standing.ahead = store.runs(older).await?.len();
        }
        Ok(standing)
    }

    /// Returns the commands whose acts are being done.
    fn acting(&self) -> Vec<(&Command, Timestamp)> {
        let completed: BTreeSet<u32> = self
            .steps
            .iter()
            .filter_map(|step| match step.body {
                StepBody::Completed { position, .. } => Some(position),
                _ => None,
            })
            .collect();
        let waits: BTreeSet<u32> = self.waits.iter().map(|wait| wait.position).collect();
        self.steps
            .iter()
            .filter_map(|step| match &step.body {
                StepBody::Command(command) => Some((command, step.at)),
                _ => None,
            })
            .filter(|(command, _)| {
                !completed.contains(&command.position) && !waits.contains(&command.position)
            })
            .collect()
    }
}

pub(super) async fn read(
    store: &dyn Store,
    runs: Option<&dyn RunStore>,
    run: &Run,
    now: Timestamp,
) -> Result<Product, Refusal> {
    let address = format!("run:{}/why", run.id);
    let standing = Standing::of(store, runs, run)
        .await
        .map_err(|error| from_store(&address, &error))?;
    let mut text = record::headline(run, "Why ", &address);
    text.push_str(&reason(run, &standing, now));
    if !standing.steps.is_empty() {
        text.push_str("\nIts last steps:\n");
        let first = standing.steps.len().saturating_sub(SHOWN);
        for step in standing.steps.iter().skip(first) {
            text.push_str(&steps::markdown(step, Detail::Names));
        }
    }
    text.push_str(&format!(
        "\nNext: read run:{}/journal shows all that it did.\n",
        run.id
    ));
    let waits: Vec<Value> = standing
        .waits
        .iter()
        .map(|wait| {
            let mut value = serde_json::to_value(wait).unwrap_or_default();
            if let Some(map) = value.as_object_mut() {
                let since = waits::command_of(&standing.steps, wait.position).map(|(_, at)| at);
                map.insert("since".to_owned(), json!(since));
                map.insert("ends".to_owned(), json!(waits::ends(run, wait)));
            }
            value
        })
        .collect();
    let mut value = record::brief(run);
    if let Some(map) = value.as_object_mut() {
        map.insert("waits".to_owned(), Value::Array(waits));
        if run.status == RunStatus::Queued {
            map.insert("queuedBehind".to_owned(), json!(standing.ahead));
        }
        let shown = standing.steps.iter().rev().take(SHOWN).rev().map(Step::shown);
        map.insert("steps".to_owned(), Value::Array(shown.collect()));
    }
    Ok(Product::text(text, address).value(value))
}

fn reason(run: &Run, standing: &Standing, now: Timestamp) -> String {
    let since = format!(
        "{}, {} ago",
        show::time(run.updated_at),
        show::span(run.updated_at, now)
    );
    let took = show::span(run.created_at, run.updated_at);
    let message = run
        .error
        .as_ref()
        // What stands above already.
        .filter(|error| error.code != record::NONDETERMINISTIC)
        .map_or_else(String::new, |error| {
            format!(" {}", show::line(&error.message, 2000))
        });
    match run.status {
        RunStatus::Queued => queued(run, standing, &since),
        RunStatus::Running => at_work(run, standing, &since, now),
        RunStatus::Waiting(_) => waiting(run, standing, now),
        RunStatus::Succeeded => match run.output.as_ref().and_then(|output| output.get("continuedAs")) {
            Some(next) => {
                let next = next.as_str().unwrap_or_default();
                format!("It goes on as run:{next}, under the same name, since {since}.\n")
            }
            None => format!("It ended well at {since}, and took {took}.\n"),
        },
        RunStatus::Failed => format!(
            "It failed at {since}, after {took}.{message}\n{}",
            again(run, "Start it again")
        ),
        RunStatus::Canceled => format!(
            "Somebody asked that it end, and it ended at {since}, after {took}.{message}\n{}",
            again(run, "Start it again")
        ),
        RunStatus::Lost => format!(
            "It is lost since {since}: whoever executed it is gone. What it had begun may have happened, and nobody \
             knows how far it came.{message}\n{}",
            again(run, "Look at what it changed first; then start it again")
        ),
    }
}

/// Returns how a run that has ended is started again.
fn again(run: &Run, begin: &str) -> String {
    if run.terms.program.is_empty() {
        return "It was a verb that somebody invoked: who wants it again invokes it again.\n".to_owned();
    }
    let request = json!({"address": format!("run:{}", run.id), "options": {"retry": true}});
    format!("{begin} from its beginning with write {request}.\n")
}

fn queued(run: &Run, standing: &Standing, since: &str) -> String {
    let at_work = standing.at_work;
    let place = match standing.ahead {
        0 => "It is the next in the queue".to_owned(),
        QUEUE => format!("It is queued behind {QUEUE} others or more"),
        1 => "It is queued behind 1 other".to_owned(),
        ahead => format!("It is queued behind {ahead} others"),
    };
    let begun = if standing.steps.is_empty() {
        "it begins"
    } else {
        "it goes on where its journal ends"
    };
    let mut text = format!("{place}, since {since}; {begun} when a place is free ({at_work} at work).\n");
    if run.canceling {
        text.push_str("It is asked to end, and ends when everything below it has.\n");
    }
    text
}

fn at_work(run: &Run, standing: &Standing, since: &str, now: Timestamp) -> String {
    let mut text = format!("It is at work since {since}.\n");
    if run.canceling {
        text.push_str("It is asked to end, and ends when what it does has ended.\n");
    }
    let acting = standing.acting();
    for (command, at) in acting.iter().take(TOLD) {
        let label = if command.label.is_empty() {
            show::json(&command.asked, 120)
        } else {
            format!("'{}'", show::line(&command.label, 120))
        };
        text.push_str(&format!(
            "- #{} {} {label}, for {}\n",
            command.position,
            command.kind.word(),
            show::span(*at, now)
        ));
    }
    if acting.len() > TOLD {
        text.push_str(&format!("- {} more acts\n", acting.len() - TOLD));
    }
    if !standing.waits.is_empty() {
        text.push_str("Beside that:\n");
        text.push_str(&open(run, standing, now));
    }
    text
}

fn waiting(run: &Run, standing: &Standing, now: Timestamp) -> String {
    let mut text = if run.canceling {
        "It is asked to end, and ends when everything below it has.\n".to_owned()
    } else {
        String::new()
    };
    if standing.waits.is_empty() {
        text.push_str(&format!(
            "It waits since {}; it has its answer and goes on.\n",
            show::time(run.updated_at)
        ));
        return text;
    }
    text.push_str("It goes on when one of these has come:\n");
    text.push_str(&open(run, standing, now));
    text
}

/// Returns the open waits with how long they have been.
fn open(run: &Run, standing: &Standing, now: Timestamp) -> String {
    let shown: Vec<Wait> = standing.waits.iter().take(TOLD).cloned().collect();
    let mut text = waits::lines(run, &shown, |wait| {
        let since = waits::command_of(&standing.steps, wait.position).map_or(run.updated_at, |(_, at)| at);
        Some(format!("{} ({} ago)", show::time(since), show::span(since, now)))
    });
    if standing.waits.len() > TOLD {
        text.push_str(&format!("- {} more waits\n", standing.waits.len() - TOLD));
    }
    text
}
