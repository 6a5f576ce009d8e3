//! Commands run to their end, with bounded output.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod common;

use std::time::Duration;

use bytes::Bytes;
use common::{fixture, marked, sh, spawner, within};
use pentad_process::{CaptureLimits, EndedBy, OutputLimits, Stdio, run_to_end};
use tokio_util::sync::CancellationToken;

fn limits(head_bytes: usize, tail_bytes: usize) -> OutputLimits {
    let stream = CaptureLimits {
        head_bytes,
        tail_bytes,
        spill: None,
        spill_cap: 0,
    };
    OutputLimits {
        stdout: stream.clone(),
        stderr: stream,
    }
}

/// Returns this process's resident memory and its peak since the last reset, in KiB.
fn peak_rss() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn o01_two_gigabytes_of_output_cost_little_memory() {
    const BYTES: u64 = 2 << 30;
    let spawner = spawner();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out");
    let mut output = limits(64 << 10, 64 << 10);
    output.stdout.spill = Some(path.clone());
    output.stdout.spill_cap = 8 << 20;
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = peak_rss();
    let spec = fixture(&["flood", &BYTES.to_string()]);
    let finished = within(run_to_end(
        &spawner,
        spec,
        None,
        output,
        &CancellationToken::new(),
    ))
    .await
    .unwrap();
    let growth = peak_rss() - before;
    assert!(growth < 32 << 10, "resident memory grew by {growth} KiB");
    assert!(finished.exit.success());
    let out = finished.stdout;
    assert_eq!((out.total_bytes, out.total_lines), (BYTES, BYTES / 1024));
    assert_eq!((out.head.len(), out.tail.len()), (64 << 10, 64 << 10));
    assert_eq!((out.spilled.as_ref(), out.spill_truncated), (Some(&path), true));
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 8 << 20);
}

#[tokio::test]
async fn o02_a_flood_starves_no_timer() {
    let spawner = spawner();
    let mut spec = fixture(&["flood", &u64::MAX.to_string()]);
    spec.limits.wall = Some(Duration::from_millis(500));
    let cancel = CancellationToken::new();
    let run = run_to_end(&spawner, spec, None, limits(1 << 20, 1 << 20), &cancel);
    let mut run = Box::pin(run);
    let mut timer = tokio::time::interval(Duration::from_millis(10));
    let mut ticks = 0;
    let finished = loop {
        tokio::select! {
            finished = &mut run => break finished.unwrap(),
            _ = timer.tick() => ticks += 1,
        }
    };
    assert_eq!(finished.exit.ended_by, EndedBy::WallLimit);
    assert_eq!(finished.limit_hit.unwrap().to_string(), "wall limit 500ms");
    assert!(finished.stdout.total_bytes > 1 << 20);
    assert!(ticks > 10, "the timer ticked {ticks} times in half a second");
}

#[tokio::test]
async fn a_limit_on_processor_time_names_itself() {
    let spawner = spawner();
    let mut spec = sh("while :; do :; done");
    spec.limits.cpu = Some(Duration::from_secs(1));
    let cancel = CancellationToken::new();
    let finished = within(run_to_end(&spawner, spec, None, limits(9, 9), &cancel))
        .await
        .unwrap();
    assert_eq!(finished.limit_hit.unwrap().to_string(), "cpu limit 1s");
}

#[tokio::test]
async fn input_output_and_code_belong_together() {
    let spawner = spawner();
    let input = Bytes::from(vec![b'i'; 3 << 20]);
    let cancel = CancellationToken::new();
    let spec = sh("wc -c; echo problem >&2; exit 2");
    let finished = within(run_to_end(
        &spawner,
        spec,
        Some(input.clone()),
        limits(99, 99),
        &cancel,
    ))
    .await
    .unwrap();
    assert_eq!(finished.exit.code, Some(2));
    assert_eq!(finished.stdout.head, b"3145728\n");
    assert_eq!(finished.stderr.head, b"problem\n");
    // Input that is not read is no error, and no reason to wait.
    let finished = within(run_to_end(
        &spawner,
        sh("exit 0"),
        Some(input),
        limits(9, 9),
        &cancel,
    ))
    .await
    .unwrap();
    assert!(finished.exit.success());
}

#[tokio::test]
async fn a_grandchild_that_holds_the_pipe_does_not_hold_the_caller() {
    let spawner = spawner();
    let spec = sh("(setsid sleep 1000 &); echo done");
    let marker = spec.run_marker.clone();
    let cancel = CancellationToken::new();
    let finished = within(run_to_end(&spawner, spec, None, limits(99, 99), &cancel))
        .await
        .unwrap();
    assert_eq!(finished.stdout.head, b"done\n");
    assert!(!finished.stdout.left_open);
    assert_eq!((finished.exit.code, finished.exit.leftovers_ended), (Some(0), 1));
    assert_eq!(marked(&marker), Vec::<i32>::new());
}

#[tokio::test]
async fn a_process_left_on_purpose_does_not_hold_the_caller_either() {
    let spawner = spawner();
    let mut spec = sh("setsid sleep 1000 & echo $!");
    spec.leaves_processes = true;
    let cancel = CancellationToken::new();
    let finished = within(run_to_end(&spawner, spec, None, limits(99, 99), &cancel))
        .await
        .unwrap();
    assert!(finished.stdout.left_open);
    let left = String::from_utf8(finished.stdout.head)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    let left = rustix::process::Pid::from_raw(left).unwrap();
    rustix::process::kill_process(left, rustix::process::Signal::KILL).unwrap();
}

#[tokio::test]
async fn cancel_ends_the_tree_before_it_is_told() {
    let spawner = spawner();
    let mut spec = sh("(setsid sh -c 'trap \"\" TERM; sleep 1000; :' &); cat; sleep 1000");
    spec.grace = Duration::from_millis(50);
    spec.stdout = Stdio::Piped;
    let marker = spec.run_marker.clone();
    let cancel = CancellationToken::new();
    let run = run_to_end(
        &spawner,
        spec,
        Some(Bytes::from_static(b"in")),
        limits(99, 99),
        &cancel,
    );
    let mut run = Box::pin(run);
    // Canceled as soon as the tree is seen, in whatever state it is.
    let finished = loop {
        tokio::select! {
            biased;
            finished = &mut run => break finished.unwrap(),
            () = tokio::task::yield_now() => {
                if !marked(&marker).is_empty() {
                    cancel.cancel();
                }
            }
        }
    };
    assert_eq!(finished.exit.ended_by, EndedBy::Cancel);
    assert_eq!(marked(&marker), Vec::<i32>::new());
}
