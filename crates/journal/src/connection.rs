//! Connections to the database and what holds for every one of them.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::fault::Fault;

/// Pages in the WAL after which a commit moves them into the database itself: more than the checkpoints beside the writer
/// ever leave, unless batches are very large.
const BACKSTOP_PAGES: u32 = 6000;
/// What a WAL file is cut back to after a checkpoint.
const WAL_KEPT_BYTES: u64 = 8 << 20;
/// Prepared statements that a connection keeps.
const STATEMENTS: usize = 96;

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Looks and refuses; its end leaves the files as they are.
    Inspect,
    /// Creates, migrates and writes.
    Write,
    /// Reads only.
    Read,
}

/// Opens the database without creating it, except for [`Purpose::Write`].
pub(crate) fn open(path: &Path, purpose: Purpose, busy: Duration) -> Result<Connection, Fault> {
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if purpose == Purpose::Write {
        flags |= OpenFlags::SQLITE_OPEN_CREATE;
    }
    let mut connection = Connection::open_with_flags(path, flags)?;
    if purpose == Purpose::Inspect {
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    }
    wait_at_most(&mut connection, busy)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(connection)
}

/// Sets what a connection forgets when it closes.
pub(crate) fn configure(connection: &Connection, purpose: Purpose) -> Result<(), Fault> {
    connection.execute_batch(&format!(
        "PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF; PRAGMA temp_store = MEMORY;
         PRAGMA cache_size = -4096; PRAGMA wal_autocheckpoint = {BACKSTOP_PAGES};
         PRAGMA journal_size_limit = {WAL_KEPT_BYTES};"
    ))?;
    if purpose == Purpose::Read {
        connection.execute_batch("PRAGMA query_only = ON;")?;
    }
    Ok(())
}

/// Sets how long a statement waits for another connection's lock.
pub(crate) fn wait_at_most(connection: &mut Connection, limit: Duration) -> Result<(), Fault> {
    Ok(connection.busy_handler(Some(patience(limit)))?)
}

/// Returns a busy handler that tries often at first. SQLite's own sleeps up to 100 ms, and among eight busy
/// processes the longest sleeper is always too late.
fn patience(limit: Duration) -> impl FnMut(i32) -> bool + Send + 'static {
    let mut since = Instant::now();
    move |attempt| {
        if attempt == 0 {
            since = Instant::now();
        }
        if since.elapsed() >= limit {
            return false;
        }
        let millis = match attempt {
            0..=9 => 1,
            10..=49 => 2,
            _ => 5,
        };
        std::thread::sleep(Duration::from_millis(millis));
        true
    }
}
