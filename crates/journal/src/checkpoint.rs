//! Moving the write-ahead log into the database beside the writer, which must not wait for the disk.

use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::connection::{self, Purpose};
use crate::fault::Fault;

/// Batches after which the log is moved; a batch is a handful of pages.
const BATCHES: u32 = 64;
/// How long a checkpoint waits for another process that does the same.
const WAIT: Duration = Duration::from_millis(50);

/// Starts a checkpoint now and then, one at a time, on a thread and a connection of its own.
pub(crate) struct Checkpoints {
    database: PathBuf,
    until_next: u32,
    running: Option<JoinHandle<()>>,
}

impl Checkpoints {
    /// Returns the checkpoints of a database.
    pub(crate) fn of(database: &Path) -> Self {
        Self {
            database: database.to_path_buf(),
            until_next: BATCHES,
            running: None,
        }
    }

    /// Counts a batch; never waits.
    pub(crate) fn after_batch(&mut self) {
        self.until_next = self.until_next.saturating_sub(1);
        let busy = self.running.as_ref().is_some_and(|thread| !thread.is_finished());
        if self.until_next > 0 || busy {
            return;
        }
        self.until_next = BATCHES;
        self.join();
        let database = self.database.clone();
        let started = std::thread::Builder::new()
            .name("journal-checkpoint".to_owned())
            .spawn(move || {
                if let Err(error) = checkpoint(&database) {
                    tracing::warn!(%error, "the write-ahead log was not moved; the next checkpoint does it");
                }
            });
        match started {
            Ok(thread) => self.running = Some(thread),
            Err(error) => tracing::warn!(%error, "no thread for a checkpoint; the next one tries again"),
        }
    }

    /// Waits for the one that runs.
    pub(crate) fn join(&mut self) {
        if let Some(thread) = self.running.take() {
            // A panic there has been reported by its thread, and left the database as it was.
            let _ = thread.join();
        }
    }
}

/// Moves what no reader needs any more; neither readers nor the writer wait for it.
fn checkpoint(database: &Path) -> Result<(), Fault> {
    let connection = connection::open(database, Purpose::Inspect, WAIT)?;
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?;
    Ok(())
}
