//! Every point of every scenario, one kill each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Instant;

use pentad_fail::Point;

use crate::process::Mode;
use crate::scenario::NAMES;
use crate::trial::{End, Fail, Trial};

/// Kills that have to happen at a point; `PENTAD_TEST_LONG` takes every passing of every point.
const KILLS: usize = 500;
/// Passings of one point in one scenario that are tried.
const PASSINGS: u64 = 12;
/// Trials at once: they mostly wait for processes to begin and end.
const AT_ONCE: usize = 4;

/// Points that no scenario passes: they need another past, or a thousand events.
const ELSEWHERE: [Point; 3] = [
    Point::JournalWordsBegin,
    Point::JournalWordsCommitBefore,
    Point::JournalWordsCommitAfter,
];

pub fn test() {
    let began = Instant::now();
    let mut jobs = Vec::new();
    let mut reached = BTreeSet::new();
    for name in NAMES {
        let trial = Trial::new(name);
        let passed = trial.count();
        trial
            .finish(End::Finished)
            .unwrap_or_else(|why| panic!("{name}: {why}"));
        for (point, times) in passed {
            if times > 0 {
                reached.insert(point.clone());
            }
            for nth in spread(times) {
                // Both ways of dying at each point, in turn.
                let mode = if jobs.len() % 2 == 0 {
                    Mode::Kill
                } else {
                    Mode::Stop
                };
                let point = point.clone();
                jobs.push((name, Fail { point, nth, mode }));
            }
        }
    }
    let missed: Vec<&str> = Point::ALL
        .iter()
        .filter(|point| !ELSEWHERE.contains(point))
        .map(|point| point.name())
        .filter(|name| !reached.contains(*name))
        .collect();
    assert!(missed.is_empty(), "no scenario passes {missed:?}");

    let planned = jobs.len();
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

/// Returns which passings are tried: all of few, else the first, the last and some between.
fn spread(times: u64) -> BTreeSet<u64> {
    if times <= PASSINGS || std::env::var_os("PENTAD_TEST_LONG").is_some() {
        return (1..=times).collect();
    }
    (0..PASSINGS)
        .map(|n| 1 + n * (times - 1) / (PASSINGS - 1))
        .collect()
}

fn run_all(jobs: Vec<(&'static str, Fail)>) -> (BTreeMap<String, usize>, Vec<String>) {
    let jobs = Mutex::new(jobs.into_iter());
    let kills = Mutex::new(BTreeMap::new());
    let faults = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let Some((name, fail)) = jobs.lock().unwrap().next() else {
                        return;
                    };
                    let trial = Trial::new(name);
                    let ended = trial.fail(&fail).and_then(|end| {
                        trial.finish(end)?;
                        Ok(end)
                    });
                    match ended {
                        Ok(End::Killed) => *kills.lock().unwrap().entry(fail.point).or_default() += 1,
                        // What is written together differs from time to time, and so do the passings.
                        Ok(End::Finished) => {}
                        Err(why) => faults.lock().unwrap().push(format!("{name}, {fail:?}: {why}")),
                    }
                }
            });
        }
    });
    (kills.into_inner().unwrap(), faults.into_inner().unwrap())
}
