//! A run's record and the list of its artifacts.

use std::collections::BTreeMap;

use pentad_model::Timestamp;
use pentad_model::outcome::Product;
use pentad_model::run::{OnLoss, Run, RunStatus, Stored};
use pentad_program::{RunStore, StoreError, Wait};
use serde_json::{Value, json};

use super::waits;
use crate::families::events::{error_of, short_error_of, status_of};
use crate::show;

/// Names of streams; everything else that is stored is an artifact.
pub(super) const STREAMS: [&str; 3] = ["output", "stdout", "stderr"];

/// Children that a record shows.
const CHILDREN: usize = 20;
/// Children that are counted.
const COUNTED: usize = 2_000;

/// What of a run stands outside its record.
pub(super) struct Around {
    /// What it waits for.
    waits: Vec<Wait>,
    /// Its children, as many as are counted; one more when there are more.
    children: Vec<Run>,
}

impl Around {
    /// Reads it.
    pub(super) async fn of(runs: &dyn RunStore, run: &Run) -> Result<Self, StoreError> {
        let waits = if run.status.is_settled() {
            Vec::new()
        } else {
            runs.waits(run.id).await?
        };
        let children = runs.children(run.id, COUNTED + 1).await?;
        Ok(Self { waits, children })
    }
}

/// Returns what every view of a run begins with.
pub(super) fn headline(run: &Run, before: &str, address: &str) -> String {
    let asked = if run.canceling && !run.status.is_settled() {
        " · asked to end"
    } else {
        ""
    };
    let head = format!(
        "# {before}{}\n\n{address} · {}{asked}",
        show::line(&run.title, 200),
        status_of(run.status)
    );
    match &run.error {
        Some(error) if error.code == NONDETERMINISTIC => {
            format!("{head}: {NONDETERMINISTIC}\n\n{}\n", stopped(&error.message))
        }
        error => format!("{head}{}\n\n", error_of(error.as_ref())),
    }
}

/// The code of runs whose program asked for something else than is recorded.
pub(super) const NONDETERMINISTIC: &str = "nondeterministic";

/// Returns recorded against attempted, which the message has in one sentence.
fn stopped(message: &str) -> String {
    let sides = message.split_once(" is recorded as ").and_then(|(before, rest)| {
        let (recorded, rest) = rest.split_once(", and the program now asks for ")?;
        let (attempted, _) = rest.rsplit_once(". The program ").unwrap_or((rest, ""));
        let command = before.rsplit(' ').next().unwrap_or("?");
        Some(format!(
            "**Stopped: its program asks for something else than is recorded at #{}.**\n- recorded: {}\n- attempted: \
             {}\n",
            show::line(command, 20),
            show::line(recorded, 400),
            show::line(attempted, 400)
        ))
    });
    sides.unwrap_or_else(|| format!("{}\n", show::line(message, 2000)))
}

/// Returns a run's record.
pub(super) fn record(run: &Run, around: Option<&Around>, now: Timestamp) -> Product {
    let address = format!("run:{}", run.id);
    let mut text = headline(run, "", &address);
    text.push_str(&facts(run, now));
    if let Some(schema) = &run.terms.output {
        text.push_str("\nIt owes a result that fits:\n");
        text.push_str(&json_block(schema));
    }
    if let Some(around) = around {
        if !around.waits.is_empty() {
            text.push_str("\nWaits:\n");
            text.push_str(&waits::lines(run, &around.waits, |_| None));
        }
        text.push_str(&children(&around.children));
    }
    text.push_str("\nInput:\n");
    text.push_str(&json_block(&run.input));
    if let Some(output) = &run.output {
        text.push_str("\nResult:\n");
        text.push_str(&json_block(output));
    }
    let streams: Vec<String> = run
        .stored
        .iter()
        .map(|(name, stored)| line(&address, name, stored))
        .collect();
    if !streams.is_empty() {
        text.push_str("\nKept:\n");
        text.push_str(&streams.concat());
    }
    text.push_str(&format!(
        "\nNext: read {address}/journal shows what it did, step by step"
    ));
    if run.status == RunStatus::Succeeded {
        text.push_str(".\n");
    } else {
        text.push_str(&format!("; read {address}/why says why it stands there.\n"));
    }
    let mut value = serde_json::to_value(run).unwrap_or(Value::Null);
    if let (Some(around), Some(map)) = (around, value.as_object_mut()) {
        map.insert("waits".to_owned(), json!(around.waits));
        let shown = around.children.iter().take(CHILDREN).map(brief);
        map.insert("children".to_owned(), Value::Array(shown.collect()));
        let more = around.children.len().saturating_sub(CHILDREN);
        map.insert("moreChildren".to_owned(), json!(more));
    }
    Product::text(text, address).value(value)
}

/// Returns the facts of a run, a line each.
fn facts(run: &Run, now: Timestamp) -> String {
    let mut text = String::new();
    let mut fact = |name: &str, value: &str| text.push_str(&format!("- {name}: {value}\n"));
    if let Some(name) = &run.name {
        fact("name", name.as_str());
    }
    if let Some(tool) = &run.tool {
        let version = run.tool_cid.as_deref().unwrap_or("unknown version");
        fact("tool", &format!("{} ({version})", show::code(tool)));
    }
    let terms = &run.terms;
    if !terms.program.is_empty() {
        let loss = match terms.on_loss {
            OnLoss::Lose => "it is lost with its executor",
            OnLoss::Resume => "it is resumed when its executor is gone",
        };
        fact("program", &format!("{}; {loss}", show::code(&terms.program)));
    }
    fact("thread", &format!("thread:{}", run.thread));
    if let Some(parent) = run.parent {
        let tie = if terms.awaited { ", which waits for it" } else { "" };
        fact("parent", &format!("run:{parent}{tie}"));
    }
    if let Some(root) = terms.root {
        let generations = match terms.depth {
            1 => "1 generation".to_owned(),
            more => format!("{more} generations"),
        };
        fact("tree", &format!("{generations} below run:{root}"));
    }
    if let Some(before) = terms.continues {
        fact("continues", &format!("run:{before}"));
    }
    if let Some(step) = &terms.plan_step {
        fact("step of the plan", &show::code(step));
    }
    let started = format!("{}, {}", show::caller(&run.caller), show::time(run.created_at));
    fact("started by", &started);
    fact("changed", &show::time(run.updated_at));
    if let Some(spent) = spent(run, now) {
        fact("used", &spent);
    }
    let grants: Vec<String> = run.grants.iter().map(ToString::to_string).collect();
    if grants.is_empty() {
        fact("grants", "none");
    } else {
        fact("grants", &grants.join(", "));
    }
    text
}

