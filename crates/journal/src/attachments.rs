//! Attachments: names and media types of blobs.

use pentad_model::Timestamp;
use pentad_program::{Attachment, StoreError};
use rusqlite::{Connection, Row, params};

use crate::codec::{signed, unsigned};
use crate::fault::Fault;
use crate::writer::Scope;

fn from_row(row: &Row<'_>) -> Result<Attachment, Fault> {
    Ok(Attachment {
        cid: row.get("cid")?,
        name: row.get("name")?,
        mime: row.get("mime")?,
        bytes: unsigned(row.get("bytes")?),
        created_at: Timestamp(row.get("created_at")?),
    })
}

/// Returns the name of an attachment's blob.
pub(crate) fn blob_of(cid: &str) -> Result<String, StoreError> {
    pentad_model::canonical::cid_digest_hex(cid).ok_or_else(|| no_attachment(cid))
}

fn no_attachment(cid: &str) -> StoreError {
    let cid = pentad_model::text::excerpt(cid, 80);
    StoreError::NotFound(format!("there is no attachment '{cid}'"))
}

/// Records an attachment; the first record of the same bytes stays.
pub(crate) fn put(scope: &mut Scope<'_>, attachment: &Attachment) -> Result<Attachment, Fault> {
    scope
        .connection
        .prepare_cached(
            "INSERT INTO attachment (cid, name, mime, bytes, created_at) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (cid) DO NOTHING",
        )?
        .execute(params![
            attachment.cid,
            attachment.name,
            attachment.mime,
            signed(attachment.bytes),
            attachment.created_at.0
        ])?;
    get(scope.connection, &attachment.cid)
}

/// Finds an attachment.
pub(crate) fn get(connection: &Connection, cid: &str) -> Result<Attachment, Fault> {
    let mut statement = connection
        .prepare_cached("SELECT cid, name, mime, bytes, created_at FROM attachment WHERE cid = ?1")?;
    let found = statement.query_and_then([cid], from_row)?.next().transpose()?;
    found.ok_or_else(|| no_attachment(cid).into())
}
