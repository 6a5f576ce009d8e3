//! Every point of every scenario, and another one while the next host takes over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Instant;

use pentad_fail::Point;

use crate::process::Mode;
use crate::scenario::NAMES;
use crate::trial::{End, Fail, Trial};

/// Kills that have to happen.
const KILLS: usize = 900;
/// Passings of one point in one scenario that are tried; `PENTAD_TEST_LONG` takes all.
const PASSINGS: u64 = 7;
/// Trials at once: they mostly wait for processes to begin and end.
const AT_ONCE: usize = 4;

/// A scenario, and where its first two hosts fail.
type Job = (&'static str, [Fail; 2]);

pub fn test() {
    let began = Instant::now();
    let jobs = plan();
    let planned = jobs.len() * 2;
    let (kills, faults) = run_all(jobs);
    let killed: usize = kills.values().sum();
    println!(
        "{killed} kills at {} points ({planned} planned) in {} s",
        kills.len(),
        began.elapsed().as_secs()
    );
    for (point, times) in &kills {
        println!("  {point} {times}");
    }
    assert!(
        faults.is_empty(),
        "{} faults:\n{}",
        faults.len(),
        faults.join("\n")
    );
    assert!(killed >= KILLS, "only {killed} points were reached");
}

/// Runs each scenario once to learn which points it passes, and how often.
fn plan() -> Vec<Job> {
    let mut jobs: Vec<Job> = Vec::new();
    let mut reached = BTreeSet::new();
    for name in NAMES {
        let trial = Trial::new(name, false);
        let passed = trial.count();
        trial
            .finish(End::Finished)
            .unwrap_or_else(|why| panic!("{name}: {why}"));
        for (point, times) in passed {
            for nth in spread(times) {
                reached.insert(point.clone());
                let first = Fail {
                    point: point.clone(),
                    nth,
                    // Both ways of dying at each point, in turn.
                    mode: if jobs.len().is_multiple_of(2) {
                        Mode::Kill
                    } else {
                        Mode::Stop
                    },
                };
                jobs.push((name, [first, while_taking_over(jobs.len())]));
            }
        }
    }
    let missed: Vec<&str> = Point::ALL
        .iter()
        .map(|point| point.name())
        .filter(|name| !reached.contains(*name))
        .collect();
    assert!(missed.is_empty(), "no scenario passes {missed:?}");
    jobs
}

/// Returns which passings are tried: all of few, else the first, the last and some between.
fn spread(times: u64) -> BTreeSet<u64> {
    if times <= PASSINGS || std::env::var_os("PENTAD_TEST_LONG").is_some() {
        return (1..=times).collect();
    }
    (0..PASSINGS)
        .map(|n| 1 + n * (times - 1) / (PASSINGS - 1))
        .collect()
}

/// Returns where the next host fails, which begins with the runs of one that is gone.
fn while_taking_over(number: usize) -> Fail {
    let points = [
        Point::JournalCommitBefore,
        Point::JournalCommitAfter,
        Point::JournalBegin,
        Point::RunActsBefore,
        Point::RunActDone,
        Point::RunSettleBefore,
        Point::RunSettleAfter,
    ];
    let nth = 1 + (number / points.len()) % 4;
    Fail {
        point: points[number % points.len()].name().to_owned(),
        nth: u64::try_from(nth).unwrap(),
        mode: Mode::Kill,
    }
}

/// Runs one trial and returns the points at which its hosts were killed. What is written together differs from time to
/// time, and so do the passings: some points are not reached.
fn one<'a>(name: &str, number: usize, fails: &'a [Fail]) -> Result<Vec<&'a Fail>, String> {
    let trial = Trial::new(name, number % 4 < 2);
    let mut reached = Vec::new();
    let mut last = End::Killed;
    for fail in fails {
        last = trial.fail(fail)?;
        if last == End::Finished {
            break;
        }
        reached.push(fail);
    }
    trial.finish(last)?;
    Ok(reached)
}

fn run_all(jobs: Vec<Job>) -> (BTreeMap<String, usize>, Vec<String>) {
    let jobs = Mutex::new(jobs.into_iter().enumerate());
    let kills = Mutex::new(BTreeMap::new());
    let faults = Mutex::new(Vec::new());
    let work = || {
        loop {
            let Some((number, (name, fails))) = jobs.lock().unwrap().next() else {
                return;
            };
            match one(name, number, &fails) {
                Ok(reached) => {
                    for fail in reached {
                        *kills.lock().unwrap().entry(fail.point.clone()).or_default() += 1;
                    }
                }
                Err(why) => faults.lock().unwrap().push(format!("{name}, {fails:?}: {why}")),
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(work);
        }
    });
    (kills.into_inner().unwrap(), faults.into_inner().unwrap())
}
