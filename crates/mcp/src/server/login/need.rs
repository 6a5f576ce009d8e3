//! Remembers that a person has to log in, so that `doctor` and lists can say so without asking the server.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

/// Why a login is needed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoginNeed {
    /// The server's own words, which lead to the authorization server.
    pub challenge: Option<String>,
    /// Whether there is a login, which does not reach far enough.
    pub more: bool,
}

/// Longest challenge that is kept.
const MAX_CHALLENGE_BYTES: usize = 8 << 10;

#[derive(Serialize, Deserialize)]
struct Note {
    fingerprint: String,
    need: LoginNeed,
}

/// What one server needs at present. The file is a cache: without it the server is simply asked again.
#[derive(Debug)]
pub struct LoginBoard {
    path: PathBuf,
    fingerprint: String,
    need: Mutex<Option<LoginNeed>>,
}

impl LoginBoard {
    /// Reads what is known from the last time.
    pub fn load(folder: &Path, server: &str, fingerprint: &str) -> Self {
        let path = folder.join(format!("{server}.login.json"));
        let need = std::fs::read(&path)
            .ok()
            .and_then(|bytes| serde_json::from_slice::<Note>(&bytes).ok())
            .filter(|note| note.fingerprint == fingerprint)
            .map(|note| note.need);
        Self {
            path,
            fingerprint: fingerprint.to_owned(),
            need: Mutex::new(need),
        }
    }

    /// Returns what is needed. A person who logs in does so in a process of their own, which takes the note away.
    pub fn need(&self) -> Option<LoginNeed> {
        let mut known = self.lock();
        if known.is_some() && !self.path.exists() {
            *known = None;
        }
        known.clone()
    }

    /// Takes note of a need, or of its end.
    pub fn note(&self, need: Option<LoginNeed>) {
        let need = need.map(|need| LoginNeed {
            challenge: need
                .challenge
                .filter(|challenge| challenge.len() <= MAX_CHALLENGE_BYTES),
            ..need
        });
        let mut known = self.lock();
        // The same need again, after a login took the note of the first one away, is noted again.
        if *known == need && (need.is_none() || self.path.exists()) {
            return;
        }
        known.clone_from(&need);
        let written = match need {
            None => std::fs::remove_file(&self.path),
            Some(need) => self.write(need),
        };
        if let Err(error) = written {
            tracing::debug!(path = %self.path.display(), %error, "the need of a login is not remembered");
        }
    }

    fn write(&self, need: LoginNeed) -> std::io::Result<()> {
        let note = Note {
            fingerprint: self.fingerprint.clone(),
            need,
        };
        if let Some(folder) = self.path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(&self.path, serde_json::to_vec(&note)?)
    }

    fn lock(&self) -> MutexGuard<'_, Option<LoginNeed>> {
        self.need.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
