//! Kills a process that executes durable runs, at every fail point, at random moments, and by loss of power, and counts
//! what it did.
//!
//! This program is driver and victim: `kills host STATE SCENARIO` executes a scenario on a journal, and the tests start
//! it so, kill it, start it again without a fail point, and compare what the journal says with what a file outside of it
//! (the witness) says. It has a test harness of its own, with as much of the usual arguments as `cargo test` and nextest
//! need.
//!
//! `PENTAD_TEST_SEED` repeats the random kills of a run, `PENTAD_TEST_LONG` multiplies them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs
)]

mod blobs;
mod check;
mod command;
mod every_point;
mod host;
mod outside;
mod power;
mod process;
mod random;
mod scenario;
mod talker;
mod trial;

use std::process::ExitCode;

type Test = (&'static str, fn());

const TESTS: [Test; 4] = [
    ("kill_at_every_point", every_point::test),
    ("kill_at_random_moments", random::test),
    ("kill_between_a_blob_and_the_sync_of_its_name", blobs::test),
    ("kill_by_loss_of_power", power::test),
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["host", state, scenario] => host::main(state.as_ref(), scenario.as_ref()),
        ["__spawner"] => pentad_process::spawner_main(),
        words => tests(words),
    }
}

/// Lists or runs the tests that are named, by a part of their name unless `--exact` is said.
fn tests(words: &[&str]) -> ExitCode {
    let (flags, names): (Vec<&str>, Vec<&str>) = words.iter().partition(|word| word.starts_with("--"));
    if flags.contains(&"--ignored") {
        return ExitCode::SUCCESS;
    }
    let exact = flags.contains(&"--exact");
    let wanted = |test: &str| {
        let named = |name: &&str| {
            if exact {
                *name == test
            } else {
                test.contains(*name)
            }
        };
        // The value of `--format` is a word as well.
        let names = names.iter().filter(|name| **name != "terse");
        names.clone().next().is_none() || names.clone().any(named)
    };
    for (name, test) in TESTS.iter().filter(|(name, _)| wanted(name)) {
        if flags.contains(&"--list") {
            println!("{name}: test");
        } else {
            println!("test {name}");
            test();
        }
    }
    ExitCode::SUCCESS
}
