//! Creating the database and bringing an older one up to date.
//!
//! Migrations are numbered from 1 without gaps and only ever appended to; `user_version` holds the last one applied.
//! A database of a newer build is refused before anything in it is read or changed. An older one is copied whole
//! (`VACUUM INTO pentad-v<N>.db`) before all its missing migrations run in one transaction.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pentad_fail::{Point, point};
use pentad_program::StoreError;
use rusqlite::{Connection, TransactionBehavior};

use crate::connection::{self, Purpose};
use crate::fault::{Fault, file_error};

/// Marks a file as a journal of ours: "Pntd".
pub(crate) const APPLICATION_ID: i32 = 0x506E_7464;

/// The migrations of this build.
pub(crate) const MIGRATIONS: &[&str] = &[
    include_str!("schema/0001.sql"),
    include_str!("schema/0002.sql"),
    include_str!("schema/0003.sql"),
];

/// What a database file says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    /// Nothing is in it yet.
    Empty,
    /// This many migrations were applied.
    Version(usize),
}

/// Opens the database for writing, after creating or migrating it where needed.
pub(crate) fn prepare(path: &Path, migrations: &[&str], busy: Duration) -> Result<Connection, Fault> {
    let newest = migrations.len();
    if header(path)? == Some(Format::Version(newest)) {
        let connection = connection::open(path, Purpose::Write, busy)?;
        if inspect(path, &connection, newest)? == Format::Version(newest) {
            return ready(path, connection);
        }
    }
    refuse_before_opening(path, newest)?;
    let _lock = lock(path, busy)?;
    // Another process may have done it while this one waited.
    let found = if header(path)?.is_some() {
        let looking = connection::open(path, Purpose::Inspect, busy)?;
        inspect(path, &looking, newest)?
    } else {
        Format::Empty
    };
    make_private(path)?;
    let mut connection = connection::open(path, Purpose::Write, busy)?;
    match found {
        Format::Version(version) if version == newest => {}
        Format::Version(version) => {
            back_up(path, &connection, version)?;
            apply(&mut connection, migrations, version)?;
        }
        Format::Empty => {
            connection.execute_batch("PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL;")?;
            apply(&mut connection, migrations, 0)?;
            point(Point::JournalMigrateSyncBefore);
            sync_folder(path)?;
            sync_folder(path.parent().unwrap_or(path))?;
        }
    }
    ready(path, connection)
}

fn ready(path: &Path, connection: Connection) -> Result<Connection, Fault> {
    if connection.is_readonly("main")? {
        return Err(unusable(
            path,
            "is read-only; make the folder writable, or point PENTAD_HOME to another one",
        ));
    }
    connection::configure(&connection, Purpose::Write)?;
    Ok(connection)
}

fn unusable(path: &Path, what: &str) -> Fault {
    StoreError::Unusable(format!("{} {what}", path.display())).into()
}

fn newer(path: &Path, version: usize, newest: usize) -> Fault {
    unusable(
        path,
        &format!(
            "has format {version}, and this build reads up to {newest}; nothing was changed. Use a newer pentad, or \
             point PENTAD_HOME to another folder"
        ),
    )
}

fn foreign(path: &Path) -> Fault {
    unusable(
        path,
        "is no journal of Pentad; move it away, or point PENTAD_HOME to another folder",
    )
}

/// Reads the first bytes of the file, without SQLite: what they refuse is not even opened.
fn header(path: &Path) -> Result<Option<Format>, Fault> {
    let mut bytes = Vec::with_capacity(100);
    match File::open(path) {
        Ok(file) => file
            .take(100)
            .read_to_end(&mut bytes)
            .map_err(|e| unusable(path, &format!("cannot be read: {e}")))?,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => {
            return Err(unusable(
                path,
                &format!("cannot be opened: {e}; check its permissions"),
            ));
        }
    };
    if bytes.is_empty() {
        return Ok(Some(Format::Empty));
    }
    let field = |at: usize| {
        let four = bytes.get(at..at + 4).and_then(|b| <[u8; 4]>::try_from(b).ok());
        four.map(i32::from_be_bytes)
    };
    let sound = bytes.starts_with(b"SQLite format 3\0");
    let (true, Some(version), Some(application)) = (sound, field(60), field(68)) else {
        // A first page that a loss of power has torn is undone by the rollback journal, which is synced before it.
        return if rollback_journal(path).exists() {
            Ok(Some(Format::Empty))
        } else {
            Err(foreign(path))
        };
    };
    // A file that was created but not filled before a crash has neither number; SQLite will tell what is in it.
    if application == 0 && version == 0 {
        return Ok(Some(Format::Empty));
    }
    if application != APPLICATION_ID {
        return Err(foreign(path));
    }
    Ok(Some(Format::Version(usize::try_from(version).unwrap_or(0))))
}

