//! Starting hosts, waiting for them, and looking for what they left.

use std::os::fd::AsFd as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, kill_process, pidfd_open, waitpid};

use crate::command::MARK;

/// How long anything may take that has to end.
pub const END: Duration = Duration::from_secs(60);

/// How a host is made to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// It stops, and is killed as it stands.
    Stop,
    /// It kills itself.
    Kill,
}

impl Mode {
    pub fn word(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Kill => "kill",
        }
    }
}

/// Returns a command that starts this program as a host.
pub fn host(state: &std::path::Path, scenario: &std::path::Path, mark: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("RUST_BACKTRACE", "0")
        .env(MARK, mark)
        .arg("host")
        .arg(state)
        .arg(scenario)
        .stdin(Stdio::null());
    command
}

/// Kills a process that may have ended by itself.
pub fn kill(child: &Child) {
    let _gone = kill_process(Pid::from_child(child), Signal::KILL);
}

/// Waits until a process has ended, or has stopped, when it is killed; nothing when it takes too long.
pub fn ended(child: &mut Child, mode: Mode) -> Option<ExitStatus> {
    match mode {
        Mode::Kill => within(child, END),
        Mode::Stop => {
            // Whether it stops or ends is known at once either way, so the one limit is the whole test's.
            let stopped = waitpid(Some(Pid::from_child(child)), WaitOptions::UNTRACED).unwrap();
            match stopped {
                Some((_, status)) if !status.stopped() => {
                    Some(std::os::unix::process::ExitStatusExt::from_raw(status.as_raw()))
                }
                _ => {
                    kill(child);
                    within(child, END)
                }
            }
        }
    }
}

/// Waits until a process has ended; nothing when it takes too long.
pub fn within(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    // A child that is not yet waited for keeps its id.
    let handle = pidfd_open(Pid::from_child(child), PidfdFlags::empty()).unwrap();
    let mut watched = [PollFd::from_borrowed_fd(handle.as_fd(), PollFlags::IN)];
    let limit = Timespec {
        tv_sec: i64::try_from(limit.as_secs()).unwrap(),
        tv_nsec: i64::from(limit.subsec_nanos()),
    };
    (poll(&mut watched, Some(&limit)).unwrap() > 0).then(|| child.wait().unwrap())
}

fn marked(mark: &str) -> Vec<Pid> {
    let entry = format!("{MARK}={mark}");
    let numbers = std::fs::read_dir("/proc").unwrap().flatten();
    numbers
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw))
        .filter(|pid| {
            let environment = std::fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero()));
            let environment = environment.unwrap_or_default();
            environment
                .split(|byte| *byte == 0)
                .any(|e| e == entry.as_bytes())
        })
        .collect()
}

/// Waits until no process of a trial is left; false when it takes too long.
pub fn none_left(mark: &str) -> bool {
    let until = Instant::now() + END;
    while let Some(first) = marked(mark).first() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        if let Ok(handle) = pidfd_open(*first, PidfdFlags::empty()) {
            let mut watched = [PollFd::from_borrowed_fd(handle.as_fd(), PollFlags::IN)];
            let limit = Timespec {
                tv_sec: 1,
                tv_nsec: 0,
            };
            poll(&mut watched, Some(&limit)).unwrap();
        }
    }
    true
}
