//! The home: one directory with everything that belongs to one person's Pentad.

use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use pentad_model::Name;

/// The environment variable that names the home.
pub const HOME_VARIABLE: &str = "PENTAD_HOME";
/// Longest path of a Unix socket that every system accepts.
const MAX_SOCKET_PATH: usize = 100;

/// Why a home cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// Neither a home nor a home directory is known.
    #[error(
        "there is no home: neither --home nor PENTAD_HOME nor HOME is set\nNext: set PENTAD_HOME to a directory"
    )]
    Unknown,
    /// Something else stands at the path.
    #[error("{path} is not a directory\nNext: move it away, or name another home with --home or PENTAD_HOME")]
    NotADirectory {
        /// The path.
        path: PathBuf,
    },
    /// Nothing can be written there.
    #[error("{path} cannot be written: {source}\nNext: {next}")]
    NotWritable {
        /// The path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
        /// What to do about it.
        next: String,
    },
    /// A part of the home could not be made.
    #[error(
        "{path} could not be created: {source}\nNext: check the permissions of its parent, or name another home with --home or PENTAD_HOME"
    )]
    NotCreated {
        /// The path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// A home directory and the typed paths below it. Nothing outside this type joins names to the home.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Home(PathBuf);

impl Home {
    /// Finds the home: `explicit`, else the value of `PENTAD_HOME`, else `.pentad` in the home directory.
    ///
    /// # Errors
    /// Fails when none of the three is known. The directory need not exist.
    pub fn locate(
        explicit: Option<&Path>,
        variable: Option<&OsStr>,
        home_dir: Option<&Path>,
    ) -> Result<Self, HomeError> {
        let given = explicit
            .filter(|path| !path.as_os_str().is_empty())
            .or_else(|| variable.filter(|v| !v.is_empty()).map(Path::new));
        let path = match (given, home_dir.filter(|dir| dir.is_absolute())) {
            (Some(path), _) => path.to_path_buf(),
            (None, Some(dir)) => dir.join(".pentad"),
            (None, None) => return Err(HomeError::Unknown),
        };
        let absolute = std::path::absolute(&path).map_err(|source| HomeError::NotCreated { path, source })?;
        Ok(Self(absolute))
    }

    /// Returns the directory itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the configuration file.
    #[must_use]
    pub fn config_file(&self) -> PathBuf {
        self.0.join("config.toml")
    }

    /// Returns the policy file.
    #[must_use]
    pub fn policy_file(&self) -> PathBuf {
        self.0.join("policy.toml")
    }

    /// Returns the user's recipe root.
    #[must_use]
    pub fn recipes(&self) -> PathBuf {
        self.0.join("recipes")
    }

    /// Returns the folder of agent documents.
    #[must_use]
    pub fn agents(&self) -> PathBuf {
        self.0.join("agents")
    }

    /// Returns one agent's document.
    #[must_use]
    pub fn agent_file(&self, agent: &Name) -> PathBuf {
        self.agents().join(format!("{agent}.md"))
    }

    /// Returns one agent's memory.
    #[must_use]
    pub fn memory(&self, agent: &Name) -> PathBuf {
        self.0.join("memory").join(agent.as_str())
    }

    /// Returns the folder of trigger documents.
    #[must_use]
    pub fn triggers(&self) -> PathBuf {
        self.0.join("triggers")
    }

    /// Returns the folder of keys and secrets.
    #[must_use]
    pub fn keys(&self) -> PathBuf {
        self.0.join("keys")
    }

    /// Returns the folder that belongs to the keeper: database, blobs, run folders, socket.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.0.join("state")
    }

    /// Returns the database.
    #[must_use]
    pub fn database(&self) -> PathBuf {
        self.state().join("pentad.db")
    }

    /// Returns the folder of run folders.
    #[must_use]
    pub fn runs(&self) -> PathBuf {
        self.state().join("runs")
    }

    /// Returns the folder that may be deleted at any time.
    #[must_use]
    pub fn cache(&self) -> PathBuf {
        self.0.join("cache")
    }

    /// Returns the folder that an agent works in when its caller stands nowhere in particular.
    #[must_use]
    pub fn agent_workspace(&self, agent: &Name) -> PathBuf {
        self.0.join("workspaces").join(agent.as_str())
    }

    /// Returns the file of secrets.
    #[must_use]
    pub fn secrets_file(&self) -> PathBuf {
        self.keys().join("secrets.toml")
    }

    /// Returns the file that takes what a detached keeper logs.
    #[must_use]
    pub fn keeper_log(&self) -> PathBuf {
        self.state().join("keeper.log")
    }

    /// Returns the keeper's socket: in the state folder, or below `runtime_dir` when that path is too long for one.
    #[must_use]
    pub fn socket(&self, runtime_dir: Option<&Path>) -> PathBuf {
        let inside = self.state().join("pentad.sock");
        match runtime_dir {
            Some(dir) if inside.as_os_str().len() > MAX_SOCKET_PATH => {
                let hash = pentad_model::canonical::sha256(self.0.as_os_str().as_encoded_bytes());
                let short: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
                dir.join("pentad").join(format!("{short}.sock"))
            }
            _ => inside,
        }
    }

    /// Lists the directories that [`Self::prepare`] makes, with their modes.
    #[must_use]
    pub fn directories(&self) -> Vec<(PathBuf, u32)> {
        vec![
            (self.0.clone(), 0o700),
            (self.recipes(), 0o755),
            (self.agents(), 0o755),
            (self.0.join("memory"), 0o700),
            (self.triggers(), 0o755),
            (self.keys(), 0o700),
            (self.state(), 0o700),
            (self.runs(), 0o700),
            (self.cache(), 0o700),
        ]
    }

    /// Makes what is missing. What exists keeps its mode: `doctor` reports modes, only a person changes them.
    ///
    /// # Errors
    /// Fails when something else stands in a directory's place, or when nothing can be written.
    pub fn prepare(&self) -> Result<(), HomeError> {
        for (path, mode) in self.directories() {
            make_directory(&path, mode)?;
        }
        for path in [self.path().to_path_buf(), self.state(), self.keys()] {
            check_writable(&path)?;
        }
        Ok(())
    }
}

