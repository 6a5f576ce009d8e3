//! Answers to requests that reach no handler: a status for programs, a text with the next step for people.

use http::{HeaderValue, Response, StatusCode, header};
use rmcp::model::{ErrorCode, ErrorData, JsonRpcError};

use super::body::{BodyError, HttpBody};

/// What other servers answer for a session that they do not know, too.
const UNKNOWN_SESSION: ErrorCode = ErrorCode(-32001);

fn error(status: StatusCode, code: ErrorCode, text: impl Into<String>) -> Response<HttpBody> {
    let error = JsonRpcError::new(None, ErrorData::new(code, text.into(), None));
    let body = serde_json::to_vec(&error).unwrap_or_default();
    let mut response = Response::new(HttpBody::whole(body));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The session is another caller's, or it has ended, or it never was: nobody learns which.
pub fn unknown_session() -> Response<HttpBody> {
    error(
        StatusCode::NOT_FOUND,
        UNKNOWN_SESSION,
        "There is no such session: it has ended. Initialize again without Mcp-Session-Id.",
    )
}

/// A page of another origin can send forms and plain text without asking; it cannot send JSON.
pub fn not_json() -> Response<HttpBody> {
    error(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        ErrorCode::INVALID_REQUEST,
        "The body must be JSON: send Content-Type: application/json.",
    )
}

/// The body could not be taken.
pub fn no_body(cause: &BodyError) -> Response<HttpBody> {
    let (status, next) = match cause {
        BodyError::TooLarge(_) => (
            StatusCode::PAYLOAD_TOO_LARGE,
            "Send large content to POST /api/v1/attachments and refer to its address",
        ),
        BodyError::TooSlow(_) => (StatusCode::REQUEST_TIMEOUT, "Send it again"),
        BodyError::Broken(_) => (StatusCode::BAD_REQUEST, "Send it again"),
    };
    let text = format!("The request cannot be read: {cause}. {next}.");
    error(status, ErrorCode::INVALID_REQUEST, text)
}

/// The body is no JSON-RPC message.
pub fn no_message(body: &[u8]) -> Response<HttpBody> {
    let (code, text) = match serde_json::from_slice::<serde::de::IgnoredAny>(body) {
        Err(cause) => (
            ErrorCode::PARSE_ERROR,
            format!("Parse error: the body is no JSON: {cause}."),
        ),
        Ok(_) if body.trim_ascii_start().first() == Some(&b'[') => (
            ErrorCode::INVALID_REQUEST,
            "Invalid Request: batches are not served; send each message as a request of its own.".to_owned(),
        ),
        Ok(_) => (
            ErrorCode::INVALID_REQUEST,
            "Invalid Request: the body is no JSON-RPC message.".to_owned(),
        ),
    };
    error(StatusCode::BAD_REQUEST, code, text)
}

/// Every session is in use.
pub fn full() -> Response<HttpBody> {
    unavailable(
        "There are as many sessions as there may be, and all are in use. \
         End one with DELETE, or speak 2026-07-28, which needs none.",
        "30",
    )
}

/// The server is ending.
pub fn ending() -> Response<HttpBody> {
    unavailable("The server is ending.", "5")
}

fn unavailable(text: &str, retry_after: &'static str) -> Response<HttpBody> {
    let mut response = error(StatusCode::SERVICE_UNAVAILABLE, ErrorCode::INTERNAL_ERROR, text);
    response
        .headers_mut()
        .insert(header::RETRY_AFTER, HeaderValue::from_static(retry_after));
    response
}
