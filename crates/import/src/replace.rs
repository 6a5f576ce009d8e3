//! Putting a new text in the place of a client's file, or nothing at all.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, Gid, Uid, access};
use tempfile::TempPath;

/// Between a file's name and the number of its backup.
const BACKUP_MARK: &str = ".pentad-backup-";

/// Why a file cannot be replaced. It is as it was.
#[derive(Debug, thiserror::Error)]
pub enum ReplaceError {
    /// The file or its folder takes no changes.
    #[error(
        "{path} is read-only; nothing was changed\nNext: make it writable (chmod u+w), or change the place it is made from, then repeat"
    )]
    ReadOnly {
        /// What takes no changes.
        path: PathBuf,
    },
    /// The file has several names.
    #[error(
        "{path} has {links} names (hard links), of which a new file would keep one; nothing was changed\nNext: copy it to a file of its own, then repeat"
    )]
    Linked {
        /// The file.
        path: PathBuf,
        /// How many.
        links: u64,
    },
    /// The owner cannot be kept.
    #[error(
        "{path} belongs to another user or group, which could not be kept; nothing was changed\nNext: run this as its owner"
    )]
    Owner {
        /// The file.
        path: PathBuf,
    },
    /// The system refused.
    #[error("{path} could not be written: {source}\nNext: free space or check permissions, then repeat")]
    NotWritten {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// A new text beside the file that it will replace, already on disk.
pub struct Replacement {
    target: PathBuf,
    folder: PathBuf,
    temporary: TempPath,
}

impl Replacement {
    /// Writes `text` beside `target` with the given mode and owner, durably. The target is not touched.
    ///
    /// # Errors
    /// Fails when the target could not be replaced afterwards.
    pub fn prepare(target: &Path, text: &[u8], mode: u32, owner: (u32, u32)) -> Result<Self, ReplaceError> {
        let not_written = |source| ReplaceError::NotWritten {
            path: target.to_path_buf(),
            source,
        };
        let folder = target.parent().unwrap_or_else(|| Path::new("/")).to_path_buf();
        check(target, &folder)?;
        let mut file = tempfile::Builder::new()
            .prefix(".pentad-")
            .suffix(".tmp")
            .tempfile_in(&folder)
            .map_err(not_written)?;
        let found = file.as_file().metadata().map_err(not_written)?;
        if (found.uid(), found.gid()) != owner {
            let (user, group) = (Uid::from_raw(owner.0), Gid::from_raw(owner.1));
            rustix::fs::fchown(file.as_file(), Some(user), Some(group)).map_err(|_| ReplaceError::Owner {
                path: target.to_path_buf(),
            })?;
        }
        let written = file
            .write_all(text)
            .and_then(|()| file.as_file().set_permissions(Permissions::from_mode(mode)))
            .and_then(|()| file.as_file().sync_all());
        written.map_err(not_written)?;
        Ok(Self {
            target: target.to_path_buf(),
            folder,
            temporary: file.into_temp_path(),
        })
    }

    /// Moves the text into its place, so that a reader finds the old or the new one.
    ///
    /// # Errors
    /// Fails as the system does; the target is then as it was.
    pub fn commit(self) -> Result<(), ReplaceError> {
        let not_written = |source| ReplaceError::NotWritten {
            path: self.target.clone(),
            source,
        };
        self.temporary
            .persist(&self.target)
            .map_err(|error| not_written(error.error))?;
        File::open(&self.folder)
            .and_then(|folder| folder.sync_all())
            .map_err(not_written)
    }
}

/// Mode bits count for everybody: a file without any write bit says that it is not to be changed.
fn check(target: &Path, folder: &Path) -> Result<(), ReplaceError> {
    for path in [target, folder] {
        let read_only = || ReplaceError::ReadOnly {
            path: path.to_path_buf(),
        };
        let Ok(found) = path.metadata() else {
            continue;
        };
        if found.mode() & 0o222 == 0 || access(path, Access::WRITE_OK).is_err() {
            return Err(read_only());
        }
        if found.is_file() && found.nlink() > 1 {
            return Err(ReplaceError::Linked {
                path: path.to_path_buf(),
                links: found.nlink(),
            });
        }
    }
    Ok(())
}

/// Keeps `bytes` in a new file beside `target` that only its owner reads, durably.
///
/// # Errors
/// Fails as the system does.
pub fn back_up(target: &Path, bytes: &[u8]) -> Result<(PathBuf, u64), ReplaceError> {
    let mut number = backups(target).last().map_or(1, |(number, _)| number + 1);
    loop {
        let path = beside(target, number);
        let not_written = |source| ReplaceError::NotWritten {
            path: path.clone(),
            source,
        };
        let opened = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path);
        let mut file = match opened {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                number += 1;
                continue;
            }
            Err(source) => return Err(not_written(source)),
        };
        let written = file.write_all(bytes).and_then(|()| file.sync_all());
        written.map_err(not_written)?;
        return Ok((path, number));
    }
}

fn beside(target: &Path, number: u64) -> PathBuf {
    let mut name = target.file_name().unwrap_or_default().to_os_string();
    name.push(format!("{BACKUP_MARK}{number}"));
    target.with_file_name(name)
}

/// Returns the backups beside a file, the oldest first.
#[must_use]
pub fn backups(target: &Path) -> Vec<(u64, PathBuf)> {
    let name = target
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let folder = target.parent().map(std::fs::read_dir);
    let mut found: Vec<(u64, PathBuf)> = folder
        .and_then(Result::ok)
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let number = path
                .file_name()?
                .to_str()?
                .strip_prefix(&name)?
                .strip_prefix(BACKUP_MARK)?
                .parse()
                .ok()?;
            Some((number, path))
        })
        .collect();
    found.sort();
    found
}
