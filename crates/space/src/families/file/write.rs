//! Writing and deleting a file.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use cap_std::fs::{Dir, MetadataExt as _};
use pentad_model::Name;
use pentad_model::outcome::Product;
use pentad_model::refusal::{Refusal, RefusalKind};
use pentad_model::verb::Write;
use serde_json::json;

use super::locate::{Purpose, locate};
use super::read::special_or;
use super::{FileFamily, Forbidden};
use crate::blocking::blocking;
use crate::handle::{self, Kind, Opened, Replacement};
use crate::real_path::real_path;
use crate::scene::Scene;
use crate::show;
use crate::trouble::from_io;

pub(super) async fn write(
    family: &FileFamily,
    scene: &Scene,
    path: &str,
    write: &Write,
) -> Result<Product, Refusal> {
    let delete = write.options.flag("delete");
    let subject = format!("file:{path}");
    let act = match (&write.content, delete) {
        (Some(content), false) => Act::Content(content.clone()),
        (None, true) => Act::Delete,
        (None, false) => {
            return Err(Refusal::new(
                RefusalKind::BadRequest,
                subject,
                "Writing a file needs something to write.",
            )
            .supported(["content", "options.delete"]));
        }
        (Some(_), true) => {
            let message = "Writing a file takes content or delete, not both.";
            return Err(Refusal::new(RefusalKind::BadRequest, subject, message));
        }
    };
    let target = Target {
        cwd: scene.workspace.cwd.clone(),
        roots: scene.write_roots.clone(),
        path: path.to_owned(),
        subject,
        agent: scene.agent.clone(),
        forbidden: family.forbidden.clone(),
        dry_run: scene.dry_run || write.dry_run,
    };
    blocking(move || match act {
        Act::Content(content) => target.store(content.as_bytes()),
        Act::Delete => target.delete(),
    })
    .await
}

enum Act {
    Content(String),
    Delete,
}

struct Target {
    cwd: PathBuf,
    roots: Vec<PathBuf>,
    path: String,
    subject: String,
    agent: Name,
    forbidden: Forbidden,
    dry_run: bool,
}

/// The directory of a target, open, and what is there now.
struct Spot {
    dir: Option<Dir>,
    name: OsString,
    kind: Option<Kind>,
    root: Dir,
    parents: Vec<OsString>,
}

impl Target {
    fn failed(&self, error: &std::io::Error) -> Refusal {
        special_or(&self.subject, error)
    }

    fn conflict(&self, what: &str) -> Refusal {
        let message = format!("{} is {what}.", self.subject);
        Refusal::new(RefusalKind::Conflict, self.subject.as_str(), message)
    }

    /// Locates the target and judges it; changes nothing.
    fn spot(&self) -> Result<Spot, Refusal> {
        let absolute = self.cwd.join(&self.path);
        let (Some(written), Some(parent)) = (absolute.file_name(), absolute.parent()) else {
            return Err(self.conflict("no name of a file"));
        };
        // The last name is located through its directory, so that a link there is seen and not followed.
        let located = match locate(parent, &self.subject, &self.roots, Purpose::Write) {
            Ok(located) => located,
            // The parent may lie above a root that is the file itself.
            Err(_) => {
                let whole = locate(&absolute, &self.subject, &self.roots, Purpose::Write)?;
                if !whole.is_root || whole.real.file_name() != Some(written) || whole.names.is_empty() {
                    return Err(
                        self.conflict("not reachable by its own name; write the path that it really has")
                    );
                }
                let mut whole = whole;
                whole.names.pop();
                whole.real.pop();
                whole
            }
        };
        let real = located.real.join(written);
        self.forbidden.check_path(&self.subject, &real, &self.agent)?;
        let dir = match handle::descend(&located.root, &located.names, false) {
            Ok(dir) => Some(dir),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(self.failed(&error)),
        };
        let kind = match &dir {
            None => None,
            Some(dir) => self.judge(dir, written)?,
        };
        Ok(Spot {
            dir,
            name: written.to_os_string(),
            kind,
            root: located.root,
            parents: located.names,
        })
    }

