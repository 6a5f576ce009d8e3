//! What several tests of processes share.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use pentad_process::{CommandSpec, Spawner, SpawnerProgram, Stdio};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::AsyncReadExt as _;

pub const FIXTURE: &str = env!("CARGO_BIN_EXE_pentad-process-fixture");
/// No wait of a test is longer than this.
pub const LIMIT: Duration = Duration::from_secs(30);

pub fn spawner() -> Spawner {
    Spawner::launch(program()).unwrap()
}

pub fn program() -> SpawnerProgram {
    SpawnerProgram {
        exe: PathBuf::from(FIXTURE),
        args: vec!["__spawner".into()],
    }
}

/// Returns a marker that no other process has.
pub fn marker(name: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!(
        "{name}-{}-{}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    )
}

pub fn env() -> BTreeMap<OsString, OsString> {
    BTreeMap::from([("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())])
}

/// Returns a shell command with piped output.
pub fn sh(script: &str) -> CommandSpec {
    let mut spec = CommandSpec::new("sh", "/", marker("sh"));
    spec.args = vec!["-c".into(), script.into()];
    spec.env = env();
    spec.stdout = Stdio::Piped;
    spec.stderr = Stdio::Piped;
    spec
}

pub fn fixture(args: &[&str]) -> CommandSpec {
    let mut spec = sh("");
    spec.program = FIXTURE.into();
    spec.args = args.iter().map(OsString::from).collect();
    spec
}

/// Reads one line, without reading past it.
pub async fn line(output: &mut pentad_process::ChildOutput) -> String {
    let mut bytes = Vec::new();
    loop {
        match within(output.read_u8()).await {
            Ok(b'\n') | Err(_) => return String::from_utf8(bytes).unwrap(),
            Ok(byte) => bytes.push(byte),
        }
    }
}

pub async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(LIMIT, future)
        .await
        .expect("the test's limit was reached")
}

/// Returns the processes whose environment has this marker.
pub fn marked(marker: &str) -> Vec<i32> {
    let wanted = format!("PENTAD_RUN={marker}");
    std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid: &i32| {
            std::fs::read(format!("/proc/{pid}/environ")).is_ok_and(|env| {
                env.split(|byte| *byte == 0)
                    .any(|entry| entry == wanted.as_bytes())
            })
        })
        .collect()
}

/// Returns a descriptor that becomes readable when the process ends; `None` if it has ended.
pub fn pidfd(pid: i32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()
}

/// Waits until the descriptor is readable or at its end.
pub fn wait_ready(fd: &OwnedFd) {
    let limit = Timespec {
        tv_sec: LIMIT.as_secs().cast_signed(),
        tv_nsec: 0,
    };
    let mut polled = [PollFd::new(fd, PollFlags::IN)];
    assert_eq!(
        poll(&mut polled, Some(&limit)),
        Ok(1),
        "the test's limit was reached"
    );
}

/// Waits until the process has ended.
pub fn wait_gone(pid: i32) {
    if let Some(fd) = pidfd(pid) {
        wait_ready(&fd);
    }
}
