//! Blobs: files named by the SHA-256 of their bytes, `blobs/<first two digits>/<hash>`.
//!
//! A blob is written to a temporary file beside its place, synced, renamed, and the folder synced: it is there whole or
//! not at all. Temporary files are named after the process that writes them, `blobs/.new-<pid>-<birth>-<random>`, so that
//! those of a process that was killed are known and removed by the next one that opens the journal. What comes from outside is a hash of 64 digits or it is refused, so no other path is ever built.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use data_encoding::HEXLOWER;
use pentad_fail::{Point, point};
use pentad_model::text;
use pentad_program::{BlobRef, StoreError};
use rustix::fs::OFlags;
use sha2::{Digest, Sha256};
use tempfile::{NamedTempFile, TempPath};

use crate::fault::file_error;
use crate::options::Owner;

/// Characters of a hash.
const HASH_CHARS: usize = 64;
/// How the name of a temporary file begins.
const TEMPORARY: &str = ".new-";
/// Bytes that are read at once.
const CHUNK: usize = 256 << 10;

/// A link is not followed, and a pipe that nobody writes to is not waited for.
const NO_LINK_NO_WAIT: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK);

/// The folder of blobs.
#[derive(Debug, Clone)]
pub(crate) struct Blobs {
    /// The folder whose files may be moved here instead of copied.
    home: PathBuf,
    folder: PathBuf,
    max_bytes: u64,
    owner: Owner,
    /// Folders whose own entries this process has synced.
    synced: Arc<Mutex<HashSet<PathBuf>>>,
}

impl Blobs {
    /// Returns the blobs below the state folder.
    pub(crate) fn new(state: &Path, max_bytes: u64, owner: Owner) -> Self {
        Self {
            home: state.to_owned(),
            folder: state.join("blobs"),
            max_bytes,
            owner,
            synced: Arc::default(),
        }
    }

    fn place(&self, hash: &str) -> Result<PathBuf, StoreError> {
        let digits = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
        if hash.len() != HASH_CHARS || !hash.bytes().all(digits) {
            return Err(StoreError::NotFound(format!(
                "'{}' names no blob; a hash has {HASH_CHARS} lower-case hexadecimal digits",
                text::excerpt(hash, 80)
            )));
        }
        Ok(self.folder.join(text::prefix(hash, 2)).join(hash))
    }

    fn size_checked(&self, bytes: u64, what: &str) -> Result<(), StoreError> {
        if bytes > self.max_bytes {
            return Err(StoreError::Conflict(format!(
                "{what} has {bytes} bytes or more; a blob has at most {}",
                self.max_bytes
            )));
        }
        Ok(())
    }

    /// Stores bytes.
    pub(crate) fn put(&self, bytes: &[u8]) -> Result<BlobRef, StoreError> {
        let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.size_checked(size, "this content")?;
        let blob = BlobRef {
            hash: pentad_model::canonical::sha256_hex(bytes),
            bytes: size,
        };
        let place = self.place(&blob.hash)?;
        if !self.is_kept(&place, size)? {
            let mut file = self.temporary()?;
            file.write_all(bytes).map_err(|e| file_error(&place, &e))?;
            self.make_folder(&place)?;
            keep(file, &place)?;
        }
        Ok(blob)
    }

    /// Stores a file's bytes. One of our own spool files is moved, any other copied: a person's file stays where it is.
    pub(crate) fn put_file(&self, path: &Path) -> Result<BlobRef, StoreError> {
        let mut source = OpenOptions::new()
            .read(true)
            .custom_flags(NO_LINK_NO_WAIT.bits().cast_signed())
            .open(path)
            .map_err(|e| file_error(path, &e))?;
        let metadata = source.metadata().map_err(|e| file_error(path, &e))?;
        if !metadata.is_file() {
            return Err(StoreError::NotFound(format!(
                "{} is no regular file",
                path.display()
            )));
        }
        let what = path.display().to_string();
        self.size_checked(metadata.len(), &what)?;
        if metadata.nlink() == 1
            && self.is_spool(path)
            && let Some(hidden) = self.hide(path)?
        {
            let taken = self.adopt(&hidden, &what);
            if taken.is_err() {
                // Whoever offered the file still has it.
                let _gone = std::fs::rename(&hidden, path);
            }
            return taken;
        }
        // The place is known only when all is read.
        let mut file = self.temporary()?;
        let (hash, bytes) = self.read_all(&mut source, &what, |chunk| file.write_all(chunk))?;
        let place = self.place(&hash)?;
        if !self.is_kept(&place, bytes)? {
            self.make_folder(&place)?;
            keep(file, &place)?;
        }
        Ok(BlobRef { hash, bytes })
    }

