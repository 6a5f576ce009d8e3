//! Leftovers, limits, shutdown, and many commands one after another.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod common;

use std::process::{Command, Stdio as StdStdio};
use std::time::{Duration, Instant};

use common::{FIXTURE, line, marked, sh, spawner, wait_gone, within};
use pentad_process::{EndedBy, Exit, ShutdownEnd, Stdio};
use rustix::process::{Pid, Signal, kill_process};
use tokio_util::sync::CancellationToken;

const BY_ITSELF: Exit = Exit {
    code: Some(0),
    signal: None,
    ended_by: EndedBy::Nothing,
    leftovers_ended: 0,
    survivors: 0,
};

#[tokio::test]
async fn p03_grandchildren_that_outlive_the_command_are_ended() {
    let spawner = spawner();
    let spec = sh("(setsid sleep 1000 &); (sleep 1000 &); (sleep 0 &); exit 3");
    let marker = spec.run_marker.clone();
    let child = spawner.spawn(spec).await.unwrap();
    assert_eq!(within(child.exited()).await.code, Some(3));
    assert!(
        !marked(&marker).is_empty(),
        "leftovers have a moment to end by themselves"
    );
    assert_eq!(
        within(child.wait()).await,
        Exit {
            code: Some(3),
            leftovers_ended: 2,
            ..BY_ITSELF
        }
    );
    assert_eq!(marked(&marker), Vec::<i32>::new());
}

#[tokio::test]
async fn a_tool_may_leave_processes_that_outlive_even_the_spawner() {
    let spawner = spawner();
    let mut spec = sh("setsid sleep 1000 & echo $!; exit 0");
    spec.leaves_processes = true;
    let marker = spec.run_marker.clone();
    let mut child = spawner.spawn(spec).await.unwrap();
    let left: i32 = line(child.stdout.as_mut().unwrap()).await.parse().unwrap();
    assert_eq!(within(child.wait()).await, BY_ITSELF);
    drop(child);
    assert_eq!(spawner.shutdown(Duration::from_secs(4)).await, ShutdownEnd::Clean);
    assert_eq!(marked(&marker), [left]);
    kill_process(Pid::from_raw(left).unwrap(), Signal::KILL).unwrap();
    wait_gone(left);
}

#[tokio::test]
async fn canceled_in_time_such_a_tool_leaves_nothing() {
    let spawner = spawner();
    let mut spec = sh("setsid sleep 1000 & echo up; sleep 1000");
    spec.leaves_processes = true;
    let marker = spec.run_marker.clone();
    let mut child = spawner.spawn(spec).await.unwrap();
    assert_eq!(line(child.stdout.as_mut().unwrap()).await, "up");
    child.terminate(Duration::from_secs(5)).await;
    assert_eq!(within(child.wait()).await.ended_by, EndedBy::Cancel);
    assert_eq!(marked(&marker), Vec::<i32>::new());
}

#[tokio::test]
async fn p09_shutdown_is_bounded_whatever_the_children_ignore() {
    let spawner = spawner();
    let mut spec = sh("trap '' TERM HUP INT; echo up; while :; do sleep 1000; done");
    spec.stdin = Stdio::Piped;
    spec.grace = Duration::from_secs(600);
    let marker = spec.run_marker.clone();
    let mut child = spawner.spawn(spec).await.unwrap();
    assert_eq!(line(child.stdout.as_mut().unwrap()).await, "up");
    let start = Instant::now();
    assert_eq!(spawner.shutdown(Duration::from_secs(2)).await, ShutdownEnd::Clean);
    assert!(
        start.elapsed() < Duration::from_secs(5),
        "shutdown took {:?}",
        start.elapsed()
    );
    assert_eq!(within(child.wait()).await.ended_by, EndedBy::OwnerGone);
    assert_eq!(marked(&marker), Vec::<i32>::new());
    let refused = spawner.spawn(sh("true")).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "The spawner has been shut down; no command starts any more."
    );
}

