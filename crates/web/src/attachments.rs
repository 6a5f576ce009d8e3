//! `POST /api/v1/attachments`: bytes of any size up to a limit, never held in memory.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use axum::Json;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use pentad_model::{Refusal, RefusalKind};
use pentad_program::Attachment;
use tempfile::NamedTempFile;
use tokio::io::AsyncWriteExt;

use crate::answer::Rejection;
use crate::face::Shared;

/// Longest name of an attachment in bytes.
const NAME_BYTES: usize = 255;

/// Keeps files by their content.
#[async_trait]
pub trait Attachments: Send + Sync {
    /// Keeps a copy of `file`; whoever calls removes the file itself. Without `mime` the content decides.
    ///
    /// # Errors
    /// Refuses what is too large or cannot be stored.
    async fn attach(
        &self,
        file: &Path,
        name: Option<String>,
        mime: Option<String>,
    ) -> Result<Attachment, Refusal>;
}

/// Takes an attachment: `?name=` is its file name, `Content-Type` its media type.
pub(crate) async fn attach(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
    body: Body,
) -> Result<Response, Rejection> {
    let name = name(query.as_deref())?;
    let mime = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .filter(|mime| !mime.eq_ignore_ascii_case("application/octet-stream"))
        .map(str::to_owned);
    let limit = shared.face.attachment_bytes;
    let announced = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|bytes| bytes > limit) {
        return Err(too_large(limit));
    }
    let file = receive(&shared.face.uploads, body, limit).await?;
    let kept = shared.face.attachments.attach(file.path(), name, mime).await;
    let attachment = kept.map_err(Rejection::new)?;
    let mut value = serde_json::to_value(&attachment).unwrap_or_default();
    if let Some(map) = value.as_object_mut() {
        map.insert(
            "address".to_owned(),
            format!("attachment:{}", attachment.cid).into(),
        );
    }
    Ok((StatusCode::CREATED, Json(value)).into_response())
}

fn too_large(limit: u64) -> Rejection {
    let message = format!("An attachment may have {limit} bytes.");
    let refusal = Refusal::new(RefusalKind::TooLarge, "body", message)
        .next_step("raise attachment_bytes in [limits] of config.toml, or send less");
    Rejection::new(refusal)
}

/// Writes the body to a temporary file, which goes when it is dropped: also when the client goes away half-way.
async fn receive(uploads: &Path, body: Body, limit: u64) -> Result<NamedTempFile, Rejection> {
    let broken = |error: &dyn std::fmt::Display| {
        let message = format!("The attachment could not be received: {error}.");
        Rejection::new(Refusal::new(RefusalKind::Internal, "body", message))
    };
    let file = tempfile::Builder::new()
        .prefix("upload-")
        .tempfile_in(uploads)
        .map_err(|error| broken(&error))?;
    let handle = file.as_file().try_clone().map_err(|error| broken(&error))?;
    let mut writer = tokio::fs::File::from_std(handle);
    let mut stream = body.into_data_stream();
    let mut received = 0_u64;
    while let Some(chunk) = stream.next().await {
        let chunk = chunk
            .map_err(|error| Rejection::bad_request("body", format!("The body ended early: {error}.")))?;
        received = received.saturating_add(chunk.len() as u64);
        if received > limit {
            return Err(too_large(limit));
        }
        writer.write_all(&chunk).await.map_err(|error| broken(&error))?;
    }
    writer.flush().await.map_err(|error| broken(&error))?;
    Ok(file)
}

fn name(query: Option<&str>) -> Result<Option<String>, Rejection> {
    let mut name = None;
    for pair in query.unwrap_or("").split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if key != "name" {
            let refusal = Refusal::new(
                RefusalKind::BadRequest,
                key,
                "Attachments have no such parameter.",
            )
            .supported(["name"]);
            return Err(Rejection::new(refusal));
        }
        let decoded = decode(value)
            .ok_or_else(|| Rejection::bad_request("name", "The name is not percent-encoded UTF-8."))?;
        // A name, not a path: whoever saves the file later must not be led elsewhere.
        let last = decoded.rsplit(['/', '\\']).next().unwrap_or("").to_owned();
        let legal = !last.is_empty() && last != "." && last != ".." && !last.chars().any(char::is_control);
        if !legal || last.len() > NAME_BYTES {
            return Err(Rejection::bad_request(
                "name",
                "The name must be a file name of at most 255 bytes.",
            ));
        }
        name = Some(last);
    }
    Ok(name)
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                let (high, low) = (digit(rest.next()?)?, digit(rest.next()?)?);
                bytes.push(u8::try_from(high * 16 + low).ok()?);
            }
            b'+' => bytes.push(b' '),
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_never_a_path() {
        let of = |query: &str| name(Some(query)).ok().flatten();
        assert_eq!(of("name=a%20b.png").as_deref(), Some("a b.png"));
        assert_eq!(of("name=..%2F..%2Fetc%2Fpasswd").as_deref(), Some("passwd"));
        assert_eq!(of("name=C%3A%5Cx%5Cy.txt").as_deref(), Some("y.txt"));
        assert_eq!(name(None).ok().flatten(), None);
        for wrong in [
            "name=",
            "name=..",
            "name=%2F",
            "name=%zz",
            "name=%ff",
            "name=a%0ab",
            "nam=x",
        ] {
            assert!(name(Some(wrong)).is_err(), "{wrong}");
        }
    }
}
