//! Files by handle: every step opens one plain name below an open directory and follows no symbolic link.
//!
//! Nothing here compares path texts. Whoever swaps a component for a link between two steps gets an error.

use std::collections::BinaryHeap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::path::{Component, Path};

use cap_std::fs::{Dir, MetadataExt as _};
use pentad_model::Timestamp;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};

/// Beginning of the names of half-written files.
const TEMPORARY: &str = ".pentad-tmp-";

/// What one name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Directory,
    Link,
    Special,
}

/// An opened name.
pub(crate) enum Opened {
    File(File),
    Directory(Dir),
}

/// Opens a directory by its path, following links: only for roots.
pub(crate) fn open_root(path: &Path) -> io::Result<Dir> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::empty())?;
    Ok(Dir::from_std_file(File::from(opened)))
}

/// Splits a relative path into plain names.
///
/// # Errors
/// Fails on `..`, on absolute paths and on prefixes.
pub(crate) fn plain(path: &Path) -> io::Result<Vec<&OsStr>> {
    path.components()
        .filter(|component| !matches!(component, Component::CurDir))
        .map(|component| match component {
            Component::Normal(name) => Ok(name),
            _ => Err(io::Error::from(io::ErrorKind::InvalidInput)),
        })
        .collect()
}

/// Opens the directory at `names` below `root`; with `create`, makes what is missing.
pub(crate) fn descend<S: AsRef<OsStr>>(root: &Dir, names: &[S], create: bool) -> io::Result<Dir> {
    let mut dir = root.try_clone()?;
    for name in names {
        let name = name.as_ref();
        dir = match open_dir(&dir, name) {
            Err(error) if create && error.kind() == io::ErrorKind::NotFound => {
                match rustix::fs::mkdirat(dir.as_fd(), name, Mode::from_raw_mode(0o777)) {
                    Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                    Err(errno) => return Err(errno.into()),
                }
                sync(&dir)?;
                open_dir(&dir, name)?
            }
            other => other?,
        };
    }
    Ok(dir)
}

fn open_dir(dir: &Dir, name: &OsStr) -> io::Result<Dir> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(dir.as_fd(), name, flags, Mode::empty())?;
    Ok(Dir::from_std_file(File::from(opened)))
}

/// Tells what `name` is, without opening it.
pub(crate) fn kind(dir: &Dir, name: &OsStr) -> io::Result<Kind> {
    let stat = rustix::fs::statat(dir.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Link,
        _ => Kind::Special,
    })
}

/// Opens a regular file or a directory for reading. Special files are never opened: opening alone may act.
///
/// # Errors
/// Fails with `ELOOP` on a link, and with `InvalidInput` on a special file.
pub(crate) fn open(dir: &Dir, name: &OsStr) -> io::Result<Opened> {
    match kind(dir, name)? {
        Kind::Directory => return open_dir(dir, name).map(Opened::Directory),
        Kind::File => {}
        Kind::Link => return Err(rustix::io::Errno::LOOP.into()),
        Kind::Special => return Err(io::Error::from(io::ErrorKind::InvalidInput)),
    }
    // It may have become something else meanwhile: NONBLOCK keeps a FIFO from waiting, the second look decides.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(dir.as_fd(), name, flags, Mode::empty())?);
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return open_dir(dir, name).map(Opened::Directory);
    }
    if metadata.is_file() {
        Ok(Opened::File(file))
    } else {
        Err(io::Error::from(io::ErrorKind::InvalidInput))
    }
}

/// A file being written beside its place.
pub(crate) struct Replacement {
    dir: Dir,
    temporary: String,
    file: File,
    done: bool,
}

impl Replacement {
    /// Begins to write a file in `dir`; `mode` is applied exactly, the default is subject to the umask.
    pub(crate) fn begin(dir: &Dir, mode: Option<u32>) -> io::Result<Self> {
        let id = pentad_model::Id::generate();
        let temporary = format!("{TEMPORARY}{id}");
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let default = Mode::from_raw_mode(0o666);
        let opened = rustix::fs::openat(dir.as_fd(), temporary.as_str(), flags, default)?;
        let replacement = Self {
            dir: dir.try_clone()?,
            temporary,
            file: File::from(opened),
            done: false,
        };
        if let Some(mode) = mode {
            let mode = Mode::from_raw_mode((mode & 0o777) as rustix::fs::RawMode);
            rustix::fs::fchmod(&replacement.file, mode)?;
        }
        Ok(replacement)
    }

