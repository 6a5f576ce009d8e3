//! Writing a memory: content, a download, an attachment, or a deletion.

use std::ffi::OsStr;

use pentad_model::Name;
use pentad_model::address::MemoryPath;
use pentad_model::outcome::Product;
use pentad_model::refusal::{Refusal, RefusalKind};
use pentad_model::verb::Write;
use serde_json::{Map, Value, json};

use super::fetch::{self, Source};
use super::{MemoryFamily, MemoryRoot, address_of};
use crate::blocking::blocking;
use crate::handle::{self, Kind, Replacement};
use crate::limits::SpaceLimits;
use crate::scene::Scene;
use crate::show;
use crate::trouble::from_io;

/// What is asked, one of four.
enum Act {
    Content(String),
    Delete,
    FromUrl(url::Url),
    FromAttachment(String),
}

fn act(write: &Write) -> Result<Act, Refusal> {
    let options = &write.options;
    let from_url = options.text("fromUrl");
    let from_attachment = options.text("fromAttachment");
    let delete = options.flag("delete");
    let given = usize::from(write.content.is_some())
        + usize::from(delete)
        + usize::from(from_url.is_some())
        + usize::from(from_attachment.is_some());
    if given != 1 {
        let message = if given == 0 {
            "Writing a memory needs something to write.".to_owned()
        } else {
            format!("Writing a memory takes one source; {given} were given.")
        };
        return Err(
            Refusal::new(RefusalKind::BadRequest, write.address.to_string(), message).supported([
                "content",
                "options.delete",
                "options.fromUrl",
                "options.fromAttachment",
            ]),
        );
    }
    if let Some(content) = &write.content {
        return Ok(Act::Content(content.clone()));
    }
    if let Some(text) = from_url {
        return fetch::parse_url(text).map(Act::FromUrl);
    }
    if let Some(cid) = from_attachment {
        return Ok(Act::FromAttachment(
            cid.strip_prefix("attachment:").unwrap_or(cid).trim().to_owned(),
        ));
    }
    Ok(Act::Delete)
}

pub(super) async fn write(
    family: &MemoryFamily,
    scene: &Scene,
    path: &MemoryPath,
    write: &Write,
) -> Result<Product, Refusal> {
    let dry_run = scene.dry_run || write.dry_run;
    match act(write)? {
        Act::Delete => delete(family, scene, path, dry_run).await,
        Act::Content(content) => {
            let target = file_target(path)?;
            let place = Place::new(family, scene, target);
            let bytes = content.into_bytes();
            let written = blocking(move || place.store(&bytes, dry_run)).await?;
            Ok(written.product(dry_run, Map::new()))
        }
        Act::FromUrl(url) => Box::pin(fetch::fetch(family, scene, path, Source::Url(url), dry_run)).await,
        Act::FromAttachment(cid) => {
            Box::pin(fetch::fetch(
                family,
                scene,
                path,
                Source::Attachment(cid),
                dry_run,
            ))
            .await
        }
    }
}

fn file_target(path: &MemoryPath) -> Result<Vec<String>, Refusal> {
    if path.is_directory() {
        let address = address_of(&path.to_string());
        let message = format!("{address} names a directory; content goes into a file.");
        return Err(Refusal::new(RefusalKind::BadRequest, address, message)
            .next_step("name the file, for example ~/memory/notes.md; missing directories are made"));
    }
    Ok(path.components().to_vec())
}

