//! What `file:` never reaches: the home of Pentad itself, the configuration of clients, running processes.
//!
//! Judged on the opened thing, never on the written path: its real path, and its identity where a file has several
//! names.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use pentad_model::Name;
use pentad_model::refusal::{Refusal, RefusalKind};

use crate::families::memory::MemoryRoot;
use crate::real_path::canonical_ancestor;

/// Most entries that are looked at to prove that a file with several names is not one of ours.
const LOOKED_AT: usize = 200_000;

/// Environments, memories and open files of running processes, our own among them.
const PROCESSES: &str = "/proc";

/// Files and folders that stay closed.
#[derive(Debug, Clone)]
pub(crate) struct Forbidden {
    paths: Vec<PathBuf>,
    memory: MemoryRoot,
}

impl Forbidden {
    pub(crate) fn new(paths: Vec<PathBuf>, memory: &MemoryRoot) -> Self {
        let mut paths = paths;
        paths.push(PathBuf::from(PROCESSES));
        Self {
            paths,
            memory: memory.clone(),
        }
    }

    /// Refuses a path at or below a closed one, unless it is in the agent's own memory.
    pub(super) fn check_path(&self, subject: &str, real: &Path, agent: &Name) -> Result<(), Refusal> {
        if self.is_own_memory(real, agent) {
            return Ok(());
        }
        if self.closed().any(|closed| real.starts_with(closed)) {
            return Err(refuse(subject));
        }
        Ok(())
    }

    /// Refuses an opened file that is a closed one under another name.
    pub(super) fn check_identity(
        &self,
        subject: &str,
        metadata: &Metadata,
        real: &Path,
        agent: &Name,
    ) -> Result<(), Refusal> {
        if self.is_own_memory(real, agent) {
            return Ok(());
        }
        let mut left = LOOKED_AT;
        for path in &self.paths {
            let Ok(closed) = std::fs::metadata(path) else {
                continue;
            };
            if same(&closed, metadata) {
                return Err(refuse(subject));
            }
            if path.as_path() == Path::new(PROCESSES) {
                continue;
            }
            // A file with one name only is where its real path says.
            let may_hide = metadata.is_file() && metadata.nlink() > 1 && closed.is_dir();
            if may_hide && closed.dev() == metadata.dev() && self.contains(path, metadata, &mut left) {
                return Err(refuse(subject));
            }
        }
        if left == 0 {
            let message = format!(
                "{subject} has several names, and it cannot be proven that none of them is a closed one."
            );
            return Err(Refusal::new(RefusalKind::Forbidden, subject, message)
                .next_step("copy the file and read the copy"));
        }
        Ok(())
    }

    /// Refuses to delete what has something closed below it.
    pub(super) fn check_below(&self, subject: &str, real: &Path) -> Result<(), Refusal> {
        let holds = self.closed().any(|closed| closed.starts_with(real));
        if holds { Err(refuse(subject)) } else { Ok(()) }
    }

    /// Returns the closed paths as they really are. One that is a link is closed as the link and as its target.
    fn closed(&self) -> impl Iterator<Item = PathBuf> {
        self.paths.iter().flat_map(|path| {
            let name = path.file_name().unwrap_or_default();
            let link = path.parent().and_then(resolved).map(|parent| parent.join(name));
            resolved(path).into_iter().chain(link)
        })
    }

    fn is_own_memory(&self, real: &Path, agent: &Name) -> bool {
        let folder = self.memory.folder(agent);
        resolved(&folder).is_some_and(|memory| real.starts_with(&memory) && real != memory)
    }

    fn contains(&self, folder: &Path, metadata: &Metadata, left: &mut usize) -> bool {
        let mut open = vec![folder.to_path_buf()];
        while let Some(folder) = open.pop() {
            let Ok(entries) = std::fs::read_dir(&folder) else {
                continue;
            };
            for entry in entries.flatten() {
                if *left == 0 {
                    return false;
                }
                *left -= 1;
                let Ok(found) = entry.metadata() else { continue };
                if found.is_dir() {
                    open.push(entry.path());
                } else if same(&found, metadata) {
                    return true;
                }
            }
        }
        false
    }
}

fn same(a: &Metadata, b: &Metadata) -> bool {
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

fn resolved(path: &Path) -> Option<PathBuf> {
    let (base, rest) = canonical_ancestor(path).ok()?;
    Some(if rest.as_os_str().is_empty() {
        base
    } else {
        base.join(rest)
    })
}

fn refuse(subject: &str) -> Refusal {
    Refusal::new(
        RefusalKind::Forbidden,
        subject,
        format!(
            "{subject} belongs to Pentad itself, to a client's configuration or to running processes; \
             no grant opens it to file:."
        ),
    )
    .next_step("~/memory/, ~/tools/ and ~/self show what an agent may see of this home")
}
