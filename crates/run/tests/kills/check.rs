//! Comparing what a journal tells with what the witness saw.

use std::collections::{BTreeMap, BTreeSet};

use pentad_model::run::RunStatus;
use pentad_model::step::{Command, CommandKind, Completion, Repeat, StepBody};
use serde_json::{Value, json};

use crate::scenario::{Scenario, Told, ToldRun};

/// Fails unless every promise was kept: each run ended once, each act that may be repeated was done, none that may not
/// was done twice, and whatever nobody knows is told as such.
pub fn check(scenario: &Scenario, told: &Told, witness: &[&str]) -> Result<(), String> {
    let all = || told.runs.iter();
    same("runs that have not ended", told.live, 0)?;
    same("the thread's chain", told.broken, None)?;
    let runs = all().count();
    if !scenario.is_canceled() {
        same("runs", runs, scenario.expected)?;
    } else if runs > scenario.expected {
        return Err(format!("{runs} runs, of {}", scenario.expected));
    }
    let mut acts = BTreeMap::new();
    for run in all() {
        let may_be_canceled = scenario.is_canceled();
        whole(run, may_be_canceled)
            .map_err(|why| format!("run {} ({}): {why}", run.run.id, run.run.terms.program))?;
        acts.extend(acts_of(run));
    }
    witnessed(&acts, witness)?;
    for run in all().filter(|run| run.run.status == RunStatus::Succeeded) {
        result(scenario, told, run).map_err(|why| format!("run {}: {why}", run.run.id))?;
    }
    Ok(())
}

#[allow(clippy::needless_pass_by_value, reason = "read better at every call")]
fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: T, wanted: T) -> Result<(), String> {
    if found == wanted {
        Ok(())
    } else {
        Err(format!("{what}: {found:?}, not {wanted:?}"))
    }
}

fn commands(run: &ToldRun) -> impl Iterator<Item = &Command> {
    run.steps.iter().filter_map(|step| match &step.body {
        StepBody::Command(command) => Some(command),
        _ => None,
    })
}

fn completions(run: &ToldRun) -> impl Iterator<Item = (u32, &Completion)> {
    run.steps.iter().filter_map(|step| match &step.body {
        StepBody::Completed { position, completion } => Some((*position, completion)),
        _ => None,
    })
}

/// Checks one run's record and journal: it ended once, and each command has one completion; one that was canceled may
/// have commands without, and may not have begun.
fn whole(run: &ToldRun, may_be_canceled: bool) -> Result<(), String> {
    let canceled = may_be_canceled && run.run.status == RunStatus::Canceled;
    if !canceled {
        same("status", run.run.status, RunStatus::Succeeded)?;
    }
    same("settlements", run.settlements, 1)?;
    same("its chain", run.broken, None)?;
    if canceled && run.steps.is_empty() {
        return Ok(());
    }
    let started = |body: &StepBody| matches!(body, StepBody::Started);
    same(
        "the first step",
        run.steps.first().is_some_and(|step| started(&step.body)),
        true,
    )?;
    same(
        "beginnings",
        run.steps.iter().filter(|step| started(&step.body)).count(),
        1,
    )?;
    let asked: Vec<u32> = commands(run).map(|command| command.position).collect();
    let places: Vec<u32> = (0..).take(asked.len()).collect();
    same("the commands' places", &asked, &places)?;
    let mut given: Vec<u32> = completions(run).map(|(position, _)| position).collect();
    given.sort_unstable();
    if canceled {
        let mut once = given.clone();
        once.dedup();
        return same("what was given to the program", given, once);
    }
    same("what was given to the program", given, places)
}

/// What is known about an act.
#[derive(Debug)]
struct ActRecord {
    repeat: Repeat,
    interrupted: bool,
    /// Nobody was told how it ended: its run was canceled.
    untold: bool,
}

fn acts_of(run: &ToldRun) -> BTreeMap<String, ActRecord> {
    let ends: BTreeMap<u32, &Completion> = completions(run).collect();
    let acts = commands(run).filter(|command| command.kind == CommandKind::Step);
    acts.map(|command| {
        let interrupted = ends.get(&command.position) == Some(&&Completion::Interrupted);
        let record = ActRecord {
            repeat: command.repeat,
            interrupted,
            untold: !ends.contains_key(&command.position),
        };
        (format!("{}-{}", run.run.id, command.position), record)
    })
    .collect()
}