/// Returns what was used up, beside what may be; nothing for a run without limits that has used nothing.
fn spent(run: &Run, now: Timestamp) -> Option<String> {
    let (budget, usage) = (&run.terms.budget, &run.usage);
    let mut spent = Vec::new();
    let mut of = |used: u64, limit: Option<u64>, what: &str| match limit {
        Some(limit) => spent.push(format!("{used} of {limit} {what}")),
        None if used > 0 => spent.push(format!("{used} {what}")),
        None => {}
    };
    of(usage.tokens, budget.tokens, "tokens");
    of(usage.children, budget.children, "children");
    match budget.cost_micros {
        Some(limit) => spent.push(format!(
            "{} of {} US dollars",
            dollars(usage.cost_micros),
            dollars(limit)
        )),
        None if usage.cost_micros > 0 => spent.push(format!("{} US dollars", dollars(usage.cost_micros))),
        None => {}
    }
    if let Some(wall) = budget.wall_ms {
        let until = if run.status.is_settled() {
            run.updated_at
        } else {
            now
        };
        let most = Timestamp(i64::try_from(wall).unwrap_or(i64::MAX));
        spent.push(format!(
            "{} of {} since it was started",
            show::span(run.created_at, until),
            show::span(Timestamp(0), most)
        ));
    }
    if let Some(depth) = budget.depth {
        spent.push(format!("at most {depth} generations below it"));
    }
    (!spent.is_empty()).then(|| spent.join(", "))
}

fn dollars(micros: u64) -> String {
    let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    let cut = text.trim_end_matches('0');
    cut.strip_suffix('.').unwrap_or(cut).to_owned()
}

/// Returns the first children with their status, and how many more there are.
fn children(children: &[Run]) -> String {
    if children.is_empty() {
        return String::new();
    }
    let mut text = "\nChildren:\n".to_owned();
    for child in children.iter().take(CHILDREN) {
        text.push_str(&format!(
            "- run:{} {} · {}{}\n",
            child.id,
            show::line(&child.title, 120),
            status_of(child.status),
            short_error_of(child.error.as_ref())
        ));
    }
    let rest = children.get(CHILDREN..).unwrap_or_default();
    if !rest.is_empty() {
        let more = if children.len() > COUNTED {
            format!("more than {}", COUNTED - CHILDREN)
        } else {
            rest.len().to_string()
        };
        text.push_str(&format!("- {more} more: {}\n", tally(rest)));
    }
    text
}

/// Counts runs by their status.
pub(super) fn tally(runs: &[Run]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for run in runs {
        *counts.entry(run.status.word()).or_default() += 1;
    }
    let counted: Vec<String> = RunStatus::WORDS
        .iter()
        .filter_map(|word| counts.get(word).map(|count| format!("{count} {word}")))
        .collect();
    counted.join(", ")
}

/// Returns a run's place in lists as a value.
pub(super) fn brief(run: &Run) -> Value {
    json!({
        "id": run.id,
        "name": run.name,
        "title": run.title,
        "status": run.status,
        "error": run.error,
        "canceling": run.canceling,
        "actor": run.caller.actor,
        "createdAt": run.created_at,
        "updatedAt": run.updated_at,
    })
}

fn json_block(value: &Value) -> String {
    let json = serde_json::to_string_pretty(value).unwrap_or_default();
    show::fenced(&json, "json")
}

fn line(address: &str, name: &str, stored: &Stored) -> String {
    let at = match name {
        "output" => format!("{address}/output"),
        "stdout" | "stderr" => format!("{address}/output, options.stream \"{name}\""),
        _ => format!("{address}/artifacts/{name}"),
    };
    let cut = if stored.truncated {
        ", cut at the capture limit"
    } else {
        ""
    };
    format!(
        "- {name}: {}, {}{cut} · {at}\n",
        stored.mime,
        show::size(stored.bytes)
    )
}

pub(super) fn artifacts(run: &Run) -> Product {
    let address = format!("run:{}", run.id);
    let kept: Vec<(&String, &Stored)> = run
        .stored
        .iter()
        .filter(|(name, _)| !STREAMS.contains(&name.as_str()))
        .collect();
    let mut text = format!("# Artifacts of {address}\n\n");
    for (name, stored) in &kept {
        text.push_str(&line(&address, name, stored));
    }
    if kept.is_empty() {
        text.push_str(&format!(
            "None. Next: read {address}/output shows what it printed.\n"
        ));
    }
    let list: Vec<Value> = kept
        .iter()
        .map(|(name, stored)| {
            json!({
                "name": name,
                "address": format!("{address}/artifacts/{name}"),
                "size": stored.bytes,
                "mimeType": stored.mime,
                "truncated": stored.truncated,
            })
        })
        .collect();
    let at = format!("{address}/artifacts");
    let value = json!({"run": run.id, "artifacts": list});
    Product::text(text, at).value(value)
}