    /// Tells whether a file lies below the state folder and not among the blobs, links resolved.
    fn is_spool(&self, path: &Path) -> bool {
        let real = |path: &Path| std::fs::canonicalize(path).ok();
        match (path.parent().and_then(real), real(&self.home)) {
            (Some(folder), Some(home)) => {
                folder.starts_with(&home) && folder != home && !folder.starts_with(home.join("blobs"))
            }
            _ => false,
        }
    }

    /// Gives a file of ours a name that nobody else knows; nothing when it lies on another file system.
    fn hide(&self, path: &Path) -> Result<Option<TempPath>, StoreError> {
        let hidden = self.temporary()?.into_temp_path();
        Ok(std::fs::rename(path, &hidden).is_ok().then_some(hidden))
    }

    /// Keeps a hidden file. It is hashed under that name, so whatever stood under the old one, this is what is kept.
    fn adopt(&self, hidden: &Path, what: &str) -> Result<BlobRef, StoreError> {
        let failed = |e: std::io::Error| StoreError::NotWritten(format!("{what}: {e}"));
        let mut file = OpenOptions::new()
            .read(true)
            .custom_flags(NO_LINK_NO_WAIT.bits().cast_signed())
            .open(hidden)
            .map_err(failed)?;
        file.set_permissions(std::fs::Permissions::from_mode(0o600))
            .map_err(failed)?;
        let (hash, bytes) = self.read_all(&mut file, what, |_| Ok(()))?;
        let place = self.place(&hash)?;
        if !self.is_kept(&place, bytes)? {
            self.make_folder(&place)?;
            sync_file(&file).map_err(failed)?;
            std::fs::rename(hidden, &place).map_err(|e| file_error(&place, &e))?;
            sync_folder(&place)?;
        }
        Ok(BlobRef { hash, bytes })
    }

    fn read_all(
        &self,
        source: &mut File,
        what: &str,
        mut sink: impl FnMut(&[u8]) -> std::io::Result<()>,
    ) -> Result<(String, u64), StoreError> {
        let failed = |e: std::io::Error| StoreError::NotWritten(format!("{what}: {e}"));
        let mut hasher = Sha256::new();
        let mut chunk = vec![0; CHUNK];
        let mut bytes = 0;
        loop {
            let read = match source.read(&mut chunk) {
                Ok(0) => break,
                Ok(read) => read,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(failed(e)),
            };
            let part = chunk.get(..read).unwrap_or_default();
            bytes += u64::try_from(read).unwrap_or(0);
            self.size_checked(bytes, what)?;
            hasher.update(part);
            sink(part).map_err(failed)?;
        }
        Ok((HEXLOWER.encode(&hasher.finalize()), bytes))
    }

    /// Tells whether a blob is there to stay. Whoever gave it its name may have been killed before that was synced, or may
    /// be about to sync it.
    fn is_kept(&self, place: &Path, bytes: u64) -> Result<bool, StoreError> {
        if !is_there(place, bytes) {
            return Ok(false);
        }
        self.make_folder(place)?;
        sync_folder(place)?;
        Ok(true)
    }

    /// Makes the folder of a place, and has the folder's own entry synced once by this process: that it is there does not
    /// say that whoever made it came so far.
    fn make_folder(&self, place: &Path) -> Result<(), StoreError> {
        let folder = place.parent().unwrap_or(place);
        let synced = || self.synced.lock().unwrap_or_else(PoisonError::into_inner);
        if synced().contains(folder) && folder.is_dir() {
            return Ok(());
        }
        std::fs::create_dir_all(folder).map_err(|e| file_error(folder, &e))?;
        sync_folder(folder)?;
        synced().insert(folder.to_owned());
        Ok(())
    }

