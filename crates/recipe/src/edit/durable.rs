//! Writes and deletes files so that they survive power loss and never overwrite what changed meanwhile.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};

const LOCK_LIMIT: Duration = Duration::from_secs(5);
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Says why a file was not changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DurableError {
    /// Somebody else changed the file.
    #[error("{path} changed meanwhile")]
    Changed { path: PathBuf },
    /// Another process writes to the directory for too long.
    #[error("{path} is being changed by another process; gave up after {} s", LOCK_LIMIT.as_secs())]
    Busy { path: PathBuf },
    /// The system refused.
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: io::Error },
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> DurableError + '_ {
    move |source| DurableError::Io {
        path: path.to_owned(),
        source,
    }
}

/// Holds a directory against other writers of ours until it is dropped.
#[derive(Debug)]
pub(crate) struct DirectoryLock(File);

impl DirectoryLock {
    /// Takes the lock, making the directory if it is missing.
    pub(crate) fn take(dir: &Path) -> Result<Self, DurableError> {
        fs::create_dir_all(dir).map_err(io_error(dir))?;
        let file = File::open(dir).map_err(io_error(dir))?;
        let start = Instant::now();
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Self(file)),
                Err(error) if error == rustix::io::Errno::WOULDBLOCK => {}
                Err(error) => return Err(io_error(dir)(error.into())),
            }
            if start.elapsed() > LOCK_LIMIT {
                return Err(DurableError::Busy { path: dir.to_owned() });
            }
            std::thread::sleep(LOCK_PAUSE);
        }
    }

    fn sync(&self, dir: &Path) -> Result<(), DurableError> {
        self.0.sync_all().map_err(io_error(dir))
    }

    /// Writes a file; `old` is what it must have now, nothing if it must not exist.
    ///
    /// The new text is complete on disk before it gets the name. An existing file changes places with it, so that its last
    /// content can be compared after the fact and put back if somebody else had changed it.
    pub(crate) fn write(&self, path: &Path, old: Option<&[u8]>, new: &[u8]) -> Result<(), DurableError> {
        // A link into a directory of configuration files stays a link.
        let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let dir = path.parent().unwrap_or_else(|| Path::new("."));
        let mut temp = tempfile::Builder::new()
            .prefix(".pentad-")
            .suffix(".tmp")
            .tempfile_in(dir)
            .map_err(io_error(dir))?;
        temp.write_all(new).map_err(io_error(path))?;
        adopt_permissions(temp.as_file(), path).map_err(io_error(path))?;
        temp.as_file().sync_all().map_err(io_error(path))?;
        match old {
            None => rename_new(temp.path(), path)?,
            Some(old) => {
                exchange(temp.path(), path)?;
                if fs::read(temp.path()).map_err(io_error(path))? != old {
                    exchange(temp.path(), path)?;
                    return Err(DurableError::Changed { path: path.clone() });
                }
            }
        }
        // The name now belongs to the new file, or the temporary name to the old one: either may go.
        drop(temp);
        self.sync(dir)
    }

    /// Deletes a file that must have this content.
    pub(crate) fn delete(&self, path: &Path, old: &[u8]) -> Result<(), DurableError> {
        let dir = path.parent().unwrap_or_else(|| Path::new("."));
        let grave = tempfile::Builder::new()
            .prefix(".pentad-")
            .suffix(".tmp")
            .tempfile_in(dir)
            .map_err(io_error(dir))?;
        if fs::read(path).map_err(io_error(path))? != old {
            return Err(DurableError::Changed {
                path: path.to_owned(),
            });
        }
        fs::rename(path, grave.path()).map_err(io_error(path))?;
        if fs::read(grave.path()).map_err(io_error(path))? != old {
            rename_new(grave.path(), path)?;
            return Err(DurableError::Changed {
                path: path.to_owned(),
            });
        }
        drop(grave);
        self.sync(dir)
    }
}

fn rename_new(from: &Path, to: &Path) -> Result<(), DurableError> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(()),
        Err(error) if error == rustix::io::Errno::EXIST => Err(DurableError::Changed { path: to.to_owned() }),
        Err(error) if lacks_flags(error) => {
            // The file system cannot promise it: look, then rename.
            if to.exists() {
                return Err(DurableError::Changed { path: to.to_owned() });
            }
            fs::rename(from, to).map_err(io_error(to))
        }
        Err(error) => Err(io_error(to)(error.into())),
    }
}

fn exchange(a: &Path, b: &Path) -> Result<(), DurableError> {
    match renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE) {
        Ok(()) => Ok(()),
        Err(error) if lacks_flags(error) => swap_in_steps(a, b).map_err(io_error(b)),
        Err(error) if error == rustix::io::Errno::NOENT => Err(DurableError::Changed { path: b.to_owned() }),
        Err(error) => Err(io_error(b)(error.into())),
    }
}

/// Exchanges two files where the system cannot do it in one step; the name has a file at every moment but one.
fn swap_in_steps(a: &Path, b: &Path) -> io::Result<()> {
    let aside = a.with_extension("old.tmp");
    fs::hard_link(b, &aside).or_else(|_| fs::copy(b, &aside).map(drop))?;
    fs::rename(a, b)?;
    fs::rename(&aside, a)
}

fn lacks_flags(error: rustix::io::Errno) -> bool {
    matches!(
        error,
        rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::NOTSUP
    )
}

fn adopt_permissions(file: &File, path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let permissions = match fs::metadata(path) {
        Ok(existing) => existing.permissions(),
        Err(_) => fs::Permissions::from_mode(0o644),
    };
    file.set_permissions(permissions)
}
