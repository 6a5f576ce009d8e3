//! Detached runs whose keeper, spawner, or both are killed at random moments: each ends settled, none acts twice.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use std::collections::BTreeMap;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use common::dice::{Dice, seed};
use common::{END, Place, Reading, spawner_of};
use pentad_model::run::{Run, RunStatus};
use pentad_model::{EventBody, RunId};
use pentad_program::{RunFilter, Store};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Rounds; `PENTAD_TEST_LONG` multiplies them.
const ROUNDS: u64 = 10;
const LONG: u64 = 10;
/// Runs that are delegated in a round, and how many of them are executed at once.
const RUNS: u64 = 6;
const ACTIVE: usize = 3;
/// Longest time between the first delegation and the kill, in milliseconds.
const LATEST: u64 = 600;

/// Who is killed.
#[derive(Debug, Clone, Copy)]
enum Victim {
    Keeper,
    Spawner,
    Both,
}

impl Victim {
    /// Returns how many runs are cut off at most. A keeper that lives a moment longer than its spawner has others begun.
    const fn interrupts(self) -> usize {
        match self {
            Self::Keeper | Self::Spawner => ACTIVE,
            Self::Both => 2 * ACTIVE,
        }
    }
}

/// Everybody has their turn.
const fn victim(round: u64) -> Victim {
    match round % 3 {
        0 => Victim::Keeper,
        1 => Victim::Spawner,
        _ => Victim::Both,
    }
}

fn kill(pid: i32) {
    // It may have ended by itself.
    let _gone = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
}

/// A home whose recipe `append` takes a while, acts, and takes another while.
fn place() -> Place {
    let place = Place::new();
    place.configure(&format!("\n[limits]\nactive_runs = {ACTIVE}\n"));
    let (script, effects) = (place.path("append.sh"), place.path("effects"));
    std::fs::write(&script, "sleep \"$2\"\necho \"$1\" >>\"$3\"\nsleep \"$2\"\n").unwrap();
    let template = format!("sh {} {{tag}} {{hold}} {}", script.display(), effects.display());
    place.recipe("append", &template, &["tag", "hold"]);
    place
}