#[tokio::test]
async fn p09_shutdown_is_bounded_when_the_spawner_itself_is_stuck() {
    let spawner = spawner();
    let spec = sh("sleep 1000");
    let marker = spec.run_marker.clone();
    let child = spawner.spawn(spec).await.unwrap();
    let pid = spawner.pid().await.unwrap().cast_signed();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::STOP).unwrap();
    assert_eq!(
        spawner.shutdown(Duration::from_millis(300)).await,
        ShutdownEnd::Killed
    );
    assert_eq!(within(child.wait()).await.ended_by, EndedBy::OwnerGone);
    assert_eq!(marked(&marker), Vec::<i32>::new());
}

#[tokio::test]
async fn closing_lets_a_server_end_by_itself_first() {
    let spawner = spawner();
    let mut spec = sh("echo up; cat >/dev/null; exit 6");
    spec.stdin = Stdio::Piped;
    let mut child = spawner.spawn(spec).await.unwrap();
    assert_eq!(line(child.stdout.as_mut().unwrap()).await, "up");
    child
        .close(Duration::from_secs(20), Duration::from_secs(20))
        .await;
    assert_eq!(
        within(child.wait()).await,
        Exit {
            code: Some(6),
            ended_by: EndedBy::Cancel,
            ..BY_ITSELF
        }
    );

    let mut deaf = sh("trap 'exit 8' TERM; echo up; while :; do sleep 0.01; done");
    deaf.stdin = Stdio::Piped;
    let mut child = spawner.spawn(deaf).await.unwrap();
    assert_eq!(line(child.stdout.as_mut().unwrap()).await, "up");
    child
        .close(Duration::from_millis(50), Duration::from_secs(20))
        .await;
    assert_eq!(
        within(child.wait()).await,
        Exit {
            code: Some(8),
            ended_by: EndedBy::Cancel,
            ..BY_ITSELF
        }
    );
}

#[tokio::test]
async fn the_wall_limit_holds_for_the_whole_tree() {
    let spawner = spawner();
    let mut spec = sh("(setsid sleep 1000 &); sleep 1000");
    spec.limits.wall = Some(Duration::from_millis(100));
    let marker = spec.run_marker.clone();
    let child = spawner.spawn(spec).await.unwrap();
    let ended = Exit {
        code: None,
        signal: Some(15),
        ended_by: EndedBy::WallLimit,
        ..BY_ITSELF
    };
    assert_eq!(within(child.wait()).await, ended);
    assert_eq!(marked(&marker), Vec::<i32>::new());
}

#[tokio::test]
async fn resource_limits_reach_the_command() {
    let spawner = spawner();
    let mut spec = sh("ulimit -t; ulimit -v; ulimit -n");
    spec.limits.cpu = Some(Duration::from_millis(6500));
    spec.limits.memory = Some(512 * 1024 * 1024);
    spec.limits.open_files = Some(64);
    let mut child = spawner.spawn(spec).await.unwrap();
    let out = child.stdout.as_mut().unwrap();
    assert_eq!(
        [line(out).await, line(out).await, line(out).await],
        ["7", "524288", "64"]
    );
}