    /// Creates a temporary file (0600) that tells whose it is.
    fn temporary(&self) -> Result<NamedTempFile, StoreError> {
        self.make_folder(&self.folder.join("any"))?;
        tempfile::Builder::new()
            .prefix(&format!("{TEMPORARY}{}-{}-", self.owner.pid, self.owner.born))
            .tempfile_in(&self.folder)
            .map_err(|e| file_error(&self.folder, &e))
    }

    /// Removes the temporary files of processes that are gone. What cannot be removed waits for the next opening.
    pub(crate) fn sweep(&self) {
        let Ok(entries) = std::fs::read_dir(&self.folder) else {
            return;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let left = name
                .to_str()
                .and_then(|name| self.writer_of(name))
                .is_some_and(|writer| !writer.is_alive());
            if left && let Err(error) = std::fs::remove_file(entry.path()) {
                tracing::warn!(file = %entry.path().display(), %error, "a temporary file could not be removed");
            }
        }
    }

    /// Returns the process that a temporary file is named after. One of an earlier boot has no like now, as it was born
    /// at another tick.
    fn writer_of(&self, name: &str) -> Option<Owner> {
        let mut fields = name.strip_prefix(TEMPORARY)?.split('-');
        Some(Owner {
            pid: fields.next()?.parse().ok()?,
            born: fields.next()?.parse().ok()?,
            boot: self.owner.boot.clone(),
        })
    }

    /// Reads a blob whole and checks its bytes against its name.
    pub(crate) fn get(&self, hash: &str, cap: u64) -> Result<Bytes, StoreError> {
        let place = self.path(hash)?;
        let file = File::open(&place).map_err(|e| file_error(&place, &e))?;
        let size = file.metadata().map_err(|e| file_error(&place, &e))?.len();
        if size > cap {
            return Err(StoreError::NotFound(format!(
                "blob {hash} has {size} bytes, more than the {cap} that may be read at once; read a part of it"
            )));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        file.take(cap.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(|e| file_error(&place, &e))?;
        if pentad_model::canonical::sha256_hex(&bytes) != hash {
            return Err(StoreError::Corrupt(format!(
                "{} is damaged: its bytes do not have the hash it is named by; put a copy in its place, or delete it \
                 and store its content again",
                place.display()
            )));
        }
        Ok(bytes.into())
    }

    /// Returns the path of a blob that is there.
    pub(crate) fn path(&self, hash: &str) -> Result<PathBuf, StoreError> {
        let place = self.place(hash)?;
        if std::fs::symlink_metadata(&place).is_ok_and(|m| m.is_file()) {
            Ok(place)
        } else {
            Err(StoreError::NotFound(format!("there is no blob {hash}")))
        }
    }

    /// Returns the size of a blob that is there.
    pub(crate) fn size(&self, hash: &str) -> Result<u64, StoreError> {
        let place = self.path(hash)?;
        let metadata = std::fs::metadata(&place).map_err(|e| file_error(&place, &e))?;
        Ok(metadata.len())
    }
}

fn is_there(place: &Path, bytes: u64) -> bool {
    std::fs::symlink_metadata(place).is_ok_and(|m| m.is_file() && m.len() == bytes)
}

fn keep(file: NamedTempFile, place: &Path) -> Result<(), StoreError> {
    sync_file(file.as_file()).map_err(|e| file_error(place, &e))?;
    file.persist(place).map_err(|e| file_error(place, &e.error))?;
    sync_folder(place)
}

fn sync_file(file: &File) -> std::io::Result<()> {
    point(Point::BlobFileSyncBefore);
    file.sync_all()?;
    point(Point::BlobFileSyncAfter);
    Ok(())
}

fn sync_folder(place: &Path) -> Result<(), StoreError> {
    let folder = place.parent().unwrap_or(place);
    point(Point::BlobFolderSyncBefore);
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(|e| file_error(folder, &e))?;
    point(Point::BlobFolderSyncAfter);
    Ok(())
}