fn delegate(place: &Place, tag: &str, hold: &str) -> Child {
    let words = ["delegate", "--recipe", "append", "--detach", "--json"];
    let pairs = [format!("tag={tag}"), format!("hold={hold}")];
    place
        .pentad(&words)
        .args(pairs)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Returns the run that a delegation was answered with, if it was.
fn answered(delegation: Child) -> Option<RunId> {
    let output = delegation.wait_with_output().unwrap();
    let outcome: Value = serde_json::from_slice(&output.stdout).ok()?;
    let value = outcome.get("value").unwrap_or(&outcome);
    let id = value.get("runId").and_then(Value::as_str)?;
    Some(id.parse().unwrap())
}

fn runs(reading: &Reading) -> Vec<Run> {
    reading.ask(async |store: &dyn Store| {
        let filter = RunFilter {
            limit: 100_000,
            ..RunFilter::default()
        };
        let runs = store.runs(filter).await.unwrap();
        // Verbs that somebody invoked have no program.
        runs.into_iter()
            .filter(|run| !run.terms.program.is_empty())
            .collect()
    })
}

/// Waits until every run has ended.
fn settled(reading: &Reading) -> Vec<Run> {
    let until = Instant::now() + END;
    loop {
        let head = reading.ask(async |store| store.head().await.unwrap());
        let all = runs(reading);
        let Some(live) = all.iter().find(|run| !run.status.is_settled()) else {
            return all;
        };
        assert!(Instant::now() < until, "run:{} has not ended: {live:?}", live.id);
        // What it waits for is a change; the limit above is for those that wait for nothing.
        reading.ask(async |store| {
            let _changed = tokio::time::timeout(Duration::from_secs(1), store.changed(head)).await;
        });
    }
}

fn round(place: &Place, dice: &mut Dice, number: u64, victim: Victim) -> Vec<RunId> {
    let started: Vec<Child> = (0..RUNS)
        .map(|n| {
            let hold = format!("0.{:02}", dice.roll(30));
            delegate(place, &format!("{number}-{n}"), &hold)
        })
        .collect();
    // The kill is to come at no particular point.
    std::thread::sleep(Duration::from_millis(dice.roll(LATEST)));
    // The first round's keeper may not be there yet.
    if place.path("home/state/keeper.lock").exists()
        && let Ok(keeper) = std::fs::read_to_string(place.path("home/state/keeper.lock"))
        && let Ok(keeper) = keeper.trim().parse::<i32>()
    {
        let spawner = spawner_of(keeper.unsigned_abs()).map(|pid| pid.as_raw_nonzero().get());
        let victims = match victim {
            Victim::Keeper => [Some(keeper), None],
            Victim::Spawner => [spawner, None],
            Victim::Both if dice.roll(2) == 0 => [Some(keeper), spawner],
            Victim::Both => [spawner, Some(keeper)],
        };
        victims.into_iter().flatten().for_each(kill);
    }
    started.into_iter().filter_map(answered).collect()
}

fn check(place: &Place, reading: &Reading, acknowledged: &[RunId]) -> BTreeMap<&'static str, u32> {
    let all = settled(reading);
    let effects = std::fs::read_to_string(place.path("effects")).unwrap_or_default();
    let mut times = BTreeMap::<&str, u32>::new();
    for tag in effects.lines() {
        *times.entry(tag).or_default() += 1;
    }
    let mut settlements = BTreeMap::<RunId, u32>::new();
    for event in reading.whole() {
        if let (EventBody::RunStatus { status, .. }, Some(run)) = (&event.body, event.run)
            && status.is_settled()
        {
            *settlements.entry(run).or_default() += 1;
        }
    }
    for id in acknowledged {
        assert!(
            all.iter().any(|run| run.id == *id),
            "run:{id} was answered and is gone"
        );
    }
    let mut ends = BTreeMap::new();
    let mut bad = BTreeMap::<&str, usize>::new();
    for run in &all {
        let tag = run.input["input"]["tag"].as_str().unwrap();
        let done = times.get(tag).copied().unwrap_or_default();
        assert_eq!(
            settlements.get(&run.id),
            Some(&1),
            "run:{} ended once: {run:?}",
            run.id
        );
        match run.status {
            RunStatus::Succeeded => assert_eq!(done, 1, "{tag}: {run:?}"),
            RunStatus::Failed | RunStatus::Lost => assert!(done <= 1, "{tag} was done {done} times"),
            other => panic!("{tag} ended as {other:?}: {run:?}"),
        }
        let (round, _) = tag.split_once('-').unwrap();
        *bad.entry(round).or_default() += usize::from(run.status != RunStatus::Succeeded);
        *ends.entry(run.status.word()).or_default() += 1;
    }
    // What was queued had not begun, and is executed by whoever comes next.
    for (round, times) in &bad {
        let most = victim(round.parse().unwrap()).interrupts();
        assert!(
            *times <= most,
            "round {round}: {times} ended badly, and {most} were executed"
        );
    }
    ends
}

#[test]
fn kill_d02_detached_runs_end_settled_and_act_at_most_once() {
    let seed = seed();
    let rounds = match std::env::var_os("PENTAD_TEST_LONG") {
        Some(_) => ROUNDS * LONG,
        None => ROUNDS,
    };
    let (place, mut dice) = (place(), Dice(seed));
    let mut acknowledged = Vec::new();
    let mut ends = BTreeMap::new();
    for number in 0..rounds {
        let victim = victim(number);
        acknowledged.extend(round(&place, &mut dice, number, victim));
        // Whoever comes next brings a keeper, which goes on with what is there.
        let next = place.pentad(&["read", "~/self"]).output().unwrap();
        assert!(next.status.success(), "{}", String::from_utf8_lossy(&next.stderr));
        let reading = Reading::of(&place);
        ends = check(&place, &reading, &acknowledged);
        reading.close();
        eprintln!(
            "round {number}: {victim:?} killed, {} answered, {ends:?}",
            acknowledged.len()
        );
    }
    assert!(
        ends.get("succeeded")
            .is_some_and(|times| u64::from(*times) > rounds),
        "too little happened: {ends:?}"
    );
    place.assert_nobody_is_left("the keeper ended");
}
