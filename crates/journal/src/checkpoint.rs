//! Moving the write-ahead log into the database beside the writer, which must not wait for the disk.

use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Connection;

use crate::connection::{self, Purpose};
use crate::fault::Fault;

/// Batches between two looks at the log's length.
const BATCHES: u32 = 32;
/// Pages after which the log is moved: rarely enough that the 99th percentile of the waits does not see its syncs.
const PAGES: i64 = 2500;
/// Pages after which a moment without requests is used for it.
const PAGES_AT_REST: i64 = 500;
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
    pub(crate) fn after_batch(&mut self, writer: &Connection) {
        self.until_next = self.until_next.saturating_sub(1);
        let busy = self.running.as_ref().is_some_and(|thread| !thread.is_finished());
        if self.until_next > 0 || busy {
            return;
        }
        self.until_next = BATCHES;
        self.start_beyond(PAGES, writer);
    }

    /// Uses a moment in which nobody waits.
    pub(crate) fn at_rest(&mut self, writer: &Connection) {
        if self.running.as_ref().is_none_or(JoinHandle::is_finished) {
            self.start_beyond(PAGES_AT_REST, writer);
        }
    }

    fn start_beyond(&mut self, pages: i64, writer: &Connection) {
        if pages_to_move(writer).is_ok_and(|waiting| waiting < pages) {
            return;
        }
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

/// Returns how many pages of the log are not in the database yet; changes nothing.
fn pages_to_move(connection: &Connection) -> Result<i64, Fault> {
    Ok(connection
        .prepare_cached("PRAGMA wal_checkpoint(NOOP)")?
        .query_one([], |row| Ok(row.get::<_, i64>(1)? - row.get::<_, i64>(2)?))?)
}

/// Moves what no reader needs any more; neither readers nor the writer wait for it.
fn checkpoint(database: &Path) -> Result<(), Fault> {
    let connection = connection::open(database, Purpose::Inspect, WAIT)?;
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?;
    Ok(())
}
