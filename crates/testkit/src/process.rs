//! Watching processes from outside: who is left, and waiting for an end without sleeping blindly.

use std::os::fd::AsFd as _;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Waits until `child` has exited, at most `limit`.
pub fn wait_at_most(child: &mut Child, limit: Duration) -> Result<ExitStatus> {
    let pid = i32::try_from(child.id())
        .ok()
        .and_then(Pid::from_raw)
        .context("pid")?;
    if !gone_within(pid, limit)? {
        bail!("process {} did not exit within {limit:?}", child.id());
    }
    Ok(child.wait()?)
}

/// Waits until the process is gone (or a zombie), at most `limit`; returns whether it is.
pub fn gone_within(pid: Pid, limit: Duration) -> Result<bool> {
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else {
        return Ok(true);
    };
    let handle = handle.as_fd();
    let mut watched = [PollFd::from_borrowed_fd(handle, PollFlags::IN)];
    let limit = Timespec {
        tv_sec: i64::try_from(limit.as_secs())?,
        tv_nsec: i64::from(limit.subsec_nanos()),
    };
    Ok(poll(&mut watched, Some(&limit))? > 0)
}

/// Returns the living processes whose environment contains `NAME=value` as an entry.
#[must_use]
pub fn marked(entry: &str) -> Vec<Pid> {
    let Ok(all) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    all.filter_map(Result::ok)
        .filter_map(|e| e.file_name().to_str().and_then(|n| n.parse::<i32>().ok()))
        .filter(|pid| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|b| *b == 0).any(|e| e == entry.as_bytes())
        })
        .filter_map(Pid::from_raw)
        .collect()
}

/// Waits until no living process carries the entry, at most `limit`; returns those that are left.
pub fn none_marked_within(entry: &str, limit: Duration) -> Result<Vec<Pid>> {
    let until = Instant::now() + limit;
    loop {
        let left = marked(entry);
        let Some(first) = left.first() else {
            return Ok(left);
        };
        let now = Instant::now();
        if now >= until {
            return Ok(left);
        }
        gone_within(*first, until - now)?;
    }
}
