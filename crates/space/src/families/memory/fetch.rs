//! Filling a file of a memory from a page or an attachment, streaming.

use std::io::Read as _;

use pentad_model::address::{Address, MemoryPath};
use pentad_model::outcome::Product;
use pentad_model::refusal::{Refusal, RefusalKind};
use serde_json::{Map, json};
use url::Url;

use super::MemoryFamily;
use super::write::Place;
use crate::attach::blob_of;
use crate::blocking::blocking;
use crate::kind::extension;
use crate::scene::Scene;
use crate::trouble::{from_io, from_store};

/// Where the bytes come from.
pub(super) enum Source {
    Url(Url),
    Attachment(String),
}

/// Parses `fromUrl`.
pub(super) fn parse_url(text: &str) -> Result<Url, Refusal> {
    match Address::parse(text)? {
        Address::Web(url) => Ok(url),
        _ => Err(Refusal::new(
            RefusalKind::BadRequest,
            "fromUrl",
            "fromUrl takes an address of the web.",
        )
        .supported(["https://…", "http://…"])),
    }
}

pub(super) async fn fetch(
    family: &MemoryFamily,
    scene: &Scene,
    path: &MemoryPath,
    source: Source,
    dry_run: bool,
) -> Result<Product, Refusal> {
    match source {
        Source::Url(url) => Box::pin(from_url(family, scene, path, url, dry_run)).await,
        Source::Attachment(cid) => from_attachment(family, scene, path, &cid, dry_run).await,
    }
}

/// Returns the components of the file: the path itself, or `name` below it when it is a directory.
fn target(path: &MemoryPath, folder: &str, name: &str) -> Vec<String> {
    let mut components = path.components().to_vec();
    if components.is_empty() && !folder.is_empty() {
        components.push(folder.to_owned());
    }
    if path.is_directory() {
        components.push(plain_name(name));
    }
    components
}

fn plain_name(name: &str) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or("");
    let clean: String = last.chars().filter(|c| !c.is_control()).take(120).collect();
    match clean.trim() {
        "" | "." | ".." => "download".to_owned(),
        clean => clean.to_owned(),
    }
}

async fn from_url(
    family: &MemoryFamily,
    scene: &Scene,
    path: &MemoryPath,
    url: Url,
    dry_run: bool,
) -> Result<Product, Refusal> {
    let last = url
        .path_segments()
        .and_then(|mut segments| segments.next_back().map(str::to_owned))
        .unwrap_or_default();
    let mut place = Place::new(family, scene, target(path, "", &last));
    let probe = place.clone();
    let replaced = blocking(move || probe.check(0)).await?;
    if dry_run {
        family.web.check(scene, &url).await?;
        let mut extra = Map::new();
        extra.insert("fromUrl".to_owned(), json!(url.as_str()));
        return Ok(place.written(0, replaced).product(true, extra));
    }
    let mut response = family.web.open(scene, url).await?;
    if !(200..300).contains(&response.status()) {
        let message = format!(
            "{} answered with HTTP status {}; nothing was written.",
            response.url(),
            response.status()
        );
        return Err(
            Refusal::new(RefusalKind::Unavailable, response.url().as_str(), message)
                .next_step(format!("read {} shows the answer", response.url())),
        );
    }
    let mime = response.mime();
    if let Some(name) = place.target.last_mut()
        && !name.contains('.')
        && let Some(ending) = mime.as_deref().and_then(extension)
    {
        name.push_str(&ending);
    }
    let begun = place.clone();
    let mut body = blocking(move || begun.begin()).await?;
    let mut size = 0_u64;
    let subject = place.address();
    while let Some(chunk) = response.chunk(scene).await? {
        size += chunk.len() as u64;
        if size > place.limits.memory_file_bytes {
            // The check words the refusal.
            let over = place.clone();
            blocking(move || over.check(size)).await?;
        }
        let named = subject.clone();
        body = blocking(move || {
            body.write(&chunk).map_err(|error| from_io(&named, &error))?;
            Ok(body)
        })
        .await?;
    }
    let done = place.clone();
    let written = blocking(move || done.commit(body, size)).await?;
    let mut extra = Map::new();
    extra.insert("finalUrl".to_owned(), json!(response.url().as_str()));
    extra.insert("contentType".to_owned(), json!(mime));
    Ok(written.product(false, extra))
}

async fn from_attachment(
    family: &MemoryFamily,
    scene: &Scene,
    path: &MemoryPath,
    cid: &str,
    dry_run: bool,
) -> Result<Product, Refusal> {
    let subject = format!("attachment:{cid}");
    let attachment = family
        .store
        .attachment(cid)
        .await
        .map_err(|error| from_store(&subject, &error))?;
    let blob = family
        .store
        .blob_path(&blob_of(cid)?)
        .await
        .map_err(|error| from_store(&subject, &error))?;
    let name = attachment.name.as_deref().unwrap_or(cid);
    let place = Place::new(family, scene, target(path, "attachments", name));
    let mut extra = Map::new();
    extra.insert("fromAttachment".to_owned(), json!(cid));
    extra.insert("mimeType".to_owned(), json!(attachment.mime));
    let size = attachment.bytes;
    let written = blocking(move || {
        let old = place.check(size)?;
        if dry_run {
            return Ok(place.written(size, old));
        }
        let failed = |error: &std::io::Error| from_io(&subject, error);
        let mut source = std::fs::File::open(blob)
            .map_err(|error| failed(&error))?
            .take(size);
        let mut body = place.begin()?;
        let mut buffer = vec![0_u8; 64 << 10];
        loop {
            let count = source.read(&mut buffer).map_err(|error| failed(&error))?;
            let Some(part) = buffer.get(..count).filter(|part| !part.is_empty()) else {
                break;
            };
            body.write(part)
                .map_err(|error| from_io(&place.address(), &error))?;
        }
        place.commit(body, size)
    })
    .await?;
    Ok(written.product(dry_run, extra))
}