/// Makes a directory, its parents included, unless it exists.
///
/// # Errors
/// Fails when something else stands at the path or it cannot be made.
pub fn make_directory(path: &Path, mode: u32) -> Result<(), HomeError> {
    let not_a_directory = || HomeError::NotADirectory {
        path: path.to_path_buf(),
    };
    match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(_) => return Err(not_a_directory()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {}
        Err(source) => {
            let next = "check the permissions of the directories above it".to_owned();
            return Err(HomeError::NotWritable {
                path: path.to_path_buf(),
                source,
                next,
            });
        }
    }
    let built = std::fs::DirBuilder::new().recursive(true).mode(mode).create(path);
    match built {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Err(not_a_directory()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(not_a_directory()),
        Err(source) => Err(HomeError::NotCreated {
            path: path.to_path_buf(),
            source,
        }),
    }
}

fn check_writable(path: &Path) -> Result<(), HomeError> {
    use rustix::fs::{Access, access};
    use rustix::io::Errno;
    match access(path, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => Ok(()),
        Err(errno) => {
            let next = match errno {
                Errno::ROFS => {
                    "the file system is read-only: remount it, or name another home with --home or PENTAD_HOME"
                        .to_owned()
                }
                _ => format!(
                    "chmod u+rwx {}, or name another home with --home or PENTAD_HOME",
                    path.display()
                ),
            };
            Err(HomeError::NotWritable {
                path: path.to_path_buf(),
                source: errno.into(),
                next,
            })
        }
    }
}

/// Returns the permission bits of a path, if it exists.
#[must_use]
pub fn mode_of(path: &Path) -> Option<u32> {
    std::fs::metadata(path)
        .ok()
        .map(|found| found.permissions().mode() & 0o7777)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home(path: &Path) -> Home {
        Home::locate(Some(path), None, None).unwrap()
    }

    #[test]
    fn the_explicit_home_wins_then_the_variable_then_the_directory() {
        let at = |explicit: Option<&str>, variable: Option<&str>, dir: Option<&str>| {
            Home::locate(
                explicit.map(Path::new),
                variable.map(OsStr::new),
                dir.map(Path::new),
            )
            .map(|home| home.path().display().to_string())
            .map_err(|e| e.to_string())
        };
        assert_eq!(at(Some("/a"), Some("/b"), Some("/c")).unwrap(), "/a");
        assert_eq!(at(None, Some("/b"), Some("/c")).unwrap(), "/b");
        assert_eq!(at(None, Some(""), Some("/c")).unwrap(), "/c/.pentad");
        assert!(
            at(None, None, Some("relative"))
                .unwrap_err()
                .contains("Next: set PENTAD_HOME")
        );
        assert!(at(Some("x"), None, None).unwrap().starts_with('/'));
    }

    #[test]
    fn preparing_makes_private_directories_and_keeps_what_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let home = home(&dir.path().join("deep/home"));
        home.prepare().unwrap();
        assert_eq!(mode_of(home.path()), Some(0o700));
        assert_eq!(mode_of(&home.keys()), Some(0o700));
        std::fs::set_permissions(home.keys(), std::fs::Permissions::from_mode(0o750)).unwrap();
        home.prepare().unwrap();
        assert_eq!(mode_of(&home.keys()), Some(0o750));
    }

    #[test]
    fn a_file_in_the_way_is_named_with_the_next_step() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("home");
        std::fs::write(&path, "x").unwrap();
        let text = home(&path).prepare().unwrap_err().to_string();
        assert_eq!(
            text,
            format!(
                "{} is not a directory\nNext: move it away, or name another home with --home or PENTAD_HOME",
                path.display()
            )
        );
        let below = home(&path.join("below")).prepare().unwrap_err();
        assert!(matches!(below, HomeError::NotADirectory { .. }), "{below}");
    }

    #[test]
    fn a_long_home_has_its_socket_elsewhere() {
        let short = home(Path::new("/h"));
        let run = Path::new("/run/user/1");
        assert_eq!(short.socket(Some(run)), Path::new("/h/state/pentad.sock"));
        let long = home(&Path::new("/").join("x".repeat(120)));
        let socket = long.socket(Some(run));
        assert!(socket.starts_with("/run/user/1/pentad") && socket.as_os_str().len() < 60);
        assert_eq!(socket, long.socket(Some(run)));
    }
}
