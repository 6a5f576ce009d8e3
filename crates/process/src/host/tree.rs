//! The living descendants of a process.
//!
//! Linux reads `/proc`. Elsewhere only the process group of the command is known; a descendant that left
//! its group escapes, which is why `execute` is off there.

#[cfg(target_os = "linux")]
use std::collections::BTreeSet;

#[cfg(target_os = "linux")]
use rustix::process::kill_process;
#[cfg(not(target_os = "linux"))]
use rustix::process::kill_process_group;
use rustix::process::{Pid, Signal};

/// Returns every descendant of this process that can be seen now, zombies included.
#[cfg(target_os = "linux")]
pub(crate) fn descendants(root: Pid) -> Vec<Pid> {
    let mut seen = BTreeSet::new();
    let mut queue = children(root);
    while let Some(pid) = queue.pop() {
        if seen.insert(pid.as_raw_nonzero()) {
            queue.extend(children(pid));
        }
    }
    seen.into_iter()
        .map(|raw| raw.get())
        .filter_map(Pid::from_raw)
        .collect()
}

/// Returns the children of every thread of this process.
#[cfg(target_os = "linux")]
pub(crate) fn children(parent: Pid) -> Vec<Pid> {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{parent}/task")) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for thread in threads.flatten() {
        match std::fs::read_to_string(thread.path().join("children")) {
            Ok(list) => found.extend(list.split_ascii_whitespace().filter_map(parse_pid)),
            // A kernel without these files; a thread that just ended has no children to miss.
            Err(_) if !std::path::Path::new("/proc/self/task/self/children").exists() => {
                return children_by_scan(parent);
            }
            Err(_) => {}
        }
    }
    found
}

#[cfg(target_os = "linux")]
fn children_by_scan(parent: Pid) -> Vec<Pid> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| parse_pid(entry.file_name().to_str()?))
        .filter(|pid| Stat::of(*pid).is_some_and(|stat| stat.parent == parent.as_raw_nonzero().get()))
        .collect()
}

#[cfg(target_os = "linux")]
pub(crate) fn parse_pid(text: &str) -> Option<Pid> {
    text.parse().ok().and_then(Pid::from_raw)
}

/// What `/proc/<pid>/stat` says of a process.
#[cfg(target_os = "linux")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) zombie: bool,
    pub(crate) parent: i32,
    pub(crate) session: i32,
    /// Clock ticks since boot; with the pid and the boot id it names a process for ever.
    pub(crate) start_time: u64,
}

#[cfg(target_os = "linux")]
impl Stat {
    pub(crate) fn of(pid: Pid) -> Option<Self> {
        let bytes = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
        Self::parse(&bytes)
    }

    /// Reads the line; the name in parentheses may itself hold spaces and parentheses.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let end_of_name = bytes.iter().rposition(|byte| *byte == b')')?;
        let rest = std::str::from_utf8(bytes.get(end_of_name + 1..)?).ok()?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        Some(Self {
            zombie: matches!(*fields.first()?, "Z" | "X"),
            parent: fields.get(1)?.parse().ok()?,
            session: fields.get(3)?.parse().ok()?,
            start_time: fields.get(19)?.parse().ok()?,
        })
    }
}

/// Sends a signal to every living descendant of `root` and returns whom it reached.
#[cfg(target_os = "linux")]
pub(crate) fn signal_descendants(root: Pid, _command: Pid, signal: Signal) -> Vec<Pid> {
    let mut reached = Vec::new();
    for pid in descendants(root) {
        if Stat::of(pid).is_some_and(|stat| !stat.zombie) && kill_process(pid, signal).is_ok() {
            reached.push(pid);
        }
    }
    reached
}

/// Sends a signal to the command's process group.
#[cfg(not(target_os = "linux"))]
pub(crate) fn signal_descendants(_root: Pid, command: Pid, signal: Signal) -> Vec<Pid> {
    kill_process_group(command, signal)
        .is_ok()
        .then_some(command)
        .into_iter()
        .collect()
}

/// Returns nothing: without `/proc` only the process group is known.
#[cfg(not(target_os = "linux"))]
pub(crate) fn descendants(_root: Pid) -> Vec<Pid> {
    Vec::new()
}

/// Ends what may be left of the command's group where orphans do not come to the warden.
#[cfg(not(target_os = "linux"))]
pub(crate) fn end_unseen(command: Pid) {
    let _ = kill_process_group(command, Signal::KILL);
}

/// Does nothing: a subreaper without children has no descendants.
#[cfg(target_os = "linux")]
pub(crate) fn end_unseen(_command: Pid) {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let line = b"42 (a) b (c)) S 7 42 41 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 98765 1 2 3";
        let stat = Stat {
            zombie: false,
            parent: 7,
            session: 41,
            start_time: 98765,
        };
        assert_eq!(Stat::parse(line), Some(stat));
        assert_eq!(Stat::parse(b"42 (cut"), None);
        assert_eq!(Stat::parse(b"42 (cut) Z 1"), None);
    }
}
