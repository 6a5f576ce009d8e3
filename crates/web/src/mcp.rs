//! `/mcp`: the five verbs for MCP clients, over streamable HTTP.
//!
//! The token says who is calling, the query where: `?thread=`, `?workspace=`, `?agent=`. Everything else is the
//! protocol's, and is not known here.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Query, Request, State};
use axum::http::Uri;
use axum::response::Response;
use pentad_mcp::HttpCaller;
use pentad_model::{Actor, Name, Refusal, RefusalKind};
use serde::Deserialize;

use crate::answer::Rejection;
use crate::face::Shared;
use crate::invoke::{thread_by_id, workspace};
use crate::tokens::Bearer;

const KEYS: [&str; 3] = ["thread", "workspace", "agent"];

/// What the URL of a client may say.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    thread: Option<String>,
    workspace: Option<Name>,
    agent: Option<Name>,
}

/// Hands a request over, with who sends it.
pub(crate) async fn mcp(
    State(shared): State<Arc<Shared>>,
    Extension(bearer): Extension<Bearer>,
    request: Request,
) -> Result<Response, Rejection> {
    let caller = caller(&shared, bearer, request.uri())?;
    Ok(shared.mcp.answer(request, caller).await.map(Body::new))
}

fn caller(shared: &Shared, bearer: Bearer, uri: &Uri) -> Result<HttpCaller, Rejection> {
    let Query(params) = Query::<Params>::try_from_uri(uri).map_err(|error| {
        let message = format!("The query is not understood: {}.", error.body_text());
        Rejection::new(Refusal::new(RefusalKind::BadRequest, "query", message).supported(KEYS))
    })?;
    // Behind a person's token stands a program: it acts for the person and is not the person.
    let (client, on_behalf_of) = match bearer.actor {
        Actor::Client(name) => (Some(name), None),
        person => (None, Some(person)),
    };
    Ok(HttpCaller {
        owner: bearer.id,
        client,
        on_behalf_of,
        thread: params.thread.as_deref().map(thread_by_id).transpose()?,
        agent: params.agent,
        workspace: workspace(shared, params.workspace.as_ref())?,
    })
}
