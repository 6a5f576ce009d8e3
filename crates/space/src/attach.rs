//! Keeping a file by its content: attachments.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use bytes::Bytes;
use pentad_model::canonical::{cid_digest_hex, raw_cid};
use pentad_model::refusal::{Refusal, RefusalKind};
use pentad_model::{Timestamp, text};
use pentad_program::{Attachment, Store};

use crate::blocking::blocking;
use crate::kind::media_type;
use crate::show;
use crate::trouble::{from_io, from_store};

const MAX_NAME: usize = 255;

/// Attaches bytes: stored once by content, at most `cap` of them; returns the record with its CID.
///
/// # Errors
/// Refuses (413) what is larger than `cap`, and what the store refuses.
pub async fn attach_bytes(
    store: &dyn Store,
    bytes: Bytes,
    name: Option<&str>,
    cap: u64,
    now: Timestamp,
) -> Result<Attachment, Refusal> {
    let size = bytes.len() as u64;
    check_size(name.unwrap_or("attachment"), size, cap)?;
    let attachment = Attachment {
        cid: raw_cid(&bytes),
        name: clean_name(name),
        mime: media_type(bytes.get(..bytes.len().min(8192)).unwrap_or(&[]), name),
        bytes: size,
        created_at: now,
    };
    let subject = format!("attachment:{}", attachment.cid);
    store
        .put_blob(bytes)
        .await
        .map_err(|error| from_store(&subject, &error))?;
    store
        .put_attachment(attachment)
        .await
        .map_err(|error| from_store(&subject, &error))
}

/// Attaches a file that a person named: a regular file of at most `cap` bytes, under its own name or `name`.
///
/// The file is read once into memory, so that what is hashed is what is stored even while someone writes to it.
///
/// # Errors
/// Refuses directories, special files, files larger than `cap`, and what the store refuses.
pub async fn attach_file(
    store: &dyn Store,
    path: &Path,
    name: Option<&str>,
    cap: u64,
    now: Timestamp,
) -> Result<Attachment, Refusal> {
    let own = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = name.map(str::to_owned).or(own);
    let owned = path.to_path_buf();
    let bytes = blocking(move || read_regular(&owned, cap)).await?;
    attach_bytes(store, bytes, name.as_deref(), cap, now).await
}

fn read_regular(path: &Path, cap: u64) -> Result<Bytes, Refusal> {
    let subject = path.display().to_string();
    let metadata = std::fs::metadata(path).map_err(|error| from_io(&subject, &error))?;
    if !metadata.is_file() {
        let message = format!("{subject} is no regular file; only files can be attached.");
        return Err(Refusal::new(RefusalKind::BadRequest, subject, message));
    }
    check_size(&subject, metadata.len(), cap)?;
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(cap.saturating_add(1)).read_to_end(&mut bytes))
        .map_err(|error| from_io(&subject, &error))?;
    check_size(&subject, bytes.len() as u64, cap)?;
    Ok(bytes.into())
}

fn check_size(subject: &str, size: u64, cap: u64) -> Result<(), Refusal> {
    if size <= cap {
        return Ok(());
    }
    let message = format!(
        "An attachment has at most {}; this one has {}.",
        show::size(cap),
        show::size(size)
    );
    Err(Refusal::new(RefusalKind::TooLarge, subject, message)
        .next_step("keep the file where it is and read it as file:<path>"))
}

/// Returns the last component of a name, without control characters.
fn clean_name(name: Option<&str>) -> Option<String> {
    let last = name?.rsplit(['/', '\\']).next()?;
    let clean: String = last.chars().filter(|c| !c.is_control()).collect();
    let clean = text::prefix(clean.trim(), MAX_NAME);
    (!clean.is_empty() && clean != "." && clean != "..").then(|| clean.to_owned())
}

/// Returns the blob's name of an attachment.
pub(crate) fn blob_of(cid: &str) -> Result<String, Refusal> {
    cid_digest_hex(cid).ok_or_else(|| {
        let message = "Attachments are named by CIDs with SHA-256.";
        Refusal::new(RefusalKind::BadRequest, format!("attachment:{cid}"), message)
    })
}