async fn delete(
    family: &MemoryFamily,
    scene: &Scene,
    path: &MemoryPath,
    dry_run: bool,
) -> Result<Product, Refusal> {
    let address = address_of(&path.to_string());
    let Some((name, parents)) = path.components().split_last() else {
        let message = "The whole memory is not deleted at once.";
        return Err(Refusal::new(RefusalKind::BadRequest, address, message)
            .next_step("read ~/memory/ lists its entries; delete them one by one"));
    };
    let (root, agent) = (family.root.clone(), scene.agent.clone());
    let (name, parents, subject) = (name.clone(), parents.to_vec(), address.clone());
    let deleted = blocking(move || {
        let _one_writer = root.lock();
        let removed = root.open(&agent).and_then(|memory| {
            let Some(memory) = memory else { return Ok(false) };
            let dir = handle::descend(&memory, &parents, false)?;
            handle::kind(&dir, OsStr::new(&name))?;
            if !dry_run {
                handle::remove(&dir, OsStr::new(&name))?;
            }
            Ok(true)
        });
        match removed {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            other => other.map_err(|error| from_io(&subject, &error)),
        }
    })
    .await?;
    let text = match (deleted, dry_run) {
        (true, false) => format!("Deleted {address}\n"),
        (true, true) => format!("Dry run: {address} would be deleted; nothing was changed.\n"),
        (false, _) => format!("There was nothing at {address}; nothing was deleted.\n"),
    };
    let mut value = json!({"address": address, "path": path.relative(), "deleted": deleted && !dry_run});
    if dry_run && let Some(map) = value.as_object_mut() {
        map.insert("dryRun".to_owned(), json!(true));
        map.insert("wouldDelete".to_owned(), json!(deleted));
    }
    Ok(Product::text(text, address).value(value))
}

/// Where a file goes, with the limits that hold there.
#[derive(Clone)]
pub(super) struct Place {
    root: MemoryRoot,
    agent: Name,
    pub(super) target: Vec<String>,
    pub(super) limits: SpaceLimits,
}

/// What a write did.
pub(super) struct Written {
    pub(super) path: String,
    pub(super) size: u64,
    pub(super) replaced: bool,
}

impl Place {
    pub(super) fn new(family: &MemoryFamily, scene: &Scene, target: Vec<String>) -> Self {
        Self {
            root: family.root.clone(),
            agent: scene.agent.clone(),
            target,
            limits: family.limits,
        }
    }

    pub(super) fn address(&self) -> String {
        address_of(&self.target.join("/"))
    }

    fn split(&self) -> Result<(&str, &[String]), Refusal> {
        self.target
            .split_last()
            .map(|(name, parents)| (name.as_str(), parents))
            .ok_or_else(|| Refusal::new(RefusalKind::BadRequest, "~/memory/", "A file needs a name."))
    }