/// Returns where SQLite keeps what undoes a transaction before the database has a write-ahead log.
fn rollback_journal(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-journal");
    name.into()
}

fn refuse_before_opening(path: &Path, newest: usize) -> Result<(), Fault> {
    match header(path)? {
        Some(Format::Version(version)) if version > newest => Err(newer(path, version, newest)),
        _ => Ok(()),
    }
}

/// Asks SQLite for the same: the newest first page may still be in the WAL.
fn inspect(path: &Path, connection: &Connection, newest: usize) -> Result<Format, Fault> {
    let number = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    let (application, version) = (number("application_id")?, number("user_version")?);
    if application == 0 && version == 0 {
        let tables: i64 = connection.query_one("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        return if tables == 0 {
            Ok(Format::Empty)
        } else {
            Err(foreign(path))
        };
    }
    if application != APPLICATION_ID {
        return Err(foreign(path));
    }
    let version = usize::try_from(version).unwrap_or(0);
    if version > newest {
        // Closing must not move the newer build's pages about.
        connection.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        return Err(newer(path, version, newest));
    }
    Ok(Format::Version(version))
}

fn apply(connection: &mut Connection, migrations: &[&str], from: usize) -> Result<(), Fault> {
    point(Point::JournalMigrateBegin);
    connection.execute_batch("PRAGMA synchronous = FULL; PRAGMA foreign_keys = OFF;")?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for migration in migrations.iter().skip(from) {
        transaction.execute_batch(migration)?;
    }
    let newest = i32::try_from(migrations.len()).unwrap_or(i32::MAX);
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", newest)?;
    let orphans: i64 = transaction.query_one("SELECT count(*) FROM pragma_foreign_key_check", [], |row| {
        row.get(0)
    })?;
    if orphans > 0 {
        let text =
            format!("a migration left {orphans} rows without the row they belong to; nothing was changed");
        return Err(StoreError::Unusable(text).into());
    }
    point(Point::JournalMigrateCommitBefore);
    transaction.commit()?;
    point(Point::JournalMigrateCommitAfter);
    // The first page now stands in the file itself, where the next start looks.
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(())
}

/// Returns where the copy of a database of an older format is kept.
pub(crate) fn backup_path(path: &Path, version: usize) -> PathBuf {
    path.with_file_name(format!("pentad-v{version}.db"))
}

fn back_up(path: &Path, connection: &Connection, version: usize) -> Result<(), Fault> {
    let copy = backup_path(path, version);
    let partial = copy.with_extension("partial");
    match std::fs::remove_file(&partial) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(file_error(&partial, &e).into()),
        _ => {}
    }
    make_private(&partial)?;
    let target = partial
        .to_str()
        .ok_or_else(|| unusable(path, "lies in a folder whose name is no text"))?;
    connection.execute("VACUUM INTO ?1", [target])?;
    let kept = File::open(&partial).and_then(|file| {
        file.sync_all()?;
        std::fs::rename(&partial, &copy)
    });
    kept.map_err(|e| file_error(&copy, &e))?;
    sync_folder(&copy)
}

/// Returns how a file is created that nobody else may read; one that is there stays as it is.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(0o600);
    options
}

/// Creates a file that nobody else may read; SQLite gives its log the same permissions.
fn make_private(path: &Path) -> Result<(), Fault> {
    private().open(path).map(|_| ()).map_err(|e| {
        unusable(
            path,
            &format!("cannot be created: {e}; check the folder's permissions"),
        )
    })
}

fn sync_folder(path: &Path) -> Result<(), Fault> {
    let folder = path.parent().unwrap_or(path);
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(|e| file_error(folder, &e).into())
}

/// Keeps two processes from creating or migrating the same file at once; ends with the returned file.
fn lock(path: &Path, limit: Duration) -> Result<File, Fault> {
    let path = path.with_extension("lock");
    let file = private().open(&path).map_err(|e| {
        unusable(
            &path,
            &format!("cannot be created: {e}; check the folder's permissions"),
        )
    })?;
    let since = Instant::now();
    loop {
        match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) if since.elapsed() < limit => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(e) => {
                return Err(unusable(
                    &path,
                    &format!(
                        "is held by another process that creates or migrates the journal ({e}); repeat when it is done"
                    ),
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests;
