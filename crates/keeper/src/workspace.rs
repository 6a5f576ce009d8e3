//! In which folder an invocation works.

use std::io;
use std::path::{Path, PathBuf};

use pentad_model::Name;
use pentad_model::invocation::Workspace;

use crate::home::{Home, HomeError, make_directory};

/// Why there is no workspace.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// The named folder cannot be used.
    #[error("{path} is no folder to work in: {source}\nNext: name an existing folder with --cwd")]
    Unusable {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The agent's own folder could not be made.
    #[error(transparent)]
    NotMade(#[from] HomeError),
}

/// Chooses the folder: `named`, else `cwd` unless that is `/` or the home directory, else the agent's own folder.
///
/// `trusted` tells whether a person trusted the project found around it.
///
/// # Errors
/// Fails when the named folder does not exist or the agent's own one cannot be made.
pub fn discover_workspace(
    home: &Home,
    agent: &Name,
    named: Option<&Path>,
    cwd: Option<&Path>,
    home_dir: Option<&Path>,
    trusted: impl Fn(&Path) -> bool,
) -> Result<Workspace, WorkspaceError> {
    let home_dir = home_dir.and_then(|dir| std::fs::canonicalize(dir).ok());
    let cwd = match (named, cwd.and_then(|cwd| std::fs::canonicalize(cwd).ok())) {
        (Some(named), _) => usable(named)?,
        (None, Some(cwd)) if !is_nowhere(&cwd, home_dir.as_deref()) => cwd,
        (None, _) => {
            let own = home.agent_workspace(agent);
            make_directory(&own, 0o700)?;
            std::fs::canonicalize(&own).map_err(|source| WorkspaceError::Unusable { path: own, source })?
        }
    };
    let project_root = project_around(&cwd, home, home_dir.as_deref());
    let trusted = project_root.as_deref().is_some_and(trusted);
    Ok(Workspace {
        cwd,
        project_root,
        trusted,
    })
}

fn usable(named: &Path) -> Result<PathBuf, WorkspaceError> {
    let unusable = |source| WorkspaceError::Unusable {
        path: named.to_path_buf(),
        source,
    };
    let path = std::fs::canonicalize(named).map_err(unusable)?;
    if path.is_dir() {
        Ok(path)
    } else {
        Err(unusable(io::ErrorKind::NotADirectory.into()))
    }
}

fn is_nowhere(path: &Path, home_dir: Option<&Path>) -> bool {
    path.parent().is_none() || Some(path) == home_dir
}

/// Finds the nearest folder at or above `cwd` with `.pentad/` or `.git`.
///
/// The home directory and `/` are no projects: `~/.pentad` is the home itself, and people keep their dotfiles in git.
fn project_around(cwd: &Path, home: &Home, home_dir: Option<&Path>) -> Option<PathBuf> {
    let own = std::fs::canonicalize(home.path()).ok();
    cwd.ancestors()
        .filter(|dir| !is_nowhere(dir, home_dir))
        .find(|dir| {
            let pentad = dir.join(".pentad");
            (pentad.is_dir() && std::fs::canonicalize(&pentad).ok() != own) || dir.join(".git").exists()
        })
        .map(Path::to_path_buf)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place {
        dir: tempfile::TempDir,
        home: Home,
    }

    impl Place {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            for path in [
                "user/.pentad",
                "user/src/app/.git",
                "user/src/app/deep",
                "user/src/tool/.pentad",
                "user/.git",
            ] {
                std::fs::create_dir_all(dir.path().join(path)).unwrap();
            }
            let home = Home::locate(None, None, Some(&dir.path().join("user"))).unwrap();
            Self { dir, home }
        }

        fn find(&self, named: Option<&str>, cwd: &str) -> Result<(String, Option<String>), WorkspaceError> {
            let root = std::fs::canonicalize(self.dir.path()).unwrap();
            let short = |path: &Path| path.strip_prefix(&root).unwrap_or(path).display().to_string();
            let named = named.map(|path| root.join(path));
            let found = discover_workspace(
                &self.home,
                &Name::main(),
                named.as_deref(),
                Some(&root.join(cwd)),
                Some(&root.join("user")),
                |path| path.ends_with("tool"),
            )?;
            assert_eq!(
                found.trusted,
                found.project_root.as_ref().is_some_and(|p| p.ends_with("tool"))
            );
            Ok((short(&found.cwd), found.project_root.as_deref().map(short)))
        }
    }

    #[test]
    fn the_folder_and_its_project() {
        let place = Place::new();
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            place.find(None, "user/src/app/deep").unwrap(),
            ("user/src/app/deep".to_owned(), some("user/src/app"))
        );
        assert_eq!(
            place.find(None, "user/src/tool").unwrap(),
            ("user/src/tool".to_owned(), some("user/src/tool"))
        );
        assert_eq!(
            place.find(None, "user/src").unwrap(),
            ("user/src".to_owned(), None)
        );
        let own = "user/.pentad/workspaces/main".to_owned();
        assert_eq!(place.find(None, "user").unwrap(), (own.clone(), None));
        assert_eq!(place.find(None, "/").unwrap(), (own.clone(), None));
        assert_eq!(place.find(None, "gone").unwrap(), (own, None));
        assert_eq!(place.find(Some("user"), "user/src").unwrap().0, "user");
        assert!(
            place
                .find(Some("nowhere"), "user")
                .unwrap_err()
                .to_string()
                .contains("Next: name an existing")
        );
    }
}
