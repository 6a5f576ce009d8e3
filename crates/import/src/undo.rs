//! Putting a client's file back, byte for byte.

use std::io;
use std::path::{Path, PathBuf};

use pentad_keeper::Home;
use serde_json::Value;

use crate::apply::{ApplyError, lock};
use crate::client::{Client, Scope, Surroundings, places};
use crate::file::{BYTE_ORDER_MARK, Snapshot, SnapshotError, without_mark};
use crate::record::{Record, digest};
use crate::replace::{ReplaceError, Replacement, back_up, backups};
use crate::syntax::{Syntax, SyntaxError};

/// How far an undo goes when the file is not what the import wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Insist {
    /// Not at all.
    #[default]
    No,
    /// The servers come back, and what was changed since stays.
    Merge,
    /// The whole old file comes back, and the present one is kept as a backup.
    Force,
}

/// Why a file was not put back.
#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    /// Nothing of it was imported.
    #[error("{path} was not changed by an import of this home{}\nNext: {}", if .backup.is_some() { ", but a backup lies beside it" } else { "" }, .backup.as_ref().map_or_else(|| "name the file, or the home that imported it with --home".to_owned(), |backup| format!("--force puts {} back", backup.display())))]
    Nothing {
        /// The file.
        path: PathBuf,
        /// The newest backup beside it.
        backup: Option<PathBuf>,
    },
    /// The file is not what the import wrote.
    #[error(
        "{path} was changed after the import{differs}; it was left as it is\nNext: --undo --merge puts the servers back and keeps what was changed since; --undo --force puts the whole old file back and keeps this one as a backup"
    )]
    Changed {
        /// The file.
        path: PathBuf,
        /// What differs from the backup, by key.
        differs: String,
    },
    /// The servers cannot be put back beside what was changed.
    #[error(
        "{path} was changed after the import, and the servers cannot be put back into it: {source}; it was left as it is\nNext: put them back by hand from {backup}, or use --undo --force"
    )]
    NotMerged {
        /// The file.
        path: PathBuf,
        /// What stands in the way.
        source: SyntaxError,
        /// The backup.
        backup: PathBuf,
    },
    /// The backup is not what was put away.
    #[error(
        "{backup} is not the file that was put away; nothing was changed\nNext: compare it with {path} by hand, or use --force"
    )]
    Backup {
        /// The backup.
        backup: PathBuf,
        /// The file.
        path: PathBuf,
    },
    /// A file cannot be read.
    #[error("{path} cannot be read: {source}\nNext: check the path, its owner and its permissions")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file cannot be replaced.
    #[error(transparent)]
    Replace(#[from] ReplaceError),
    /// The lock cannot be had.
    #[error(transparent)]
    Apply(#[from] ApplyError),
}

/// What was undone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undone {
    /// The file that is as it was.
    pub file: PathBuf,
    /// The servers that stay in our configuration.
    pub servers: Vec<String>,
    /// Where the file that was replaced by force lies.
    pub replaced: Option<PathBuf>,
    /// Whether only the servers came back, into a file that was changed since.
    pub merged: bool,
}

/// Returns which of a client's files an undo means: the one that was imported, else the first that exists.
#[must_use]
pub fn undo_path(home: &Home, client: Client, scope: Scope, around: &Surroundings) -> PathBuf {
    let places = places(client, scope, around);
    let imported = |path: &&PathBuf| Record::newest(home, &behind(path)).is_some();
    let exists = |path: &&PathBuf| path.exists();
    let found = places
        .iter()
        .find(imported)
        .or_else(|| places.iter().find(exists));
    found.or_else(|| places.first()).cloned().unwrap_or_default()
}

/// Puts the file at `path` back as it was before its newest import.
///
/// # Errors
/// Refuses when the file is not what the import wrote, unless `insist` says what is wanted then.
pub fn undo(home: &Home, path: &Path, insist: Insist) -> Result<Undone, UndoError> {
    let _lock = lock(home)?;
    let target = behind(path);
    let Some(record) = Record::newest(home, &target) else {
        return without_record(path, &target, insist == Insist::Force);
    };
    let mut old = read(&record.backup)?.ok_or_else(|| gone(&record.backup))?;
    let now = read(&target)?;
    if insist != Insist::Force && digest(&old.bytes) != record.before {
        return Err(UndoError::Backup {
            backup: record.backup,
            path: path.to_path_buf(),
        });
    }
    let found = now.as_ref().map(|now| digest(&now.bytes));
    let known = found
        .as_ref()
        .is_some_and(|found| [&record.written, &record.before].contains(&found));
    let mut merged = false;
    match (known, insist, &now) {
        (true, _, _) | (false, Insist::Force, _) => {}
        (false, Insist::Merge, Some(now)) => {
            old.bytes = merge(path, &record, &old.bytes, &now.bytes)?;
            merged = true;
        }
        (false, Insist::No | Insist::Merge, _) => {
            let differs = now.map_or_else(
                || ", and is gone".to_owned(),
                |now| differing(record.syntax, &old.bytes, &now.bytes),
            );
            return Err(UndoError::Changed {
                path: path.to_path_buf(),
                differs,
            });
        }
    }
    let replaced = restore(&target, &old, now.as_ref(), !known && !merged)?;
    // The servers are back where they were, so what is left over is litter at worst.
    let _ = record.forget(home);
    let _ = std::fs::remove_file(&record.backup);
    Ok(Undone {
        file: path.to_path_buf(),
        servers: record.servers,
        replaced,
        merged,
    })
}

