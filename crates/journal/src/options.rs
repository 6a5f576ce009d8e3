//! How a journal is opened, and who owns the runs that it starts.

use std::time::Duration;

/// The process that started a run: enough to tell later whether it is still the same one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Owner {
    /// Its process id.
    pub pid: u32,
    /// When it was born, in the kernel's ticks since boot; 0 where the system does not tell.
    pub born: u64,
    /// Which boot of the machine; empty where the system does not tell.
    pub boot: String,
}

impl Owner {
    /// Returns this process.
    #[must_use]
    pub fn current() -> Self {
        let pid = std::process::id();
        Self {
            pid,
            born: born(pid).unwrap_or(0),
            boot: boot(),
        }
    }

    /// Tells whether this very process still lives: the same pid, birth and boot.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        if self.boot != boot() {
            return false;
        }
        if self.born != 0 {
            return born(self.pid) == Some(self.born);
        }
        let pid = i32::try_from(self.pid)
            .ok()
            .and_then(rustix::process::Pid::from_raw);
        pid.is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
    }
}

/// Field 22 of `/proc/<pid>/stat`; the command before it may hold anything, so it is counted from the last `)`.
fn born(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|text| text.trim().to_owned())
        .unwrap_or_default()
}

/// How a journal is opened.
#[derive(Debug, Clone)]
pub struct JournalOptions {
    /// The process whose runs these are.
    pub owner: Owner,
    /// How long a write waits for another process before it fails.
    pub busy_timeout: Duration,
    /// How many requests may wait for the writer, and how many for the readers.
    pub queue: usize,
    /// How many connections read.
    pub readers: usize,
    /// How often another process's events are looked for while somebody waits for them.
    pub poll: Duration,
    /// The size that the database may not exceed; a write beyond it fails as on a full disk.
    pub max_database_bytes: Option<u64>,
    /// The largest blob.
    pub max_blob_bytes: u64,
}

impl Default for JournalOptions {
    fn default() -> Self {
        Self {
            owner: Owner::current(),
            busy_timeout: Duration::from_secs(30),
            queue: 1024,
            readers: 2,
            poll: Duration::from_millis(50),
            max_database_bytes: None,
            max_blob_bytes: 4 << 30,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_more_than_its_pid() {
        let own = Owner::current();
        assert!(own.is_alive());
        let reused = Owner {
            born: own.born + 1,
            ..own.clone()
        };
        assert!(own.born == 0 || !reused.is_alive());
        let rebooted = Owner {
            boot: "another".to_owned(),
            ..own
        };
        assert!(!rebooted.is_alive());
    }
}