#[tokio::test]
async fn a_command_inherits_nothing() {
    let spawner = spawner();
    let mut spec =
        sh("env | sort; ls /proc/self/fd | wc -l; trap; grep -E '^(SigBlk|SigIgn)' /proc/self/status");
    spec.env.insert("ONLY".into(), "this".into());
    spec.run_marker = "inherits-nothing".into();
    let mut child = spawner.spawn(spec).await.unwrap();
    let out = child.stdout.as_mut().unwrap();
    let mut lines = Vec::new();
    loop {
        match line(out).await {
            end if end.is_empty() => break,
            // The C library keeps signals 32 and 33 to itself and lets nobody change them.
            text => lines.push(text.replace("0000000180000000", "0000000000000000")),
        }
    }
    insta::assert_snapshot!(lines.join("\n"), @r"
    ONLY=this
    PATH=/usr/local/bin:/usr/bin:/bin
    PENTAD_RUN=inherits-nothing
    PWD=/
    4
    SigBlk:	0000000000000000
    SigIgn:	0000000000000000
    ");
}

fn open_files(pid: &str) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

#[tokio::test]
async fn p02_p14_descriptors_and_processes_stay_flat_over_many_spawns() {
    let spawner = spawner();
    let pid = spawner.pid().await.unwrap().to_string();
    let children = format!("/proc/{pid}/task/{pid}/children");
    let mut before = None;
    for _ in 0..10 {
        for _ in 0..30 {
            let child = spawner.spawn(sh("exit 0")).await.unwrap();
            assert_eq!(within(child.wait()).await, BY_ITSELF);
            wait_gone(child.warden());
        }
        // The spawner lets a dead warden go after it is seen dead here; one more launch comes after that.
        let last = spawner.spawn(sh("exec sleep 1000")).await.unwrap();
        assert_eq!(
            std::fs::read_to_string(&children)
                .unwrap()
                .split_whitespace()
                .count(),
            1
        );
        let now = (open_files("self"), open_files(&pid));
        assert_eq!(*before.get_or_insert(now), now);
        last.terminate(Duration::ZERO).await;
        within(last.wait()).await;
        wait_gone(last.warden());
    }
}

#[tokio::test]
async fn p15_a_stuck_instance_never_blocks_a_new_one() {
    let stuck = spawner();
    let held = stuck.spawn(sh("sleep 1000")).await.unwrap();
    kill_process(Pid::from_raw(held.warden()).unwrap(), Signal::STOP).unwrap();
    // A stopped warden blocks neither its own spawner nor another.
    let child = stuck.spawn(sh("exit 4")).await.unwrap();
    assert_eq!(within(child.wait()).await.code, Some(4));
    let pid = stuck.pid().await.unwrap().cast_signed();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::STOP).unwrap();
    let fresh = spawner();
    let child = fresh.spawn(sh("exit 5")).await.unwrap();
    assert_eq!(within(child.wait()).await.code, Some(5));
    assert_eq!(
        stuck.shutdown(Duration::from_millis(100)).await,
        ShutdownEnd::Killed
    );
    kill_process(Pid::from_raw(held.warden()).unwrap(), Signal::CONT).unwrap();
    assert_eq!(within(held.wait()).await.ended_by, EndedBy::OwnerGone);
}

#[tokio::test]
async fn p22_exit_codes_are_exact_while_a_reaper_runs() {
    let spawner = spawner();
    let stop = CancellationToken::new();
    let reaper = spawner.reap_orphans(Duration::from_secs(5), &stop);
    let work = async {
        for code in 0..60u8 {
            let script = format!("(sh -c 'exit 9' &); exit {code}");
            let (ours, foreign) = tokio::join!(
                async {
                    let child = spawner.spawn(sh(&script)).await.unwrap();
                    within(child.wait()).await.code
                },
                async {
                    tokio::process::Command::new("sh")
                        .args(["-c", &script])
                        .status()
                        .await
                        .unwrap()
                        .code()
                }
            );
            assert_eq!((ours, foreign), (Some(code.into()), Some(code.into())));
        }
        stop.cancel();
    };
    tokio::join!(reaper, work);
}

#[test]
fn p21_as_pid_1_strangers_are_reaped() {
    let output = Command::new("unshare")
        .args(["-Urpf", "--mount-proc", FIXTURE, "pid1"])
        .stdin(StdStdio::null())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    if stderr.contains("unshare failed") || stderr.contains("Operation not permitted") {
        // No user namespaces here: as a subreaper the same process has the same duty.
        let output = Command::new(FIXTURE)
            .arg("pid1")
            .stdin(StdStdio::null())
            .output()
            .unwrap();
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "codes Some(9) Some(5)\nreaped\n"
        );
        return;
    }
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "codes Some(9) Some(5)\nreaped\n",
        "{stderr}"
    );
}

#[tokio::test]
async fn many_commands_can_start_at_once() {
    let spawner = std::sync::Arc::new(spawner());
    let mut starts = tokio::task::JoinSet::new();
    for code in 0..100 {
        let spawner = std::sync::Arc::clone(&spawner);
        starts.spawn(async move {
            let child = spawner.spawn(sh(&format!("exit {code}"))).await.unwrap();
            assert_eq!(within(child.wait()).await.code, Some(code));
        });
    }
    starts.join_all().await;
}
