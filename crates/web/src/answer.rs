//! Answers that are no outcomes: what is wrong with a request itself.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use pentad_model::{Refusal, RefusalKind};
use serde_json::json;

/// A request that was not understood or not let in.
#[derive(Debug)]
pub(crate) struct Rejection {
    status: StatusCode,
    refusal: Refusal,
}

impl Rejection {
    /// Rejects with the status of the refusal's kind.
    pub fn new(refusal: Refusal) -> Self {
        let status = StatusCode::from_u16(refusal.kind.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self { status, refusal }
    }

    /// Rejects a malformed request.
    pub fn bad_request(subject: &str, message: impl Into<String>) -> Self {
        Self::new(Refusal::new(RefusalKind::BadRequest, subject, message))
    }

    /// Rejects with a status that no kind of refusal has.
    pub const fn with_status(status: StatusCode, refusal: Refusal) -> Self {
        Self { status, refusal }
    }

    /// Rejects a request that carries no valid token.
    pub fn unauthorized(message: &str) -> Self {
        let refusal = Refusal::new(RefusalKind::Forbidden, "Authorization", message)
            .next_step("send 'Authorization: Bearer TOKEN' with a token that pentad up printed");
        Self::with_status(StatusCode::UNAUTHORIZED, refusal)
    }
}

impl IntoResponse for Rejection {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(json!({"refusal": self.refusal}))).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    }
}
