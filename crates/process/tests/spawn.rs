//! Starting, waiting and ending single commands.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod common;

use std::time::Duration;

use common::{line, marked, sh, spawner, within};
use pentad_process::{CommandExit, EndedBy, Exit, Stdio};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const BY_ITSELF: Exit = Exit {
    code: Some(0),
    signal: None,
    ended_by: EndedBy::Nothing,
    leftovers_ended: 0,
    survivors: 0,
};

#[tokio::test]
async fn a_command_reads_writes_and_ends_with_its_own_code() {
    let spawner = spawner();
    let mut spec = sh("cat; echo problem >&2; exit 7");
    spec.stdin = Stdio::Piped;
    let mut child = spawner.spawn(spec).await.unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"to and fro").await.unwrap();
    drop(stdin);
    let (mut out, mut err) = (String::new(), String::new());
    within(child.stdout.as_mut().unwrap().read_to_string(&mut out))
        .await
        .unwrap();
    within(child.stderr.as_mut().unwrap().read_to_string(&mut err))
        .await
        .unwrap();
    assert_eq!((out.as_str(), err.as_str()), ("to and fro", "problem\n"));
    assert_eq!(
        within(child.wait()).await,
        Exit {
            code: Some(7),
            ..BY_ITSELF
        }
    );
    assert_eq!(
        child.exited().await,
        CommandExit {
            code: Some(7),
            signal: None
        }
    );
}

#[tokio::test]
async fn cancel_ends_the_whole_tree_and_says_so_when_it_is_gone() {
    let spawner = spawner();
    let spec = sh("(setsid sleep 1000 & setsid sh -c 'trap \"\" TERM; echo up; sleep 1000' &) ; sleep 1000");
    let marker = spec.run_marker.clone();
    let mut child = spawner.spawn(spec).await.unwrap();
    assert_eq!(line(child.stdout.as_mut().unwrap()).await, "up");
    let started = std::time::Instant::now();
    child.terminate(Duration::from_millis(200)).await;
    let exit = within(child.wait()).await;
    assert!(
        started.elapsed() >= Duration::from_millis(200),
        "the one that ignores SIGTERM had its grace"
    );
    assert_eq!(
        exit,
        Exit {
            code: None,
            signal: Some(15),
            ended_by: EndedBy::Cancel,
            ..BY_ITSELF
        }
    );
    assert_eq!(marked(&marker), Vec::<i32>::new());
}

#[tokio::test]
async fn p05_every_spawn_leads_its_own_group() {
    let spawner = spawner();
    for _ in 0..5 {
        let child = spawner.spawn(sh("sleep 1000")).await.unwrap();
        let pid = rustix::process::Pid::from_raw(child.pid());
        assert_eq!(rustix::process::getpgid(pid).unwrap(), pid.unwrap());
        assert_eq!(child.pgid(), child.pid());
        rustix::process::kill_process_group(pid.unwrap(), rustix::process::Signal::KILL).unwrap();
        assert_eq!(
            within(child.wait()).await,
            Exit {
                code: None,
                signal: Some(9),
                ..BY_ITSELF
            }
        );
    }
}
