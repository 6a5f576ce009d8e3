//! A file that says which processes are ours, for a start after everything was killed at once.
//!
//! Each client has a file of its own, named after its pid and start time, so no two ever share or wait for
//! one. It need not survive a power failure, after which none of its processes exist: nothing is synced.
//! A launch is written before it happens, so there is no moment in which a process of ours is unknown.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::process::{Pid, getpid};
use serde::{Deserialize, Serialize};

use crate::host::tree::{self, Stat};

/// The file is written anew without what has ended once it has grown to this.
const COMPACT_BYTES: usize = 1024 * 1024;

/// A process, named so that no later one can be taken for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessName {
    pub(crate) pid: i32,
    pub(crate) start: u64,
}

impl ProcessName {
    /// Names the process that has this pid now.
    pub(crate) fn of(pid: i32) -> Option<Self> {
        Stat::of(Pid::from_raw(pid)?).map(|stat| Self {
            pid,
            start: stat.start_time,
        })
    }

    pub(crate) fn alive(self) -> bool {
        Pid::from_raw(self.pid)
            .and_then(Stat::of)
            .is_some_and(|stat| stat.start_time == self.start && !stat.zombie)
    }
}

/// One line of a ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum Line {
    /// Whose ledger this is; always the first line.
    Owner { boot: String, owner: ProcessName },
    /// A launch that is about to happen.
    Launch { run: String },
    /// A launch that succeeded.
    Command {
        run: String,
        command: ProcessName,
        warden: ProcessName,
    },
}

/// Returns the id of this boot of the machine; start times count from there.
pub(crate) fn boot_id() -> io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?
        .trim()
        .to_owned())
}

/// Returns the directory of all ledgers.
pub(crate) fn directory(state_dir: &Path) -> PathBuf {
    state_dir.join("processes")
}

/// The ledger that this process writes.
#[derive(Debug)]
pub(crate) struct Ledger {
    path: PathBuf,
    owner: Line,
    open: Mutex<Open>,
}

#[derive(Debug)]
struct Open {
    file: File,
    bytes: usize,
    next: u64,
    live: BTreeMap<u64, Line>,
}

impl Ledger {
    /// Makes this process's ledger under the state directory.
    pub(crate) fn create(state_dir: &Path) -> io::Result<Self> {
        let own = getpid().as_raw_nonzero().get();
        let owner = ProcessName::of(own).ok_or(io::ErrorKind::NotFound)?;
        let directory = directory(state_dir);
        std::fs::create_dir_all(&directory)?;
        // More than one spawner of one process must not share a file either.
        let file = tempfile::Builder::new()
            .prefix(&format!("{}-{}-", owner.pid, owner.start))
            .suffix(".ledger")
            .tempfile_in(&directory)?;
        let (file, path) = file.keep().map_err(|error| error.error)?;
        let owner = Line::Owner {
            boot: boot_id()?,
            owner,
        };
        let open = Open {
            file,
            bytes: 0,
            next: 0,
            live: BTreeMap::new(),
        };
        let ledger = Self {
            path,
            owner,
            open: Mutex::new(open),
        };
        ledger.append(&mut ledger.lock(), &ledger.owner)?;
        Ok(ledger)
    }

    /// Returns where the ledger is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes that a launch is about to happen and returns its number.
    pub(crate) fn launch(&self, run: &str) -> io::Result<u64> {
        let line = Line::Launch { run: run.to_owned() };
        let mut open = self.lock();
        if open.bytes > COMPACT_BYTES {
            self.compact(&mut open)?;
        }
        self.append(&mut open, &line)?;
        let number = open.next;
        open.next += 1;
        open.live.insert(number, line);
        Ok(number)
    }

    /// Writes what the launch led to; a process that is gone already needs no line.
    pub(crate) fn started(&self, number: u64, run: &str, pid: i32, warden: i32) -> io::Result<()> {
        let mut open = self.lock();
        let (Some(command), Some(warden)) = (ProcessName::of(pid), ProcessName::of(warden)) else {
            open.live.remove(&number);
            return Ok(());
        };
        let line = Line::Command {
            run: run.to_owned(),
            command,
            warden,
        };
        self.append(&mut open, &line)?;
        open.live.insert(number, line);
        Ok(())
    }

    /// Forgets a launch that failed.
    pub(crate) fn failed(&self, number: u64) {
        self.lock().live.remove(&number);
    }

    /// Removes the file when every tree has ended.
    pub(crate) fn remove(&self) {
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::debug!(%error, path = %self.path.display(), "the ledger of processes stays behind");
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn append(&self, open: &mut Open, line: &Line) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        open.file.write_all(&text)?;
        open.bytes += text.len();
        Ok(())
    }

    /// Writes the file anew, without the trees whose warden has ended.
    fn compact(&self, open: &mut Open) -> io::Result<()> {
        open.live.retain(|_, line| match line {
            Line::Command { warden, .. } => warden.alive(),
            Line::Owner { .. } | Line::Launch { .. } => true,
        });
        let parent = self.path.parent().unwrap_or_else(|| Path::new("."));
        let (file, fresh) = tempfile::NamedTempFile::new_in(parent)?
            .keep()
            .map_err(|error| error.error)?;
        let old = std::mem::replace(&mut open.file, file);
        open.bytes = 0;
        let lines: Vec<Line> = std::iter::once(&self.owner)
            .chain(open.live.values())
            .cloned()
            .collect();
        let written = lines.iter().try_for_each(|line| self.append(open, line));
        match written.and_then(|()| std::fs::rename(&fresh, &self.path)) {
            Ok(()) => Ok(()),
            Err(error) => {
                open.file = old;
                let _ = std::fs::remove_file(&fresh);
                Err(error)
            }
        }
    }
}

/// Reads a ledger; lines that were cut by the owner's end are passed over.
pub(crate) fn read(path: &Path) -> io::Result<Vec<Line>> {
    let text = std::fs::read(path)?;
    Ok(text
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect())
}

/// Returns every process of this user that can be looked at, with its start time.
pub(crate) fn all_processes() -> io::Result<Vec<(Pid, Stat)>> {
    Ok(std::fs::read_dir("/proc")?
        .flatten()
        .filter_map(|entry| tree::parse_pid(entry.file_name().to_str()?))
        .filter_map(|pid| Stat::of(pid).map(|stat| (pid, stat)))
        .collect())
}
