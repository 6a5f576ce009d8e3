//! SIGKILL at any point: of the client, the spawner, the wardens, alone and together.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod common;

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio as StdStdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use common::{FIXTURE, LIMIT, line, marked, marker, sh, spawner, wait_gone, within};
use pentad_process::{Child, EndedBy, Spawner};
use rustix::process::{Pid, Signal, kill_process};

/// A tree whose members left their group, their session and their parent, and ignore SIGTERM.
const STUBBORN: &str =
    "(setsid sh -c 'trap \"\" TERM HUP; echo up; sleep 1000; :' &); (setsid sleep 1000 &); sleep 1000";

fn kill(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

/// Spins, so that the kill hits another point each time; nothing is waited for.
fn spin(iteration: u64, most: Duration) {
    let part = iteration.wrapping_mul(6_364_136_223_846_793_005) >> 33;
    let pause = most.mul_f64((part % 1000) as f64 / 1000.0);
    let start = Instant::now();
    while start.elapsed() < pause {
        std::hint::spin_loop();
    }
}

/// Waits until this process, to which all orphans come, has no child left.
fn wait_childless() {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        while rustix::process::wait(rustix::process::WaitOptions::empty()).is_ok() {}
        send.send(()).unwrap();
    });
    receive.recv_timeout(LIMIT).expect("a process outlived its owner");
}

#[derive(Debug, Clone, Copy)]
enum Victim {
    Host,
    HostByHangUp,
    HostThenSpawner,
    SpawnerThenHost,
}

#[test]
fn p03_p06_nothing_outlives_a_killed_client_or_spawner() {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).unwrap();
    let victims = [
        Victim::Host,
        Victim::HostThenSpawner,
        Victim::SpawnerThenHost,
        Victim::HostByHangUp,
    ];
    for iteration in 0..64u64 {
        let victim = victims[iteration as usize % victims.len()];
        let marker = marker("kill");
        #[allow(clippy::zombie_processes, reason = "every child is reaped below")]
        let mut host = Command::new(FIXTURE)
            .args(["host", &marker])
            .stdin(StdStdio::null())
            .stdout(StdStdio::piped())
            .stderr(StdStdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(host.stdout.take().unwrap()).lines();
        let first = lines.next().unwrap().unwrap();
        let spawner = first.strip_prefix("spawner ").unwrap().parse().unwrap();
        if iteration % 3 == 0 {
            assert!(lines.next().unwrap().unwrap().starts_with("up "));
        }
        spin(iteration, Duration::from_millis(6));
        let host = host.id().cast_signed();
        match victim {
            Victim::Host => kill(host, Signal::KILL),
            Victim::HostByHangUp => kill(host, Signal::HUP),
            Victim::HostThenSpawner => {
                kill(host, Signal::KILL);
                kill(spawner, Signal::KILL);
            }
            Victim::SpawnerThenHost => {
                kill(spawner, Signal::KILL);
                spin(iteration + 7, Duration::from_millis(2));
                kill(host, Signal::KILL);
            }
        }
        wait_childless();
        assert_eq!(
            marked(&marker),
            Vec::<i32>::new(),
            "after {victim:?} in iteration {iteration}"
        );
    }
}

async fn stubborn(spawner: &Spawner) -> (Child, String) {
    let mut spec = sh(STUBBORN);
    spec.grace = Duration::from_millis(50);
    let marker = spec.run_marker.clone();
    let mut child = spawner.spawn(spec).await.unwrap();
    assert_eq!(line(child.stdout.as_mut().unwrap()).await, "up");
    (child, marker)
}

async fn gone(child: &Child, marker: &str) {
    let exit = within(child.wait()).await;
    assert_eq!((exit.ended_by, exit.survivors), (EndedBy::OwnerGone, 0));
    assert_eq!(marked(marker), Vec::<i32>::new());
}

#[tokio::test]
async fn a_killed_spawner_ends_its_trees_and_is_replaced() {
    let spawner = spawner();
    for iteration in 0..10 {
        let (first, first_marker) = stubborn(&spawner).await;
        let (second, second_marker) = stubborn(&spawner).await;
        let pid = spawner.pid().await.unwrap().cast_signed();
        spin(iteration, Duration::from_millis(1));
        kill(pid, Signal::KILL);
        // At once, while the old one may not be gone yet.
        let mut fresh = spawner.spawn(sh("echo fresh")).await.unwrap();
        assert_eq!(line(fresh.stdout.as_mut().unwrap()).await, "fresh");
        assert_ne!(spawner.pid().await.unwrap().cast_signed(), pid);
        gone(&first, &first_marker).await;
        gone(&second, &second_marker).await;
        assert!(within(fresh.wait()).await.success());
    }
}

#[tokio::test]
async fn a_killed_warden_leaves_nothing() {
    let spawner = spawner();
    let (bystander, bystander_marker) = stubborn(&spawner).await;
    for _ in 0..10 {
        let (child, marker) = stubborn(&spawner).await;
        kill(child.warden(), Signal::KILL);
        gone(&child, &marker).await;
    }
    assert_eq!(marked(&bystander_marker).len(), 5, "another tree is not touched");
    bystander.terminate(Duration::ZERO).await;
    assert_eq!(within(bystander.wait()).await.ended_by, EndedBy::Cancel);
}

#[tokio::test]
async fn a_killed_warden_and_spawner_leave_nothing() {
    for iteration in 0..10 {
        let spawner = spawner();
        let (child, marker) = stubborn(&spawner).await;
        let pid = spawner.pid().await.unwrap().cast_signed();
        let (first, second) = if iteration % 2 == 0 {
            (pid, child.warden())
        } else {
            (child.warden(), pid)
        };
        kill(first, Signal::KILL);
        kill(second, Signal::KILL);
        gone(&child, &marker).await;
    }
}

#[tokio::test]
async fn p06_a_hang_up_of_the_spawner_ends_everything() {
    let spawner = spawner();
    let (child, marker) = stubborn(&spawner).await;
    kill(spawner.pid().await.unwrap().cast_signed(), Signal::HUP);
    // A spawner that is ending takes no command any more; another does, without a word to the caller.
    let fresh = spawner.spawn(sh("exit 3")).await.unwrap();
    assert_eq!(within(fresh.wait()).await.code, Some(3));
    gone(&child, &marker).await;
}

#[tokio::test]
async fn dropping_a_child_or_the_spawner_ends_the_tree() {
    let spawner = spawner();
    let (child, marker) = stubborn(&spawner).await;
    let warden = child.warden();
    drop(child);
    wait_gone(warden);
    assert_eq!(marked(&marker), Vec::<i32>::new());
    let (child, marker) = stubborn(&spawner).await;
    drop(spawner);
    gone(&child, &marker).await;
}
