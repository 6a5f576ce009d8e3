//! The paths.

use std::sync::Arc;

use axum::extract::DefaultBodyLimit;
use axum::http::{StatusCode, Uri};
use axum::response::IntoResponse;
use axum::routing::{any, get, post};
use axum::{Json, Router, middleware};
use pentad_model::{Refusal, RefusalKind};
use serde_json::json;

use crate::answer::Rejection;
use crate::face::Shared;
use crate::{attachments, events, guard, invoke, mcp};

const PATHS: [&str; 5] = [
    "POST /mcp",
    "POST /api/v1/invoke",
    "GET /api/v1/events",
    "POST /api/v1/attachments",
    "GET /healthz",
];

/// Builds the router. The guard of hosts is its outermost layer and stands before unknown paths, too.
pub(crate) fn router(shared: Arc<Shared>) -> Router {
    let api = Router::new()
        .route("/invoke", post(invoke::invoke))
        .route("/events", get(events::events))
        .route("/attachments", post(attachments::attach))
        .fallback(not_found)
        .method_not_allowed_fallback(wrong_method)
        .layer(middleware::from_fn_with_state(Arc::clone(&shared), guard::bearer));
    let mcp = any(mcp::mcp).layer(middleware::from_fn_with_state(Arc::clone(&shared), guard::bearer));
    Router::new()
        .nest("/api/v1", api)
        .route("/healthz", get(healthz))
        .route("/mcp", mcp)
        .fallback(not_found)
        .method_not_allowed_fallback(wrong_method)
        // The handlers count bytes themselves, each with its own limit.
        .layer(DefaultBodyLimit::disable())
        .layer(middleware::from_fn_with_state(Arc::clone(&shared), guard::hosts))
        .with_state(shared)
}

async fn healthz() -> impl IntoResponse {
    Json(json!({"status": "ok", "service": "pentad"}))
}

async fn not_found(uri: Uri) -> Rejection {
    let path = pentad_model::text::excerpt(uri.path(), 120);
    Rejection::new(Refusal::new(RefusalKind::NotFound, path, "There is no such path.").supported(PATHS))
}

async fn wrong_method(uri: Uri) -> Rejection {
    let path = pentad_model::text::excerpt(uri.path(), 120);
    let refusal =
        Refusal::new(RefusalKind::NotSupported, path, "This path has no such method.").supported(PATHS);
    Rejection::with_status(StatusCode::METHOD_NOT_ALLOWED, refusal)
}
