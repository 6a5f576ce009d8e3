//! From a written path to an open root and the plain names below it.
//!
//! The path is first made real (links resolved) only to find out which root it belongs to. It is then opened name by
//! name below that root's handle without following links, so whatever changes in between cannot lead outside.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use cap_std::fs::Dir;
use pentad_model::refusal::{Refusal, RefusalKind};

use crate::handle;
use crate::real_path::{canonical_ancestor, real_path};
use crate::trouble::from_io;

/// The verb whose roots apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Read,
    Write,
}

impl Purpose {
    const fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// A path below an open root.
pub(super) struct Located {
    pub(super) root: Dir,
    pub(super) names: Vec<OsString>,
    /// The whole path without links, as it was when it was located.
    pub(super) real: PathBuf,
    /// Whether the path is a root itself.
    pub(super) is_root: bool,
}

/// Finds the root that `path` lies below.
pub(super) fn locate(
    absolute: &Path,
    subject: &str,
    roots: &[PathBuf],
    purpose: Purpose,
) -> Result<Located, Refusal> {
    let roots: Vec<PathBuf> = roots.iter().filter_map(|root| real_root(root)).collect();
    let real = match canonical_ancestor(absolute) {
        Ok((base, rest)) => match handle::plain(&rest) {
            Ok(_) if rest.as_os_str().is_empty() => base,
            Ok(_) => base.join(rest),
            // A `..` behind something that does not exist leads nowhere.
            Err(_) => return Err(nowhere(subject, absolute, &roots, purpose)),
        },
        Err(error) if covered(&lexical(absolute), &roots) => return Err(from_io(subject, &error)),
        Err(_) => return Err(outside(subject, absolute, &roots, purpose)),
    };
    let Some(root) = roots
        .iter()
        .filter(|root| real.starts_with(root))
        .max_by_key(|root| root.as_os_str().len())
    else {
        return Err(outside(subject, &real, &roots, purpose));
    };
    let (root, anchor) = anchor(root).map_err(|error| from_io(subject, &error))?;
    let below = real.strip_prefix(&anchor).unwrap_or_else(|_| Path::new(""));
    let names = handle::plain(below)
        .map_err(|error| from_io(subject, &error))?
        .into_iter()
        .map(OsString::from)
        .collect();
    let dir = open_anchor(&anchor).map_err(|error| from_io(subject, &error))?;
    Ok(Located {
        root: dir,
        names,
        is_root: real == root,
        real,
    })
}

/// Returns a root without links; a root that does not exist yet keeps its missing end.
fn real_root(root: &Path) -> Option<PathBuf> {
    let (base, rest) = canonical_ancestor(root).ok()?;
    handle::plain(&rest).ok()?;
    Some(if rest.as_os_str().is_empty() {
        base
    } else {
        base.join(rest)
    })
}

/// Returns the directory that is opened for a root: the root, or what is above a single file.
fn anchor(root: &Path) -> io::Result<(PathBuf, PathBuf)> {
    let mut anchor = root;
    while !anchor.is_dir() {
        anchor = anchor
            .parent()
            .ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
    }
    Ok((root.to_path_buf(), anchor.to_path_buf()))
}

fn open_anchor(anchor: &Path) -> io::Result<Dir> {
    let dir = handle::open_root(anchor)?;
    if real_path(&dir)? == anchor {
        Ok(dir)
    } else {
        Err(rustix::io::Errno::LOOP.into())
    }
}

fn covered(path: &Path, roots: &[PathBuf]) -> bool {
    roots.iter().any(|root| path.starts_with(root))
}

/// Resolves `.` and `..` by the text alone; only for the wording of refusals.
fn lexical(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            std::path::Component::ParentDir => {
                out.pop();
            }
            std::path::Component::CurDir => {}
            other => out.push(other),
        }
    }
    out
}

fn nowhere(subject: &str, absolute: &Path, roots: &[PathBuf], purpose: Purpose) -> Refusal {
    let plain = lexical(absolute);
    if covered(&plain, roots) {
        let message = format!("{subject} goes up from a directory that does not exist.");
        return Refusal::new(RefusalKind::NotFound, subject, message);
    }
    outside(subject, &plain, roots, purpose)
}

fn outside(subject: &str, real: &Path, roots: &[PathBuf], purpose: Purpose) -> Refusal {
    let word = purpose.word();
    let plain = lexical(real);
    let refusal = Refusal::new(
        RefusalKind::Forbidden,
        subject,
        format!(
            "{subject} is outside of the folders that may be {} here.",
            match purpose {
                Purpose::Read => "read",
                Purpose::Write => "written",
            }
        ),
    );
    refusal
        .supported(
            roots
                .iter()
                .take(20)
                .map(|root| format!("file:{}", root.display())),
        )
        .next_step(format!(
            "a person can grant {word}:file:{} (or a folder above it)",
            plain.display()
        ))
}
