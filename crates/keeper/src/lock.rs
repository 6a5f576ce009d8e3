//! Locks: one keeper a home, one writer a file.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::home::Home;

/// Longest wait for another writer of the same file.
pub const WRITER_LIMIT: Duration = Duration::from_secs(30);

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
}

/// Holds the right to replace one file; released when dropped, and by the system when the process dies.
#[derive(Debug)]
pub struct WriterLock(#[allow(dead_code)] File);

impl WriterLock {
    /// Takes the lock file at `path`, waiting at most `limit` for another holder.
    ///
    /// The lock file is a file of its own and is never removed: the locked file is replaced by renaming, and a lock on
    /// a replaced file would protect nothing.
    ///
    /// # Errors
    /// Fails when the lock file cannot be opened; with `WouldBlock` when the limit is over.
    pub fn take(path: &Path, limit: Duration) -> io::Result<Self> {
        let file = open(path)?;
        let end = Instant::now() + limit;
        let mut pause = Duration::from_micros(200);
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self(file)),
                Err(TryLockError::WouldBlock) if Instant::now() < end => {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(8));
                }
                Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::WouldBlock.into()),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }
}

/// Why the keeper's lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum KeeperLockError {
    /// Another process is the keeper of this home.
    #[error("{path} is held{}: another pentad works in this home", .pid.map(|pid| format!(" by process {pid}")).unwrap_or_default())]
    Held {
        /// The lock file.
        path: PathBuf,
        /// The holder, as it wrote itself.
        pid: Option<u32>,
    },
    /// The lock file cannot be used.
    #[error("{path} cannot be locked: {source}")]
    Unusable {
        /// The lock file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Holds a home: whoever has it alone opens the database and runs things.
#[derive(Debug)]
pub struct KeeperLock(#[allow(dead_code)] File);

impl KeeperLock {
    /// Takes the home's lock at once, or says who holds it.
    ///
    /// # Errors
    /// Fails when another process holds it or the lock file cannot be used.
    pub fn take(home: &Home) -> Result<Self, KeeperLockError> {
        let path = home.state().join("keeper.lock");
        let unusable = |source| KeeperLockError::Unusable {
            path: path.clone(),
            source,
        };
        let mut file = open(&path).map_err(unusable)?;
        match file.try_lock() {
            Ok(()) => {
                let written = file
                    .set_len(0)
                    .and_then(|()| writeln!(file, "{}", std::process::id()));
                written.map_err(unusable)?;
                Ok(Self(file))
            }
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                let read = (&mut file).take(32).read_to_string(&mut text);
                let pid = read.ok().and_then(|_| text.trim().parse().ok());
                Err(KeeperLockError::Held { path, pid })
            }
            Err(TryLockError::Error(source)) => Err(unusable(source)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_has_one_keeper() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::locate(Some(dir.path()), None, None).unwrap();
        home.prepare().unwrap();
        let lock = KeeperLock::take(&home).unwrap();
        let own = std::process::id();
        match KeeperLock::take(&home).unwrap_err() {
            KeeperLockError::Held { pid, .. } => assert_eq!(pid, Some(own)),
            other => panic!("{other}"),
        }
        drop(lock);
        KeeperLock::take(&home).unwrap();
    }
}
