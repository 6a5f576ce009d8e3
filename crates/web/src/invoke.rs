//! `POST /api/v1/invoke`: an invocation as JSON, its outcome as JSON.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, StatusCode, header};
use pentad_model::invocation::{ThreadChoice, Workspace};
use pentad_model::{Invocation, Name, Outcome, Refusal, RefusalKind, Timestamp, Verb};
use pentad_program::Attendance;
use serde::Deserialize;
use serde_json::Value;

use crate::answer::Rejection;
use crate::face::Shared;
use crate::tokens::Bearer;

const KEYS: [&str; 7] = [
    "verb",
    "arguments",
    "thread",
    "agent",
    "workspace",
    "deadline",
    "view_bytes",
];

/// What a request may say; who is calling is the token's word, never the body's.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    verb: Verb,
    #[serde(default)]
    arguments: Value,
    #[serde(default)]
    thread: Option<String>,
    #[serde(default)]
    agent: Option<Name>,
    #[serde(default)]
    workspace: Option<Name>,
    #[serde(default)]
    deadline: Option<Timestamp>,
    #[serde(default)]
    view_bytes: Option<u64>,
}

/// Invokes. Every outcome is a 200: what happened stands in the outcome, not in the status.
pub(crate) async fn invoke(
    State(shared): State<Arc<Shared>>,
    Extension(bearer): Extension<Bearer>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Outcome>, Rejection> {
    let params = params(&shared, &headers, body).await?;
    let invocation = invocation(&shared, &bearer, params)?;
    // A client that goes away drops this future, and the guard cancels what it asked for. What is done stays undisturbed.
    let cancel = shared.hard_end.child_token();
    let guard = cancel.clone().drop_guard();
    let attendance = Attendance {
        cancel,
        ..Attendance::default()
    };
    let outcome = shared.face.verbs.invoke(invocation, attendance).await;
    let _ = guard.disarm();
    Ok(Json(outcome))
}

async fn params(shared: &Shared, headers: &HeaderMap, body: Body) -> Result<Params, Rejection> {
    let kind = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or("");
    let media = kind.split(';').next().unwrap_or("").trim();
    if !media.eq_ignore_ascii_case("application/json") {
        // A page of another origin can send forms and plain text without asking; it cannot send JSON.
        let refusal = Refusal::new(RefusalKind::BadRequest, "Content-Type", "The body must be JSON.")
            .supported(["application/json"]);
        return Err(Rejection::with_status(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            refusal,
        ));
    }
    let limit = shared.face.body_bytes;
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    let bytes = axum::body::to_bytes(body, most).await.map_err(|_| {
        let message = format!("The body is larger than {limit} bytes, or ended early.");
        let refusal = Refusal::new(RefusalKind::TooLarge, "body", message)
            .next_step("send large content to POST /api/v1/attachments and refer to its address");
        Rejection::new(refusal)
    })?;
    serde_json::from_slice(&bytes).map_err(|error| {
        let refusal = Refusal::new(
            RefusalKind::BadRequest,
            "body",
            format!("The body is not understood: {error}."),
        )
        .supported(KEYS);
        Rejection::new(refusal)
    })
}

fn invocation(shared: &Shared, bearer: &Bearer, params: Params) -> Result<Invocation, Rejection> {
    let thread = match params.thread {
        Some(text) => thread_by_id(&text)?,
        None => ThreadChoice::Key(format!("http:{}:{}", bearer.actor, bearer.id)),
    };
    Ok(Invocation {
        caller: bearer.actor.clone().into(),
        agent: params.agent,
        thread,
        run: None,
        workspace: workspace(shared, params.workspace.as_ref())?,
        verb: params.verb,
        arguments: match params.arguments {
            Value::Null => Value::Object(serde_json::Map::new()),
            arguments => arguments,
        },
        deadline: params.deadline,
        view_bytes: params.view_bytes,
    })
}

/// Reads a thread's id, or an ending of it.
pub(crate) fn thread_by_id(text: &str) -> Result<ThreadChoice, Rejection> {
    let bare = text.strip_prefix("thread:").unwrap_or(text);
    bare.parse::<pentad_model::IdEnding>()
        .map_err(|error| Rejection::bad_request("thread", format!("{error}.")))?;
    Ok(ThreadChoice::Id(bare.to_owned()))
}

/// Finds a configured workspace by its name.
pub(crate) fn workspace(shared: &Shared, name: Option<&Name>) -> Result<Workspace, Rejection> {
    let Some(name) = name else {
        return Ok(shared.face.workspace.clone());
    };
    let known = &shared.face.workspaces;
    known.get(name).cloned().ok_or_else(|| {
        let refusal = Refusal::new(
            RefusalKind::NotFound,
            name.as_str(),
            format!("There is no workspace '{name}'."),
        )
        .supported(known.keys().map(Name::as_str))
        .next_step("add workspace = \"NAME\" to [projects.\"/path\"] in config.toml");
        Rejection::new(refusal)
    })
}
