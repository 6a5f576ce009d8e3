//! Asking a server for its tools, page by page.

use std::collections::BTreeSet;

use rmcp::RoleClient;
use rmcp::model::{ClientRequest, ListToolsRequest, PaginatedRequestParams, ServerResult};
use rmcp::service::{Peer, ServiceError};
use serde_json::Value;

use super::document::manifest_tool;
use super::manifest::ManifestTool;

/// Pages that are read of one list.
const MAX_PAGES: usize = 200;
/// Tools that are taken over from one server.
const MAX_TOOLS: usize = 20_000;
/// Complaints that are kept.
const MAX_DROPPED: usize = 20;

/// The tools of a server and what was wrong with the rest.
#[derive(Debug, Default, PartialEq)]
pub struct Listing {
    pub tools: Vec<ManifestTool>,
    pub dropped: Vec<String>,
}

/// Reads the whole list; the caller limits the time.
///
/// # Errors
/// Fails when the server answers a page with an error or not with a list.
pub async fn list_tools(peer: &Peer<RoleClient>) -> Result<Listing, ServiceError> {
    let mut listing = Listing::default();
    let mut names = BTreeSet::new();
    let mut cursors = BTreeSet::new();
    let mut cursor: Option<String> = None;
    for _ in 0..MAX_PAGES {
        let (values, next) = page(peer, cursor.take()).await?;
        for value in &values {
            listing.add(value, &mut names);
        }
        match next {
            None => return Ok(listing),
            Some(_) if listing.tools.len() >= MAX_TOOLS => {
                listing.complain(format!(
                    "the server lists more than {MAX_TOOLS} tools; the rest is left out"
                ));
                return Ok(listing);
            }
            Some(next) if !cursors.insert(next.clone()) => {
                listing.complain("the server's list of tools turns in a circle; it is cut there".to_owned());
                return Ok(listing);
            }
            Some(next) => cursor = Some(next),
        }
    }
    listing.complain(format!(
        "the server's list of tools has more than {MAX_PAGES} pages; the rest is left out"
    ));
    Ok(listing)
}

async fn page(
    peer: &Peer<RoleClient>,
    cursor: Option<String>,
) -> Result<(Vec<Value>, Option<String>), ServiceError> {
    let request = match cursor {
        None => ListToolsRequest::default(),
        Some(cursor) => {
            ListToolsRequest::with_param(PaginatedRequestParams::default().with_cursor(Some(cursor)))
        }
    };
    let mut answer = match peer
        .send_request(ClientRequest::ListToolsRequest(request))
        .await?
    {
        ServerResult::ListToolsResult(list) => serde_json::to_value(list).unwrap_or_default(),
        // One tool that the types refuse makes the whole list something else.
        ServerResult::CustomResult(custom) => custom.0,
        _ => return Err(ServiceError::UnexpectedResponse),
    };
    let next = answer
        .get("nextCursor")
        .and_then(Value::as_str)
        .filter(|next| !next.is_empty())
        .map(str::to_owned);
    match answer.get_mut("tools").map(Value::take) {
        Some(Value::Array(tools)) => Ok((tools, next)),
        _ => Err(ServiceError::UnexpectedResponse),
    }
}

impl Listing {
    fn add(&mut self, value: &Value, names: &mut BTreeSet<String>) {
        if self.tools.len() >= MAX_TOOLS {
            return;
        }
        match manifest_tool(value) {
            Ok(tool) if !names.insert(tool.name.clone()) => {
                self.complain(format!(
                    "the tool '{}' is listed twice; the first one counts",
                    tool.name
                ));
            }
            Ok(tool) => self.tools.push(tool),
            Err(why) => self.complain(format!("{why}; it is left out")),
        }
    }

    fn complain(&mut self, text: String) {
        if self.dropped.len() < MAX_DROPPED {
            self.dropped.push(text);
        }
    }
}