    /// Judges the open directory by its real path, and what is there by its identity.
    fn judge(&self, dir: &Dir, name: &OsStr) -> Result<Option<Kind>, Refusal> {
        let real = real_path(dir).map_err(|error| self.failed(&error))?.join(name);
        self.forbidden.check_path(&self.subject, &real, &self.agent)?;
        let kind = match handle::kind(dir, name) {
            Ok(kind) => kind,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.failed(&error)),
        };
        if kind == Kind::File
            && let Ok(Opened::File(file)) = handle::open(dir, name)
        {
            let metadata = file.metadata().map_err(|error| self.failed(&error))?;
            self.forbidden
                .check_identity(&self.subject, &metadata, &real, &self.agent)?;
        }
        Ok(Some(kind))
    }

    fn store(&self, bytes: &[u8]) -> Result<Product, Refusal> {
        if self.path.ends_with('/') {
            return Err(self.conflict("a directory's name; content goes into a file"));
        }
        let spot = self.spot()?;
        match spot.kind {
            None | Some(Kind::File) => {}
            Some(Kind::Directory) => return Err(self.conflict("a directory; it is not replaced")),
            Some(Kind::Link) => {
                return Err(self
                    .conflict("a symbolic link; it is neither followed nor replaced")
                    .next_step("write to the path that it points to"));
            }
            Some(Kind::Special) => return Err(self.conflict("a special file; it is not replaced")),
        }
        if !self.dry_run {
            self.replace(&spot, bytes)?;
        }
        let replaced = spot.kind.is_some();
        let did = match (self.dry_run, replaced) {
            (false, false) => "Wrote",
            (false, true) => "Replaced",
            (true, false) => "Dry run: would write",
            (true, true) => "Dry run: would replace",
        };
        let size = bytes.len() as u64;
        let text = format!("{did} {} ({})\n", self.subject, show::size(size));
        let mut value =
            json!({"address": self.subject, "path": self.path, "size": size, "replaced": replaced});
        if self.dry_run
            && let Some(map) = value.as_object_mut()
        {
            map.insert("dryRun".to_owned(), json!(true));
        }
        Ok(Product::text(text, self.subject.clone()).value(value))
    }

    fn replace(&self, spot: &Spot, bytes: &[u8]) -> Result<(), Refusal> {
        let made;
        let dir = match &spot.dir {
            Some(dir) => dir,
            None => {
                made =
                    handle::descend(&spot.root, &spot.parents, true).map_err(|error| self.failed(&error))?;
                self.judge(&made, &spot.name)?;
                &made
            }
        };
        let mode = match spot.kind {
            Some(_) => dir
                .symlink_metadata(&spot.name)
                .ok()
                .map(|metadata| metadata.mode()),
            None => None,
        };
        let mut body = Replacement::begin(dir, mode).map_err(|error| self.failed(&error))?;
        body.write(bytes)
            .and_then(|()| body.commit(&spot.name))
            .map_err(|error| from_io(&self.subject, &error))
    }

    fn delete(&self) -> Result<Product, Refusal> {
        let spot = self.spot()?;
        let deleted = match (&spot.dir, spot.kind) {
            (Some(dir), Some(kind)) => {
                if kind == Kind::Directory {
                    self.empty(dir, &spot.name)?;
                }
                if !self.dry_run {
                    remove(dir, &spot.name, kind).map_err(|error| self.failed(&error))?;
                }
                true
            }
            _ => false,
        };
        let text = match (deleted, self.dry_run) {
            (true, false) => format!("Deleted {}\n", self.subject),
            (true, true) => format!(
                "Dry run: {} would be deleted; nothing was changed.\n",
                self.subject
            ),
            (false, _) => format!("There was nothing at {}; nothing was deleted.\n", self.subject),
        };
        let value = json!({
            "address": self.subject,
            "path": self.path,
            "deleted": deleted && !self.dry_run,
            "dryRun": self.dry_run,
        });
        Ok(Product::text(text, self.subject.clone()).value(value))
    }

    /// Refuses directories with something in them: outside of a memory nothing is deleted by the tree.
    fn empty(&self, dir: &Dir, name: &OsStr) -> Result<(), Refusal> {
        let Ok(Opened::Directory(folder)) = handle::open(dir, name) else {
            return Err(self.conflict("no directory any more"));
        };
        let real = real_path(&folder).map_err(|error| self.failed(&error))?;
        self.forbidden.check_below(&self.subject, &real)?;
        let level = handle::list(&folder, 1).map_err(|error| self.failed(&error))?;
        let count = level.entries.len() as u64 + level.left_out;
        if count == 0 {
            return Ok(());
        }
        let entries = if count == 1 {
            "an entry".to_owned()
        } else {
            format!("{count} entries")
        };
        let message = format!(
            "{} is a directory with {entries} in it; only empty ones are deleted.",
            self.subject
        );
        Err(
            Refusal::new(RefusalKind::Conflict, self.subject.as_str(), message).next_step(format!(
                "read {} lists them; delete them one by one",
                self.subject
            )),
        )
    }
}

fn remove(dir: &Dir, name: &OsStr, kind: Kind) -> std::io::Result<()> {
    match kind {
        Kind::Directory => dir.remove_dir(name)?,
        Kind::File | Kind::Link | Kind::Special => dir.remove_file(name)?,
    }
    handle::sync(dir)
}
