//! Reading a file or listing a folder.

use std::fs::File;

use pentad_model::Name;
use pentad_model::options::Options;
use pentad_model::outcome::Product;
use pentad_model::refusal::{Refusal, RefusalKind};
use pentad_model::select::Selection;
use serde_json::json;

use super::locate::{Located, Purpose, locate};
use super::{FileFamily, Forbidden};
use crate::blocking::blocking;
use crate::families::listing;
use crate::handle::{self, Level, Opened};
use crate::limits::SpaceLimits;
use crate::present::{About, Examined, examine, select_limits};
use crate::real_path::real_path;
use crate::scene::Scene;
use crate::select::SelectLimits;
use crate::trouble::from_io;

enum Found {
    Level(Level),
    File(Box<Examined>),
}

pub(super) async fn read(
    family: &FileFamily,
    scene: &Scene,
    path: &str,
    options: &Options,
) -> Result<Product, Refusal> {
    let selection = Selection::parse(options)?;
    let asked = Asked {
        cwd: scene.workspace.cwd.clone(),
        roots: scene.read_roots.clone(),
        path: path.to_owned(),
        agent: scene.agent.clone(),
        selection,
        select: select_limits(scene, &family.limits),
        limits: family.limits,
        forbidden: family.forbidden.clone(),
    };
    match blocking(move || asked.find()).await? {
        Found::Level(level) => {
            let folder = path.trim_end_matches('/');
            let prefix = match folder {
                "" if path.starts_with('/') => "/".to_owned(),
                "" | "." => String::new(),
                folder => format!("{folder}/"),
            };
            let address = format!("file:{path}");
            let value = listing::value(&address, &prefix, &level);
            Ok(Product::text(listing::markdown(&address, &level), address).value(value))
        }
        Found::File(examined) => {
            examined
                .product(family.store.as_ref(), scene, &family.limits)
                .await
        }
    }
}

struct Asked {
    cwd: std::path::PathBuf,
    roots: Vec<std::path::PathBuf>,
    path: String,
    agent: Name,
    selection: Selection,
    select: SelectLimits,
    limits: SpaceLimits,
    forbidden: Forbidden,
}

impl Asked {
    fn find(&self) -> Result<Found, Refusal> {
        let subject = format!("file:{}", self.path);
        let located = locate(&self.cwd.join(&self.path), &subject, &self.roots, Purpose::Read)?;
        // Said before opening, so that nothing of a closed folder shows, not even whether a name exists.
        self.forbidden.check_path(&subject, &located.real, &self.agent)?;
        let failed = |error: &std::io::Error| special_or(&subject, error);
        match open(&located).map_err(|error| failed(&error))? {
            Opened::Directory(dir) => {
                let real = real_path(&dir).map_err(|error| failed(&error))?;
                self.forbidden.check_path(&subject, &real, &self.agent)?;
                handle::list(&dir, self.limits.list_entries)
                    .map(Found::Level)
                    .map_err(|error| failed(&error))
            }
            Opened::File(_) if self.path.ends_with('/') => {
                let message = format!("{subject} is a file, not a directory.");
                Err(Refusal::new(RefusalKind::NotFound, subject.as_str(), message)
                    .next_step(format!("read file:{}", self.path.trim_end_matches('/'))))
            }
            Opened::File(file) => self.file(file, &subject),
        }
    }

    fn file(&self, file: File, subject: &str) -> Result<Found, Refusal> {
        let failed = |error: &std::io::Error| from_io(subject, error);
        let metadata = file.metadata().map_err(|error| failed(&error))?;
        let real = real_path(&file).map_err(|error| failed(&error))?;
        self.forbidden.check_path(subject, &real, &self.agent)?;
        self.forbidden
            .check_identity(subject, &metadata, &real, &self.agent)?;
        let mut about = About::new(subject);
        about.name = real.file_name().map(|name| name.to_string_lossy().into_owned());
        about.modified = Some(handle::modified(&metadata));
        about.extra.insert("path".to_owned(), json!(self.path));
        examine(
            file,
            about,
            &self.selection,
            &self.select,
            self.limits.image_bytes,
        )
        .map(Box::new)
        .map(Found::File)
    }
}

fn open(located: &Located) -> std::io::Result<Opened> {
    match located.names.split_last() {
        None => located.root.try_clone().map(Opened::Directory),
        Some((name, parents)) => {
            let dir = handle::descend(&located.root, parents, false)?;
            handle::open(&dir, name)
        }
    }
}

pub(super) fn special_or(subject: &str, error: &std::io::Error) -> Refusal {
    if error.kind() == std::io::ErrorKind::InvalidInput {
        let message = format!("{subject} is a special file (a pipe, socket or device); it is not opened.");
        return Refusal::new(RefusalKind::NotSupported, subject, message);
    }
    from_io(subject, error)
}
