//! Directories with tool files.

use std::path::{Path, PathBuf};

/// Says whose tool files a root has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RootKind {
    /// The person's own; its files are tools.
    User,
    /// A project's; its files are tools once the project is trusted.
    Project,
    /// Shipped with something else; its files are components for imports.
    Packaged,
}

/// Says which rules the authors of a root follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum RootFormat {
    /// Ours.
    #[default]
    Pentad,
    /// Shared with a pi-actors that is in use: standard fields only, and one word may name a recipe.
    PiActors,
}

/// Is a directory with tool files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// Is the directory; it need not exist.
    pub path: PathBuf,
    /// Says whose files it has.
    pub kind: RootKind,
    /// Says which rules hold.
    pub format: RootFormat,
}

impl Root {
    /// Returns a root; one that has a `.usage` directory is in use by pi-actors and follows its rules.
    pub fn at(path: impl Into<PathBuf>, kind: RootKind) -> Self {
        let path = path.into();
        let format = if path.join(".usage").is_dir() {
            RootFormat::PiActors
        } else {
            RootFormat::Pentad
        };
        Self { path, kind, format }
    }

    /// Returns the root of a project directory.
    pub fn of_project(project: &Path) -> Self {
        Self::at(project.join(".pentad").join("recipes"), RootKind::Project)
    }
}