    /// Appends bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    /// Puts the file in its place: synced, renamed, and the directory synced.
    pub(crate) fn commit(mut self, name: &OsStr) -> io::Result<()> {
        self.file.sync_all()?;
        let (from, to) = (self.dir.as_fd(), self.dir.as_fd());
        rustix::fs::renameat(from, self.temporary.as_str(), to, name)?;
        self.done = true;
        sync(&self.dir)
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if !self.done {
            // Nobody can act on a failure here: listings and quotas treat such a file as what it is.
            let _ = rustix::fs::unlinkat(self.dir.as_fd(), self.temporary.as_str(), AtFlags::empty());
        }
    }
}

/// Makes the directory's entries durable.
pub(crate) fn sync(dir: &Dir) -> io::Result<()> {
    match rustix::fs::fsync(dir.as_fd()) {
        // Some network file systems cannot sync directories.
        Ok(()) | Err(rustix::io::Errno::INVAL) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Removes a file, or a directory with everything in it; links are removed, never followed.
pub(crate) fn remove(dir: &Dir, name: &OsStr) -> io::Result<()> {
    match kind(dir, name)? {
        Kind::Directory => dir.remove_dir_all(name)?,
        Kind::File | Kind::Link | Kind::Special => dir.remove_file(name)?,
    }
    sync(dir)
}

/// One entry of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) size: u64,
    pub(crate) modified: Timestamp,
    /// Entries of a directory; `None` when it cannot be opened.
    pub(crate) entries: Option<u64>,
}

/// A directory's entries, one level.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Level {
    /// Sorted by bytes.
    pub(crate) entries: Vec<Entry>,
    /// How many entries there are in all, when more than listed.
    pub(crate) left_out: u64,
    /// Bytes of the files of this level.
    pub(crate) file_bytes: u64,
}

/// Lists a directory, at most `cap` entries.
pub(crate) fn list(dir: &Dir, cap: usize) -> io::Result<Level> {
    // The heap keeps the first `cap` names in byte order, however many there are.
    let mut first: BinaryHeap<std::ffi::OsString> = BinaryHeap::new();
    let mut level = Level::default();
    for entry in dir.entries()? {
        let name = entry?.file_name();
        if name.to_string_lossy().starts_with(TEMPORARY) {
            continue;
        }
        first.push(name);
        if first.len() > cap {
            first.pop();
            level.left_out += 1;
        }
    }
    for name in &first.into_sorted_vec() {
        // What vanished meanwhile is no entry.
        let Ok(metadata) = dir.symlink_metadata(name) else {
            continue;
        };
        let Ok(kind) = kind(dir, name) else { continue };
        let entries = (kind == Kind::Directory).then(|| count(dir, name)).flatten();
        if kind == Kind::File {
            level.file_bytes += metadata.len();
        }
        level.entries.push(Entry {
            name: name.to_string_lossy().into_owned(),
            kind,
            size: metadata.len(),
            modified: Timestamp(metadata.mtime().saturating_mul(1000) + metadata.mtime_nsec() / 1_000_000),
            entries,
        });
    }
    Ok(level)
}

fn count(dir: &Dir, name: &OsStr) -> Option<u64> {
    let entries = open_dir(dir, name).ok()?.entries().ok()?;
    let visible = |entry: &io::Result<cap_std::fs::DirEntry>| {
        entry
            .as_ref()
            .is_ok_and(|entry| !entry.file_name().to_string_lossy().starts_with(TEMPORARY))
    };
    Some(entries.filter(visible).count() as u64)
}

/// Deepest directory that [`usage`] counts; memory paths have at most 16 components.
const USAGE_DEPTH: usize = 64;

/// Returns the bytes of all files at and below a directory. One handle a level is open at a time.
pub(crate) fn usage(dir: &Dir) -> io::Result<u64> {
    usage_below(dir, USAGE_DEPTH)
}

fn usage_below(dir: &Dir, depth: usize) -> io::Result<u64> {
    let mut total = 0_u64;
    for entry in dir.entries()? {
        let name = entry?.file_name();
        match kind(dir, &name) {
            Ok(Kind::Directory) if depth > 0 => {
                // What cannot be opened vanished or is not ours to count.
                if let Ok(child) = open_dir(dir, &name) {
                    total += usage_below(&child, depth - 1)?;
                }
            }
            Ok(Kind::File) => total += dir.symlink_metadata(&name).map_or(0, |metadata| metadata.len()),
            _ => {}
        }
    }
    Ok(total)
}

/// Returns when a file was last changed.
pub(crate) fn modified(metadata: &std::fs::Metadata) -> Timestamp {
    use std::os::unix::fs::MetadataExt as _;
    Timestamp(metadata.mtime().saturating_mul(1000) + metadata.mtime_nsec() / 1_000_000)
}