fn witnessed(acts: &BTreeMap<String, ActRecord>, witness: &[&str]) -> Result<(), String> {
    let mut times = BTreeMap::<&str, u32>::new();
    for key in witness {
        *times.entry(key).or_default() += 1;
    }
    for (key, times) in &times {
        let Some(act) = acts.get(*key) else {
            return Err(format!("the act {key} was done and stands nowhere"));
        };
        if *times > 1 && act.repeat == Repeat::Never {
            return Err(format!("the act {key} was done {times} times"));
        }
    }
    for (key, act) in acts {
        match act.repeat {
            _ if act.untold => {}
            Repeat::Never if act.interrupted => {}
            _ if act.interrupted => {
                return Err(format!(
                    "the act {key} may be repeated and is told as interrupted"
                ));
            }
            _ if !times.contains_key(key.as_str()) => {
                return Err(format!("the act {key} is told as done and was not"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Checks what a run returned.
fn result(scenario: &Scenario, told: &Told, run: &ToldRun) -> Result<(), String> {
    let input = &run.run.input;
    match run.run.terms.program.as_str() {
        "sequence" | "commands" => {
            let interrupted = acts_of(run).values().filter(|act| act.interrupted).count();
            let wanted = json!({"steps": input["steps"], "interrupted": interrupted});
            same("the result", &run.output, &wanted)?;
            same("acts", json!(acts_of(run).len()), input["steps"].clone())
        }
        "fan-out" => fan_out(told, run),
        "waiter" => {
            let came = run.output["events"].as_array().map_or(&[][..], Vec::as_slice);
            same("waits", json!(came.len()), input["count"].clone())?;
            // A limit that passed first gives nothing, and takes no event from the next wait.
            let events: Vec<&Value> = came.iter().filter(|event| !event.is_null()).collect();
            let in_order = (0..).zip(&events).all(|(number, event)| **event == json!(number));
            same("the events' order", in_order.then_some(&events), Some(&events))?;
            let all = input["limit_ms"].is_null();
            same(
                "events",
                all.then_some(scenario.sent()),
                all.then_some(events.len() as u64),
            )
        }
        "sleeper" => {
            let (times, least) = (&input["times"], number(&input["times"]) * number(&input["ms"]));
            same("sleeps", &run.output["times"], times)?;
            let slept = number(&run.output["ms"]);
            same("enough sleep", (slept >= least).then_some(slept), Some(slept))
        }
        "talker" => {
            same("the lines", json!(run.lines), input["lines"].clone())?;
            same("the result", &run.output["lines"], &input["lines"])
        }
        "counter" => counter(told, run),
        other => Err(format!("unknown program {other}")),
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(u64::MAX)
}

/// Each child was told of once, and there are no others.
fn fan_out(told: &Told, run: &ToldRun) -> Result<(), String> {
    // A child that goes on as another run has ended when the last of them has.
    let below = || {
        let own = |child: &&ToldRun| child.run.parent == Some(run.run.id);
        let last = |child: &&ToldRun| next_of(told, child).is_none();
        told.runs.iter().filter(own).filter(last)
    };
    let children = number(&run.run.input["children"]);
    same(
        "the children's ends",
        &run.output["ends"],
        &json!({"succeeded": children}),
    )?;
    same("children", json!(below().count()), json!(children))?;
    let joined: Vec<Value> = commands(run)
        .filter(|command| command.kind == CommandKind::Join)
        .filter_map(|command| completions(run).find(|(position, _)| *position == command.position))
        .map(|(_, end)| match end {
            Completion::Done(end) => end["run"].clone(),
            other => json!(format!("{other:?}")),
        })
        .collect();
    let told_of: BTreeSet<String> = joined.iter().map(Value::to_string).collect();
    let wanted: BTreeSet<String> = below().map(|child| json!(child.run.id).to_string()).collect();
    if run.output["stored"].is_null() {
        same("ends that were told", joined.len(), told_of.len())?;
        same("children that were told of", told_of, wanted)?;
    }
    Ok(())
}

fn next_of<'a>(told: &'a Told, run: &ToldRun) -> Option<&'a ToldRun> {
    told.runs
        .iter()
        .find(|next| next.run.terms.continues == Some(run.run.id))
}

/// The generations follow one another, and have done everything together.
fn counter(told: &Told, run: &ToldRun) -> Result<(), String> {
    match next_of(told, run) {
        Some(next) => same("the next", &run.output, &json!({"continuedAs": next.run.id})),
        None => {
            let until = &run.run.input["until"];
            same("the count", &run.output["done"], until)?;
            let past = |run: &&ToldRun| {
                told.runs
                    .iter()
                    .find(|past| run.run.terms.continues == Some(past.run.id))
            };
            let line = std::iter::successors(Some(run), past);
            let acts: usize = line.map(|run| acts_of(run).len()).sum();
            same("acts of all generations", json!(acts), until.clone())
        }
    }
}
