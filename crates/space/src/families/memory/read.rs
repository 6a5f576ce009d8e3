//! Reading a memory: a listing, a text, or what is known about something else.

use pentad_model::Name;
use pentad_model::address::MemoryPath;
use pentad_model::options::Options;
use pentad_model::outcome::Product;
use pentad_model::refusal::{Refusal, RefusalKind};
use pentad_model::select::Selection;
use serde_json::json;

use super::{MemoryFamily, MemoryRoot, address_of};
use crate::blocking::blocking;
use crate::families::listing;
use crate::handle::{self, Kind, Level, Opened};
use crate::limits::SpaceLimits;
use crate::present::{About, Examined, examine, select_limits};
use crate::scene::Scene;
use crate::select::SelectLimits;
use crate::trouble::from_io;

enum Found {
    Level(Level),
    File(Box<Examined>),
}

pub(super) async fn read(
    family: &MemoryFamily,
    scene: &Scene,
    path: &MemoryPath,
    options: &Options,
) -> Result<Product, Refusal> {
    let selection = Selection::parse(options)?;
    let (root, agent, limits) = (family.root.clone(), scene.agent.clone(), family.limits);
    let select = select_limits(scene, &limits);
    let wanted = path.clone();
    match blocking(move || find(&root, &agent, &wanted, &selection, &select, &limits)).await? {
        Found::Level(level) => Ok(listed(path, &level)),
        Found::File(examined) => {
            examined
                .product(family.store.as_ref(), scene, &family.limits)
                .await
        }
    }
}

fn listed(path: &MemoryPath, level: &Level) -> Product {
    let relative = path.relative();
    let prefix = if relative.is_empty() {
        relative
    } else {
        format!("{relative}/")
    };
    let address = address_of(&prefix);
    let mut text = listing::markdown(&address, level);
    if level.entries.is_empty() && prefix.is_empty() {
        text.push_str(
            "This memory is empty. Next: write {\"address\":\"~/memory/notes.md\",\"content\":\"…\"}\n",
        );
    }
    let mut value = listing::value(&address, &prefix, level);
    if let Some(map) = value.as_object_mut() {
        map.insert("path".to_owned(), json!(path.relative()));
    }
    Product::text(text, address).value(value)
}

fn find(
    root: &MemoryRoot,
    agent: &Name,
    path: &MemoryPath,
    selection: &Selection,
    select: &SelectLimits,
    limits: &SpaceLimits,
) -> Result<Found, Refusal> {
    let address = address_of(&path.to_string());
    let failed = |error: &std::io::Error| special_or(&address, error);
    let memory = root.open(agent).map_err(|error| failed(&error))?;
    let Some((name, parents)) = path.components().split_last() else {
        let level = memory.map_or_else(
            || Ok(Level::default()),
            |dir| handle::list(&dir, limits.list_entries),
        );
        return level
            .map(without_links)
            .map(Found::Level)
            .map_err(|error| failed(&error));
    };
    let missing = || {
        let parent = parents.join("/");
        Refusal::new(
            RefusalKind::NotFound,
            address.as_str(),
            format!("There is nothing at {address}."),
        )
        .next_step(if parent.is_empty() {
            "read ~/memory/ lists what is there".to_owned()
        } else {
            format!("read ~/memory/{parent}/ lists what is there")
        })
    };
    let memory = memory.ok_or_else(missing)?;
    let opened = handle::descend(&memory, parents, false).and_then(|dir| handle::open(&dir, name.as_ref()));
    match opened {
        Ok(Opened::Directory(dir)) => handle::list(&dir, limits.list_entries)
            .map(without_links)
            .map(Found::Level)
            .map_err(|error| failed(&error)),
        Ok(Opened::File(_)) if path.is_directory() => Err(Refusal::new(
            RefusalKind::NotFound,
            address.as_str(),
            format!("{address} is a file, not a directory."),
        )
        .next_step(format!("read ~/memory/{}", path.relative()))),
        Ok(Opened::File(file)) => {
            let mut about = About::new(address_of(&path.relative()));
            about.name = Some(name.clone());
            about.modified = file.metadata().ok().map(|metadata| handle::modified(&metadata));
            about.strict = true;
            about.extra.insert("path".to_owned(), json!(path.relative()));
            examine(file, about, selection, select, limits.image_bytes)
                .map(Box::new)
                .map(Found::File)
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(missing()),
        Err(error) => Err(failed(&error)),
    }
}

/// Leaves out what a memory does not serve.
fn without_links(mut level: Level) -> Level {
    level
        .entries
        .retain(|entry| matches!(entry.kind, Kind::File | Kind::Directory));
    level
}

fn special_or(address: &str, error: &std::io::Error) -> Refusal {
    if error.kind() == std::io::ErrorKind::InvalidInput {
        return Refusal::new(
            RefusalKind::NotSupported,
            address,
            format!("{address} is a special file (a pipe, socket or device); it is not opened."),
        );
    }
    from_io(address, error)
}
