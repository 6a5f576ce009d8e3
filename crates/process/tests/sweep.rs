//! What is left when client, spawner and wardens are killed together, and what is not ours.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod common;

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{FIXTURE, marked, marker, program, sh, within};
use pentad_process::{ShutdownEnd, Spawner, sweep};
use rustix::process::{Pid, Signal, kill_process};

fn ledgers(state: &Path) -> usize {
    std::fs::read_dir(state.join("processes")).map_or(0, Iterator::count)
}

/// Starts a client with three trees and stops everything in it, so that nothing ends by itself.
fn host(marker: &str, state: &Path) -> (std::process::Child, Vec<i32>) {
    let mut host = Command::new(FIXTURE)
        .args(["host", marker])
        .arg(state)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(host.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let mut guards: Vec<i32> = vec![
        lines
            .next()
            .unwrap()
            .strip_prefix("spawner ")
            .unwrap()
            .parse()
            .unwrap(),
    ];
    let wardens = lines.next().unwrap();
    guards.extend(
        wardens
            .strip_prefix("up ")
            .unwrap()
            .split(' ')
            .map(|pid| pid.parse::<i32>().unwrap()),
    );
    (host, guards)
}

fn signal(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

#[test]
fn p04_the_next_start_reports_and_ends_what_is_ours_and_nothing_else() {
    let state = tempfile::tempdir().unwrap();
    let marker = marker("sweep");
    assert_eq!(sweep(state.path()).unwrap(), [], "nothing was ever started here");
    let (mut host, guards) = host(&marker, state.path());
    assert_eq!(
        sweep(state.path()).unwrap(),
        [],
        "a living client keeps its processes"
    );

    // Stopped first: a guard that still runs when another dies would do its work.
    let pid = host.id().cast_signed();
    guards
        .iter()
        .chain([&pid])
        .for_each(|guard| signal(*guard, Signal::STOP));
    guards
        .iter()
        .chain([&pid])
        .for_each(|guard| signal(*guard, Signal::KILL));
    host.wait().unwrap();
    guards.iter().for_each(|guard| common::wait_gone(*guard));
    assert!(
        !marked(&marker).is_empty(),
        "descendants that have no parent-death signal live on"
    );

    // Not ours: the same name under no ledger, and an unknown run.
    let foreign = |value: &str| {
        Command::new("sleep")
            .arg("1000")
            .env("PENTAD_RUN", value)
            .spawn()
            .unwrap()
    };
    let mut stranger = foreign("another-run");
    let elsewhere = tempfile::tempdir().unwrap();
    assert_eq!(sweep(elsewhere.path()).unwrap(), []);

    let found = sweep(state.path()).unwrap();
    assert!(
        found
            .iter()
            .all(|leftover| leftover.ended && leftover.run_marker == marker),
        "{found:?}"
    );
    let stubborn = found
        .iter()
        .filter(|leftover| leftover.command.starts_with("sh -c trap"))
        .count();
    assert_eq!(stubborn, 3, "{found:?}");
    assert_eq!(marked(&marker), Vec::<i32>::new());
    assert_eq!(stranger.try_wait().unwrap(), None, "a stranger is not touched");
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    assert_eq!((sweep(state.path()).unwrap(), ledgers(state.path())), (vec![], 0));
}

#[test]
fn p04_another_boot_or_a_later_process_is_not_ours() {
    let state = tempfile::tempdir().unwrap();
    let directory = state.path().join("processes");
    std::fs::create_dir(&directory).unwrap();
    let marker = marker("boot");
    let mut process = Command::new("sleep")
        .arg("1000")
        .env("PENTAD_RUN", &marker)
        .spawn()
        .unwrap();
    let pid = process.id();
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let ledger = |boot: &str, owner_start: u64, start: u64| {
        let name = |pid: u32, start: u64| format!(r#"{{"pid":{pid},"start":{start}}}"#);
        // A pid with another start time stands for an owner that is dead.
        let text = format!(
            "{{\"kind\":\"owner\",\"boot\":\"{boot}\",\"owner\":{}}}\n{{\"kind\":\"command\",\"run\":\"{marker}\",\
             \"command\":{},\"warden\":{}}}\n{{\"kind\":\"comm",
            name(std::process::id(), owner_start),
            name(pid, start),
            name(pid, start),
        );
        std::fs::write(directory.join("1-1-x.ledger"), text).unwrap();
    };
    ledger("another-boot", 1, 1);
    assert_eq!(sweep(state.path()).unwrap(), []);
    ledger(boot.trim(), 1, 1);
    assert_eq!(
        sweep(state.path()).unwrap(),
        [],
        "the recorded pid is another process now"
    );
    assert_eq!(process.try_wait().unwrap(), None);
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let start = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .nth(19)
        .unwrap()
        .parse()
        .unwrap();
    ledger(boot.trim(), 1, start);
    let found = sweep(state.path()).unwrap();
    assert_eq!(
        (found.len(), found[0].pid, found[0].ended),
        (1, pid.cast_signed(), true)
    );
    process.wait().unwrap();
}

#[tokio::test]
async fn a_shutdown_leaves_no_ledger() {
    let state = tempfile::tempdir().unwrap();
    let spawner = Spawner::launch_with_ledger(program(), state.path()).unwrap();
    let child = spawner.spawn(sh("exit 3")).await.unwrap();
    assert_eq!(within(child.wait()).await.code, Some(3));
    assert_eq!(ledgers(state.path()), 1);
    assert_eq!(spawner.shutdown(Duration::from_secs(4)).await, ShutdownEnd::Clean);
    assert_eq!(ledgers(state.path()), 0);
}
