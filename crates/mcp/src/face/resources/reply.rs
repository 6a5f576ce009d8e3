//! From an outcome to the contents of a resource.

use pentad_model::{Outcome, Part, Refusal, RefusalKind, Status};
use rmcp::model::{ErrorCode, ErrorData, ReadResourceResult, ResourceContents};
use serde_json::json;

use super::uri;
use crate::face::reply::facts;

/// Returns the contents: the engine's bounded view, then pictures and sound.
///
/// # Errors
/// Returns why nothing was read.
pub fn contents(uri: &str, mime: &str, outcome: Outcome) -> Result<ReadResourceResult, Refusal> {
    if let Some(refusal) = outcome.refusal {
        return Err(refusal);
    }
    if outcome.status != Status::Ok {
        return Err(Refusal::new(RefusalKind::Unavailable, uri, outcome.text));
    }
    let mut meta = facts(&outcome);
    if let Some(omitted) = &outcome.omitted {
        meta.insert("pentad/rest".to_owned(), json!(uri::of(&omitted.address)));
    }
    let links: Vec<String> = outcome.parts.iter().filter_map(link).collect();
    if !links.is_empty() {
        meta.insert("pentad/links".to_owned(), json!(links));
    }
    let mut contents = vec![ResourceContents::text(outcome.text, uri).with_mime_type(mime)];
    contents.extend(outcome.parts.into_iter().filter_map(blob));
    let mut result = ReadResourceResult::new(contents);
    result.meta = Some(meta);
    Ok(result)
}

fn blob(part: Part) -> Option<ResourceContents> {
    match part {
        Part::Image {
            cid,
            mime,
            data: Some(data),
        }
        | Part::Audio {
            cid,
            mime,
            data: Some(data),
        } => Some(ResourceContents::blob(data, uri::of(&format!("attachment:{cid}"))).with_mime_type(mime)),
        Part::Image { data: None, .. } | Part::Audio { data: None, .. } | Part::Link { .. } => None,
    }
}

fn link(part: &Part) -> Option<String> {
    match part {
        Part::Image { cid, data: None, .. } | Part::Audio { cid, data: None, .. } => {
            Some(uri::of(&format!("attachment:{cid}")))
        }
        Part::Link { address, .. } => Some(uri::of(address)),
        Part::Image { data: Some(_), .. } | Part::Audio { data: Some(_), .. } => None,
    }
}

/// Returns a refusal as a protocol error. The code for what is not there differs by revision; rmcp gives each its own.
pub fn error(uri: &str, refusal: &Refusal) -> ErrorData {
    let code = match refusal.kind {
        RefusalKind::NotFound => ErrorCode::RESOURCE_NOT_FOUND,
        RefusalKind::BadRequest
        | RefusalKind::NotSupported
        | RefusalKind::TooLarge
        | RefusalKind::Invalid => ErrorCode::INVALID_PARAMS,
        RefusalKind::Forbidden
        | RefusalKind::ApprovalRequired
        | RefusalKind::Conflict
        | RefusalKind::TooMany => ErrorCode::INVALID_REQUEST,
        RefusalKind::Internal
        | RefusalKind::NotAvailable
        | RefusalKind::Unavailable
        | RefusalKind::Timeout => ErrorCode::INTERNAL_ERROR,
    };
    ErrorData::new(
        code,
        refusal.to_text(),
        Some(json!({"uri": uri, "refusal": refusal})),
    )
}
