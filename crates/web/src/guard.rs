//! Who is let in: Host and Origin before anything else, then the token.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use pentad_model::{Actor, Name, Refusal, RefusalKind};

use crate::answer::Rejection;
use crate::face::{Access, Shared};
use crate::log::listed_headers;
use crate::tokens::Bearer;

/// Judges Host and Origin of every request, whatever its path; adds the headers that every answer carries.
pub(crate) async fn hosts(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let headers = listed_headers(request.headers());
    let mut response = match judge_hosts(&shared, &request) {
        Ok(()) => next.run(request).await,
        Err(rejection) => rejection.into_response(),
    };
    let fixed = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
    ];
    for (name, value) in fixed {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    let status = response.status().as_u16();
    let millis = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    tracing::info!(%method, path, status, millis, headers, "request");
    response
}

fn judge_hosts(shared: &Shared, request: &Request) -> Result<(), Rejection> {
    let refuse = |subject: &str, message: &str| {
        let refusal = Refusal::new(RefusalKind::Forbidden, subject, message).next_step(
            "use the address that pentad up printed, or add the name to hosts in [http] of config.toml",
        );
        Rejection::new(refusal)
    };
    let host = single(request.headers(), &header::HOST)
        .map_err(|()| refuse("Host", "The request has several or unreadable Host headers."))?;
    let authority = request.uri().authority().map(axum::http::uri::Authority::as_str);
    let permitted = host.is_some_and(|host| shared.hosts.permits(host))
        && authority.is_none_or(|authority| shared.hosts.permits(authority));
    if !permitted {
        return Err(refuse("Host", "The request's Host is not one of this server's."));
    }
    let origin = single(request.headers(), &header::ORIGIN)
        .map_err(|()| refuse("Origin", "The request has several or unreadable Origin headers."))?;
    match origin {
        Some(origin) if !shared.hosts.permits_origin(origin) => Err(refuse(
            "Origin",
            "The request comes from a page of another origin.",
        )),
        _ => Ok(()),
    }
}

/// Returns the one value of a header; several or unreadable ones are an error.
fn single<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, ()> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| ()),
        (Some(_), Some(_)) => Err(()),
    }
}

/// Finds who is calling, or turns the request away. Stands before every path below `/api` and before `/mcp`,
/// reads included.
pub(crate) async fn bearer(State(shared): State<Arc<Shared>>, mut request: Request, next: Next) -> Response {
    let found = match &shared.face.access {
        Access::InsecureLoopback => Ok(Bearer {
            actor: Actor::Client(Name::sanitised("anonymous", &Name::main())),
            id: "insecure".to_owned(),
        }),
        Access::Tokens(tokens) => match single(request.headers(), &header::AUTHORIZATION) {
            Ok(None) => Err(Rejection::unauthorized("This request needs a token.")),
            Ok(Some(value)) => bearer_token(value)
                .and_then(|token| tokens.bearer(token))
                .ok_or_else(|| Rejection::unauthorized("The token is not valid.")),
            Err(()) => Err(Rejection::unauthorized(
                "The Authorization header cannot be read.",
            )),
        },
    };
    match found {
        Ok(bearer) => {
            tracing::debug!(actor = %bearer.actor, token = bearer.id, "let in");
            request.extensions_mut().insert(bearer);
            next.run(request).await
        }
        Err(rejection) => rejection.into_response(),
    }
}

fn bearer_token(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