    /// Checks that the place can take a file of `size` bytes, changing nothing; returns the size of what is replaced.
    pub(super) fn check(&self, size: u64) -> Result<Option<u64>, Refusal> {
        let address = self.address();
        let (name, parents) = self.split()?;
        if size > self.limits.memory_file_bytes {
            let message = format!(
                "A file of a memory has at most {}; this one has {}.",
                show::size(self.limits.memory_file_bytes),
                show::size(size)
            );
            return Err(Refusal::new(RefusalKind::TooLarge, address, message));
        }
        if name.len() > 255 || parents.iter().any(|part| part.len() > 255) {
            let message = format!("A name in {address} is longer than 255 bytes.");
            return Err(Refusal::new(RefusalKind::BadRequest, address, message));
        }
        let failed = |error: &std::io::Error| from_io(&address, error);
        let Some(memory) = self.root.open(&self.agent).map_err(|error| failed(&error))? else {
            return self.fits(0, size).map(|()| None);
        };
        let old = match handle::descend(&memory, parents, false) {
            Ok(dir) => match handle::kind(&dir, OsStr::new(name)) {
                Ok(Kind::File) => Some(dir.symlink_metadata(name).map_or(0, |metadata| metadata.len())),
                Ok(kind) => return Err(self.occupied(kind)),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
                Err(error) => return Err(failed(&error)),
            },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(&error)),
        };
        let used = handle::usage(&memory).map_err(|error| failed(&error))?;
        self.fits(used.saturating_sub(old.unwrap_or(0)), size)?;
        Ok(old)
    }

    fn fits(&self, used: u64, size: u64) -> Result<(), Refusal> {
        if used.saturating_add(size) <= self.limits.memory_bytes {
            return Ok(());
        }
        let message = format!(
            "The memory of agent {} holds {} of at most {}; {} more do not fit.",
            self.agent,
            show::size(used),
            show::size(self.limits.memory_bytes),
            show::size(size)
        );
        Err(Refusal::new(RefusalKind::TooLarge, self.address(), message)
            .next_step("read ~/memory/ lists sizes; write {\"address\":\"~/memory/<path>\",\"options\":{\"delete\":true}} makes room"))
    }

    fn occupied(&self, kind: Kind) -> Refusal {
        let address = self.address();
        let what = match kind {
            Kind::Directory => "a directory",
            Kind::Link => "a symbolic link, which is not followed",
            Kind::File | Kind::Special => "a special file",
        };
        Refusal::new(
            RefusalKind::Conflict,
            address.as_str(),
            format!("{address} is {what}; it is not replaced."),
        )
        .next_step("choose another name, or delete it first")
    }

    /// Opens a file beside the place, for a body that streams in.
    pub(super) fn begin(&self) -> Result<Replacement, Refusal> {
        let (_, parents) = self.split()?;
        self.root
            .create(&self.agent)
            .and_then(|memory| handle::descend(&memory, parents, true))
            .and_then(|dir| Replacement::begin(&dir, None))
            .map_err(|error| from_io(&self.address(), &error))
    }

    /// Puts a streamed body in its place, after checking again: writers take turns from here on.
    pub(super) fn commit(&self, body: Replacement, size: u64) -> Result<Written, Refusal> {
        let (name, _) = self.split()?;
        let _one_writer = self.root.lock();
        // The body itself is already counted where it lies, so it must not count a second time.
        let old = self.check_committing(size)?;
        body.commit(OsStr::new(name))
            .map_err(|error| from_io(&self.address(), &error))?;
        Ok(self.written(size, old))
    }

    fn check_committing(&self, size: u64) -> Result<Option<u64>, Refusal> {
        let roomier = Self {
            limits: SpaceLimits {
                memory_bytes: self.limits.memory_bytes.saturating_add(size),
                ..self.limits
            },
            ..self.clone()
        };
        roomier.check(size)
    }

    /// Writes bytes.
    pub(super) fn store(&self, bytes: &[u8], dry_run: bool) -> Result<Written, Refusal> {
        let (name, _) = self.split()?;
        let size = bytes.len() as u64;
        let _one_writer = self.root.lock();
        let old = self.check(size)?;
        if !dry_run {
            let mut body = self.begin()?;
            body.write(bytes)
                .and_then(|()| body.commit(OsStr::new(name)))
                .map_err(|error| from_io(&self.address(), &error))?;
        }
        Ok(self.written(size, old))
    }

    pub(super) fn written(&self, size: u64, old: Option<u64>) -> Written {
        Written {
            path: self.target.join("/"),
            size,
            replaced: old.is_some(),
        }
    }
}

impl Written {
    pub(super) fn product(self, dry_run: bool, extra: Map<String, Value>) -> Product {
        let address = address_of(&self.path);
        let did = match (dry_run, self.replaced) {
            (false, false) => "Wrote",
            (false, true) => "Replaced",
            (true, false) => "Dry run: would write",
            (true, true) => "Dry run: would replace",
        };
        let text = format!("{did} {address} ({})\n", show::size(self.size));
        let mut value = extra;
        value.insert("address".to_owned(), json!(address));
        value.insert("path".to_owned(), json!(self.path));
        value.insert("size".to_owned(), json!(self.size));
        value.insert("replaced".to_owned(), json!(self.replaced));
        if dry_run {
            value.insert("dryRun".to_owned(), json!(true));
        }
        Product::text(text, address).value(Value::Object(value))
    }
}
