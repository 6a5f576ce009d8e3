//! Ending what an earlier client left when client, spawner and warden were all killed.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};

use crate::host::tree::Stat;
use crate::ledger::{self, Line, ProcessName};
use crate::marker;

/// How long killed leftovers may take to be gone.
const LIMIT: Duration = Duration::from_secs(2);
/// A sweep reads again until a pass finds nothing new, for a leftover may fork while it is looked for.
const PASSES: usize = 8;

/// A process that an earlier client of the same state directory left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// Its process id.
    pub pid: i32,
    /// Its start time, in clock ticks since boot.
    pub start_time: u64,
    /// The run that it belonged to.
    pub run_marker: String,
    /// Its command line, cut to 200 characters.
    pub command: String,
    /// Whether it is gone now.
    pub ended: bool,
}

/// Reports and kills the processes that earlier clients of this state directory left, and forgets them.
///
/// A process is ours only if everything agrees: the boot id, the marker of a run that the ledger names, and
/// a start time not before that run's launch (and, for a recorded pid, exactly the recorded one). What is
/// started by a living client, by another state directory or by nobody known is not touched, nor what a
/// tool left on purpose. Blocks for at most a few seconds.
pub fn sweep(state_dir: &Path) -> io::Result<Vec<Leftover>> {
    let directory = ledger::directory(state_dir);
    let entries = match std::fs::read_dir(&directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let boot = ledger::boot_id()?;
    let mut abandoned: Vec<PathBuf> = Vec::new();
    let mut known: BTreeMap<String, Run> = BTreeMap::new();
    for path in entries.flatten().map(|entry| entry.path()) {
        let lines = ledger::read(&path)?;
        let Some(Line::Owner { boot: then, owner }) = lines.first() else {
            // A ledger without its first line belongs to somebody who is just making it, or to nobody.
            continue;
        };
        if *then != boot {
            abandoned.push(path);
            continue;
        }
        if owner.alive() {
            continue;
        }
        lines.iter().for_each(|line| note(&mut known, *owner, line));
        abandoned.push(path);
    }
    let found = if known.is_empty() {
        Vec::new()
    } else {
        end_all(&known)?
    };
    if found.iter().all(|leftover| leftover.ended) {
        for path in abandoned {
            std::fs::remove_file(path)?;
        }
    }
    Ok(found)
}

/// What the ledgers of dead owners say of one run.
struct Run {
    /// No process of the run is older than its owner.
    not_before: u64,
    commands: Vec<ProcessName>,
}

fn note(known: &mut BTreeMap<String, Run>, owner: ProcessName, line: &Line) {
    let (run, command) = match line {
        Line::Owner { .. } => return,
        Line::Launch { run } => (run, None),
        Line::Command { run, command, .. } => (run, Some(*command)),
    };
    let entry = known.entry(run.clone()).or_insert_with(|| Run {
        not_before: owner.start,
        commands: Vec::new(),
    });
    entry.not_before = entry.not_before.min(owner.start);
    entry.commands.extend(command);
}

fn end_all(known: &BTreeMap<String, Run>) -> io::Result<Vec<Leftover>> {
    let mut found: Vec<(Leftover, OwnedFd)> = Vec::new();
    for _ in 0..PASSES {
        let before = found.len();
        for (pid, stat) in ledger::all_processes()? {
            let seen = found.iter().any(|(leftover, _)| {
                (leftover.pid, leftover.start_time) == (pid.as_raw_nonzero().get(), stat.start_time)
            });
            if !seen && let Some(owned) = owned(known, pid, stat) {
                let _ = pidfd_send_signal(&owned.1, Signal::KILL);
                found.push(owned);
            }
        }
        if found.len() == before {
            break;
        }
    }
    let deadline = Instant::now() + LIMIT;
    Ok(found
        .into_iter()
        .map(|(mut leftover, fd)| {
            leftover.ended = ends_before(&fd, deadline);
            leftover
        })
        .collect())
}

/// Returns the process and a handle on it if it is ours beyond doubt.
fn owned(known: &BTreeMap<String, Run>, pid: Pid, stat: Stat) -> Option<(Leftover, OwnedFd)> {
    if stat.zombie || pid == getpid() {
        return None;
    }
    // The handle first: what is read afterwards, with the same start time, is about the process it holds.
    let fd = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    let run_marker = marker::variable_of(pid, marker::RUN_VARIABLE)?
        .into_string()
        .ok()?;
    let run = known.get(&run_marker)?;
    let raw = pid.as_raw_nonzero().get();
    let recorded = run.commands.iter().find(|command| command.pid == raw);
    let in_time = recorded.map_or(stat.start_time >= run.not_before, |command| {
        command.start == stat.start_time
    });
    if !in_time || marker::may_stay(pid) || Stat::of(pid)?.start_time != stat.start_time {
        return None;
    }
    let (start_time, command) = (stat.start_time, command_line(pid));
    Some((
        Leftover {
            pid: raw,
            start_time,
            run_marker,
            command,
            ended: false,
        },
        fd,
    ))
}

fn command_line(pid: Pid) -> String {
    let mut words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    words
        .iter_mut()
        .filter(|byte| **byte == 0)
        .for_each(|byte| *byte = b' ');
    String::from_utf8_lossy(words.trim_ascii())
        .chars()
        .take(200)
        .collect()
}

fn ends_before(fd: &OwnedFd, deadline: Instant) -> bool {
    let left = deadline.saturating_duration_since(Instant::now());
    let Ok(left) = Timespec::try_from(left) else {
        return false;
    };
    let mut polled = [PollFd::new(fd, PollFlags::IN)];
    matches!(poll(&mut polled, Some(&left)), Ok(1..))
}
