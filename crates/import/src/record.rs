//! What was imported, remembered in the home so that it can be undone.

use std::io;
use std::path::{Path, PathBuf};

use pentad_keeper::Home;
use pentad_keeper::durable::replace_file;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::syntax::{MapRestore, Syntax};

/// Larger files are no records.
const MAX_BYTES: u64 = 1 << 20;

/// One import of one file. It has names and digests, no values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The file that was changed, behind any links.
    pub target: PathBuf,
    /// The backup beside it.
    pub backup: PathBuf,
    /// The backup's number; a later import of the same file has a higher one.
    pub number: u64,
    /// SHA-256 of the file as it was.
    pub before: String,
    /// SHA-256 of the file as it was written.
    pub written: String,
    /// How the file is written.
    pub syntax: Syntax,
    /// Which entries went, and what was put in their place.
    pub changes: Vec<MapRestore>,
    /// The servers that were added to our configuration.
    pub servers: Vec<String>,
}

/// Why a record cannot be kept.
#[derive(Debug, thiserror::Error)]
#[error(
    "the record of this import could not be written below {folder}: {source}\nNext: free space or check permissions, then repeat"
)]
pub struct RecordError {
    folder: PathBuf,
    source: io::Error,
}

/// Returns the digest of a file's content.
#[must_use]
pub fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn folder(home: &Home) -> PathBuf {
    home.state().join("imports")
}

impl Record {
    /// The name is made of the place, so that two files never share a record.
    fn path(&self, home: &Home) -> PathBuf {
        let place = digest(self.target.as_os_str().as_encoded_bytes());
        let place = pentad_model::text::prefix(&place, 16);
        folder(home).join(format!("{place}-{}.json", self.number))
    }

    /// Keeps the record, durably.
    ///
    /// # Errors
    /// Fails as the system does.
    pub fn store(&self, home: &Home) -> Result<(), RecordError> {
        let folder = folder(home);
        let failed = |source| RecordError {
            folder: folder.clone(),
            source,
        };
        std::fs::create_dir_all(&folder).map_err(failed)?;
        let text = serde_json::to_vec_pretty(self).map_err(|error| failed(error.into()))?;
        replace_file(&self.path(home), &text, Some(0o600)).map_err(failed)
    }

    /// Forgets the record.
    ///
    /// # Errors
    /// Fails as the system does.
    pub fn forget(&self, home: &Home) -> io::Result<()> {
        std::fs::remove_file(self.path(home))
    }

    /// Returns the records of a home in no order. What is no record is passed over.
    #[must_use]
    pub fn all(home: &Home) -> Vec<Self> {
        let found = std::fs::read_dir(folder(home)).into_iter().flatten();
        found
            .filter_map(|entry| {
                let path = entry.ok()?.path();
                if path.metadata().ok()?.len() > MAX_BYTES {
                    return None;
                }
                serde_json::from_slice::<Self>(&std::fs::read(path).ok()?).ok()
            })
            .collect()
    }

    /// Returns the newest record of a file whose backup is still there.
    #[must_use]
    pub fn newest(home: &Home, target: &Path) -> Option<Self> {
        Self::all(home)
            .into_iter()
            .filter(|record| record.target == target && record.backup.is_file())
            .max_by_key(|record| record.number)
    }
}
