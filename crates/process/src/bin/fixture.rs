//! Processes for this crate's tests: a spawner, a client to kill, and commands that misbehave.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use pentad_process::{CommandSpec, Spawner, SpawnerProgram, Stdio};
use tokio::io::AsyncReadExt as _;
use tokio_util::sync::CancellationToken;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["__spawner"] => pentad_process::spawner_main(),
        ["flood", bytes] => done(bytes.parse().map_err(io::Error::other).and_then(flood)),
        ["host", marker] => done(host(marker, None)),
        ["host", marker, state_dir] => done(host(marker, Some(Path::new(state_dir)))),
        ["pid1"] => done(pid1()),
        other => {
            let _ = writeln!(io::stderr(), "unknown mode {other:?}");
            ExitCode::FAILURE
        }
    }
}

fn done(result: io::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

fn own_spawner(state_dir: Option<&Path>) -> io::Result<Spawner> {
    let program = SpawnerProgram {
        exe: std::env::current_exe()?,
        args: vec!["__spawner".into()],
    };
    match state_dir {
        Some(state_dir) => Spawner::launch_with_ledger(program, state_dir),
        None => Spawner::launch(program),
    }
    .map_err(io::Error::other)
}

fn sh(script: &str, marker: &str) -> CommandSpec {
    let mut spec = CommandSpec::new("/bin/sh", "/", marker);
    spec.args = vec!["-c".into(), script.into()];
    spec.env = BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]);
    spec.grace = Duration::from_millis(30);
    spec
}

/// A client that starts trees which do not want to go, and waits to be killed.
fn host(marker: &str, state_dir: Option<&Path>) -> io::Result<()> {
    const TREE: &str =
        "(setsid sh -c 'trap \"\" TERM HUP; echo up; sleep 1000; :' &); (sleep 1000 &); sleep 1000";
    let spawner = own_spawner(state_dir)?;
    runtime()?.block_on(async {
        say(&format!("spawner {}", spawner.pid().await.unwrap_or(0)))?;
        let mut children = Vec::new();
        for _ in 0..3 {
            let mut spec = sh(TREE, marker);
            spec.stdout = Stdio::Piped;
            let mut child = spawner.spawn(spec).await.map_err(io::Error::other)?;
            if let Some(out) = &mut child.stdout {
                out.read_exact(&mut [0; 3]).await?;
            }
            children.push(child);
        }
        let wardens: Vec<String> = children.iter().map(|child| child.warden().to_string()).collect();
        say(&format!("up {}", wardens.join(" ")))?;
        let owner = children.first().ok_or(io::ErrorKind::NotFound)?;
        owner.wait().await;
        Ok(())
    })
}

/// The first process of a namespace, to which orphans come that it never started.
fn pid1() -> io::Result<()> {
    let spawner = own_spawner(None)?;
    runtime()?.block_on(async {
        let stop = CancellationToken::new();
        let patience = Duration::from_millis(50);
        let reaper = spawner.reap_orphans(patience, &stop);
        let work = async {
            let orphaning = "(sh -c 'exit 3' & sh -c 'exit 4' &); exit 9";
            let mut stranger = std::process::Command::new("/bin/sh")
                .args(["-c", orphaning])
                .spawn()?;
            let code = stranger.wait()?.code();
            let child = spawner
                .spawn(sh("exit 5", "pid1"))
                .await
                .map_err(io::Error::other)?;
            say(&format!("codes {:?} {:?}", code, child.wait().await.code))?;
            // The orphans are gone when this process has the spawner as its only child.
            let mut ticks = tokio::time::interval(Duration::from_millis(10));
            for _ in 0..1000 {
                let list = std::fs::read_to_string("/proc/self/task/self/children").or_else(|_| {
                    std::fs::read_to_string(format!("/proc/self/task/{0}/children", std::process::id()))
                })?;
                if list.split_whitespace().count() == 1 {
                    return say("reaped");
                }
                ticks.tick().await;
            }
            say("orphans are left")
        };
        let done = tokio::select! {
            done = work => done,
            () = reaper => Err(io::Error::other("the reaper ended")),
        };
        spawner.shutdown(Duration::from_secs(2)).await;
        done
    })
}

fn say(line: &str) -> io::Result<()> {
    let mut out = io::stdout();
    writeln!(out, "{line}")?;
    out.flush()
}

/// Writes this many bytes to standard output in lines of 1,024 bytes, as fast as they are taken.
fn flood(bytes: u64) -> io::Result<()> {
    let mut block = vec![b'x'; 64 * 1024];
    block
        .iter_mut()
        .skip(1023)
        .step_by(1024)
        .for_each(|byte| *byte = b'\n');
    let mut out = std::fs::File::from(std::os::fd::AsFd::as_fd(&io::stdout()).try_clone_to_owned()?);
    let mut left = bytes;
    while left > 0 {
        let count = usize::try_from(left.min(64 * 1024)).unwrap_or(block.len());
        out.write_all(block.get(..count).unwrap_or(&block))?;
        left -= count as u64;
    }
    Ok(())
}
