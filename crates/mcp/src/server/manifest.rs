//! What a server said about itself, kept on disk so that its tools are found while it does not run.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use pentad_model::tool::Hints;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Raised whenever the file's form changes; another number is a manifest that does not exist.
const FORMAT: u32 = 2;
/// Larger files are not read.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// How a server wants to be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Opening {
    /// `initialize`.
    Initialize,
    /// `server/discover`.
    Discover,
}

/// One tool as its server described it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ManifestTool {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(default)]
    pub description: String,
    pub input: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    #[serde(default)]
    pub hints: Hints,
    /// Whether its server runs it as a task only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub needs_task: bool,
}

/// What is known about a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    format: u32,
    /// The definition that this was learned from; another one may be another program.
    pub fingerprint: String,
    pub opening: Opening,
    pub protocol: String,
    #[serde(default)]
    pub server: Option<String>,
    #[serde(default)]
    pub instructions: Option<String>,
    pub tools: Vec<ManifestTool>,
    /// What could not be taken over, for a person.
    #[serde(default)]
    pub dropped: Vec<String>,
}

/// Why a manifest could not be kept.
#[derive(Debug, thiserror::Error)]
#[error("the manifest {path} could not be written: {source}")]
pub struct ManifestError {
    path: PathBuf,
    source: std::io::Error,
}

impl Manifest {
    /// Returns an empty manifest of the definition `fingerprint`.
    pub fn new(fingerprint: String, opening: Opening, protocol: String) -> Self {
        Self {
            format: FORMAT,
            fingerprint,
            opening,
            protocol,
            server: None,
            instructions: None,
            tools: Vec::new(),
            dropped: Vec::new(),
        }
    }

    /// Reads the manifest of `name`, if there is a readable one of this definition.
    ///
    /// It is a cache: whatever is wrong with the file, the server is asked again.
    pub fn load(folder: &Path, name: &str, fingerprint: &str) -> Option<Self> {
        let path = path(folder, name);
        let size = path.metadata().ok()?.len();
        if size > MAX_FILE_BYTES {
            return None;
        }
        let manifest: Self = match serde_json::from_slice(&std::fs::read(&path).ok()?) {
            Ok(manifest) => manifest,
            Err(error) => {
                tracing::debug!(path = %path.display(), %error, "ignoring an unreadable manifest");
                return None;
            }
        };
        (manifest.format == FORMAT && manifest.fingerprint == fingerprint).then_some(manifest)
    }

    /// Writes the manifest beside its place and moves it there, so that no reader ever sees half of it.
    ///
    /// # Errors
    /// Names the file that could not be written.
    pub fn store(&self, folder: &Path, name: &str) -> Result<(), ManifestError> {
        let path = path(folder, name);
        let written = || -> std::io::Result<()> {
            std::fs::create_dir_all(folder)?;
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            file.write_all(&serde_json::to_vec(self)?)?;
            file.as_file().sync_data()?;
            file.persist(&path).map_err(|error| error.error)?;
            Ok(())
        };
        written().map_err(|source| ManifestError {
            path: path.clone(),
            source,
        })
    }
}

fn path(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_survives_only_with_its_launch() {
        let folder = tempfile::tempdir().unwrap();
        let mut manifest = Manifest::new("f1".into(), Opening::Discover, "2026-07-28".into());
        manifest.tools.push(ManifestTool {
            name: "größe/写".into(),
            title: None,
            description: "d".into(),
            input: serde_json::json!({"$ref": "#/$defs/x"}),
            output: None,
            hints: Hints::default(),
            needs_task: false,
        });
        let nested = folder.path().join("cache/servers");
        manifest.store(&nested, "x").unwrap();
        assert_eq!(Manifest::load(&nested, "x", "f1"), Some(manifest));
        assert_eq!(Manifest::load(&nested, "x", "f2"), None);
        std::fs::write(nested.join("x.json"), "{\"format\":2").unwrap();
        assert_eq!(Manifest::load(&nested, "x", "f1"), None);
    }
}