/// Puts the servers of the old file into the present one.
fn merge(path: &Path, record: &Record, old: &[u8], now: &[u8]) -> Result<Vec<u8>, UndoError> {
    let (old, now) = (String::from_utf8_lossy(old), String::from_utf8_lossy(now));
    let bare = without_mark(&now);
    let restored = record.syntax.restore(bare, without_mark(&old), &record.changes);
    let text = restored.map_err(|source| UndoError::NotMerged {
        path: path.to_path_buf(),
        source,
        backup: record.backup.clone(),
    })?;
    let mark = if bare.len() == now.len() {
        ""
    } else {
        BYTE_ORDER_MARK
    };
    Ok(format!("{mark}{text}").into_bytes())
}

/// Puts the newest backup beside the file back, which only force may do: nobody knows what it is.
fn without_record(path: &Path, target: &Path, force: bool) -> Result<Undone, UndoError> {
    let backup = backups(target).pop().map(|(_, backup)| backup);
    let Some(backup) = backup.filter(|_| force) else {
        return Err(UndoError::Nothing {
            path: path.to_path_buf(),
            backup: backups(target).pop().map(|(_, backup)| backup),
        });
    };
    let old = read(&backup)?.ok_or_else(|| gone(&backup))?;
    let now = read(target)?;
    let changed = now.as_ref().is_some_and(|now| now.bytes != old.bytes);
    let replaced = restore(target, &old, now.as_ref(), changed)?;
    Ok(Undone {
        file: path.to_path_buf(),
        servers: Vec::new(),
        replaced,
        merged: false,
    })
}

fn restore(
    target: &Path,
    old: &Snapshot,
    now: Option<&Snapshot>,
    keep: bool,
) -> Result<Option<PathBuf>, UndoError> {
    let like = now.unwrap_or(old);
    let replacement = Replacement::prepare(target, &old.bytes, like.mode, like.owner)?;
    let replaced = match now.filter(|_| keep) {
        Some(now) => Some(back_up(target, &now.bytes)?.0),
        None => None,
    };
    replacement.commit()?;
    Ok(replaced)
}

/// Follows links, also when the file itself is gone.
fn behind(path: &Path) -> PathBuf {
    let folder = || {
        let absolute = std::path::absolute(path).ok()?;
        Some(
            std::fs::canonicalize(absolute.parent()?)
                .ok()?
                .join(absolute.file_name()?),
        )
    };
    std::fs::canonicalize(path)
        .ok()
        .or_else(folder)
        .unwrap_or_else(|| path.to_path_buf())
}

fn read(path: &Path) -> Result<Option<Snapshot>, UndoError> {
    match Snapshot::take(path) {
        Ok(snapshot) => Ok(Some(snapshot)),
        Err(SnapshotError::Unreadable(error)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(SnapshotError::Unreadable(source)) => Err(UndoError::Unreadable {
            path: path.to_path_buf(),
            source,
        }),
        Err(SnapshotError::NotAFile | SnapshotError::TooLarge) => Err(UndoError::Unreadable {
            path: path.to_path_buf(),
            source: io::Error::other("it is no file of a client"),
        }),
    }
}

fn gone(path: &Path) -> UndoError {
    UndoError::Unreadable {
        path: path.to_path_buf(),
        source: io::ErrorKind::NotFound.into(),
    }
}

/// Names the keys that differ; values are nobody's to print.
fn differing(syntax: Syntax, old: &[u8], now: &[u8]) -> String {
    let map = |bytes: &[u8]| match syntax.read(without_mark(&String::from_utf8_lossy(bytes))) {
        Ok(Value::Object(map)) => Some(map),
        Ok(_) | Err(_) => None,
    };
    let (Some(old), Some(now)) = (map(old), map(now)) else {
        return format!(", and is no valid {} now", syntax.name());
    };
    let mut keys: Vec<String> = old
        .keys()
        .chain(now.keys().filter(|key| !old.contains_key(*key)))
        .filter(|key| old.get(*key) != now.get(*key))
        .map(|key| pentad_model::text::visible(&pentad_model::text::excerpt(key, 40)))
        .collect();
    let more = keys.len().saturating_sub(8);
    keys.truncate(8);
    let ending = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    format!(
        " (compared with the file before it, these differ: {}{ending})",
        keys.join(", ")
    )
}
