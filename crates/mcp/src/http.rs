//! The server face over streamable HTTP, for every revision.
//!
//! Up to 2025-11-25 a client opens a session, listens on a stream of it and ends it; from 2026-07-28 on each request
//! stands alone. Both reach the same handler that serves a pair of pipes. Whoever hands a request over has judged its
//! Host and Origin and knows the caller from its token.

mod body;
mod caller;
mod reply;
mod scoped;
mod sessions;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body::Body;
use http_body_util::Full;
use pentad_model::invocation::ThreadChoice;
use rmcp::ServerHandler;
use rmcp::model::ProtocolVersion;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;

pub use self::body::HttpBody;
pub use self::caller::{HttpCaller, HttpLimits};
use self::scoped::Scoped;
use self::sessions::Sessions;
use crate::face::{Calls, Face, FaceEnd, FaceLimits, FaceOptions, LazyVerbs, StateKey};
use crate::lines::repair;

const SESSION: &str = "mcp-session-id";
const REVISION: &str = "mcp-protocol-version";
const METHOD: &str = "mcp-method";
const LISTEN: &str = "subscriptions/listen";
/// When a client whose stream broke may open it again.
const RETRY: Duration = Duration::from_secs(3);

/// The five verbs over HTTP.
pub type HttpFace = HttpService<Face>;

type Make<H> = dyn Fn(&HttpCaller, Calls) -> H + Send + Sync;

/// An MCP server over HTTP: requests in, answers out. Clones are the same server.
pub struct HttpService<H> {
    inner: Arc<Inner<H>>,
}

struct Inner<H> {
    make: Box<Make<H>>,
    sessions: Arc<Sessions>,
    calls: Calls,
    limits: HttpLimits,
    /// Ends streams that wait for nothing in particular; no new requests.
    closing: CancellationToken,
    /// Ends sessions.
    end: CancellationToken,
}

impl HttpFace {
    /// Offers the verbs; `state_key` signs the questions that go through clients without a session.
    #[must_use]
    pub fn new(verbs: LazyVerbs, state_key: Option<StateKey>, limits: HttpLimits) -> Self {
        let face_limits = FaceLimits {
            max_message_bytes: limits.body_bytes,
            heartbeat: limits.heartbeat,
            shutdown: limits.shutdown,
            ..FaceLimits::default()
        };
        Self::with_handler(limits, move |caller, calls| {
            let options = FaceOptions {
                thread: caller
                    .thread
                    .clone()
                    .unwrap_or_else(|| ThreadChoice::Key(format!("mcp:{}", caller.owner))),
                agent: caller.agent.clone(),
                workspace: caller.workspace.clone(),
                client: caller.client.clone(),
                on_behalf_of: caller.on_behalf_of.clone(),
                view_bytes: None,
                state_key: state_key.clone(),
                limits: face_limits.clone(),
                shutdown: CancellationToken::new(),
            };
            Face::among(verbs.clone(), options, calls, caller.thread.is_none())
        })
    }
}

impl<H: ServerHandler + Send + 'static> HttpService<H> {
    /// Offers any handler; `make` makes one for each session and for each request without one.
    ///
    /// This is how a fixture gets the transport that the verbs have.
    #[doc(hidden)]
    pub fn with_handler(
        limits: HttpLimits,
        make: impl Fn(&HttpCaller, Calls) -> H + Send + Sync + 'static,
    ) -> Self {
        Self {
            inner: Arc::new(Inner {
                make: Box::new(make),
                sessions: Arc::new(Sessions::new(&limits)),
                calls: Calls::default(),
                limits,
                closing: CancellationToken::new(),
                end: CancellationToken::new(),
            }),
        }
    }

    /// Answers one request.
    ///
    /// Dropping the future or the answer's body is a client that goes away: it ends a call that stands alone, while a
    /// session's call goes on until it is cancelled or the session is.
    pub async fn answer<B>(&self, request: Request<B>, caller: HttpCaller) -> Response<HttpBody>
    where
        B: Body + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let inner = &self.inner;
        if inner.closing.is_cancelled() {
            return reply::ending();
        }
        let (parts, body) = request.into_parts();
        let busy = match named_session(&parts.headers) {
            None => None,
            Some(id) => match inner.sessions.find(id, &caller.owner).await {
                None => return reply::unknown_session(),
                busy => busy,
            },
        };
        let is_post = parts.method == Method::POST;
        if is_post && !is_json(&parts.headers) {
            return reply::not_json();
        }
        let message = if is_post {
            match body::read(body, inner.limits.body_bytes, inner.limits.body_time).await {
                Ok(bytes) => bytes,
                Err(cause) => return reply::no_body(&cause),
            }
        } else {
            Bytes::new()
        };
        let waits_for_nothing =
            parts.method == Method::GET || parts.headers.get(METHOD).is_some_and(|method| method == LISTEN);
        let until = waits_for_nothing.then(|| inner.closing.clone());
        let calls = inner.calls.part();
        let scope = Arc::new(Scoped::new(
            Arc::clone(&inner.sessions),
            caller.owner.clone(),
            calls.clone(),
        ));
        let service = self.service(caller, Arc::clone(&scope), calls);
        let handle = |message: Bytes| service.handle(Request::from_parts(parts.clone(), Full::new(message)));
        let is_unread = |status: StatusCode| is_post && status == StatusCode::UNSUPPORTED_MEDIA_TYPE;
        let mut response = handle(message.clone()).await;
        if is_unread(response.status())
            && let Some(repaired) = repair(&message)
        {
            response = handle(repaired.into()).await;
        }
        if is_unread(response.status()) {
            return reply::no_message(&message);
        }
        if scope.was_refused() {
            return reply::full();
        }
        response.map(|body| HttpBody::new(body, busy, until))
    }

    fn service(
        &self,
        caller: HttpCaller,
        scope: Arc<Scoped>,
        calls: Calls,
    ) -> StreamableHttpService<H, Scoped> {
        let limits = &self.inner.limits;
        let config = StreamableHttpServerConfig::default()
            .with_cancellation_token(self.inner.end.clone())
            // Whoever hands the request over has judged it.
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_sse_keep_alive(Some(limits.keep_alive))
            .with_sse_retry(Some(RETRY))
            .with_max_request_body_bytes(limits.body_bytes);
        let inner = Arc::clone(&self.inner);
        let make = move || Ok((inner.make)(&caller, calls.clone()));
        StreamableHttpService::new(make, scope, config)
    }

    /// Lets nothing new in and ends the streams that wait for nothing in particular; calls go on.
    pub fn closing(&self) {
        self.inner.closing.cancel();
    }

    /// Cancels the calls and waits, within limits, until each of them and its processes have ended.
    ///
    /// Answers are still written after this; [`Self::end`] ends the sessions that they belong to.
    pub async fn end_calls(&self) -> FaceEnd {
        self.closing();
        let calls = &self.inner.calls;
        calls.cancel.cancel();
        calls.tracker.close();
        match tokio::time::timeout(self.inner.limits.shutdown, calls.tracker.wait()).await {
            Ok(()) => FaceEnd::Clean,
            Err(_) => FaceEnd::Abandoned,
        }
    }

    /// Ends the sessions and every stream that is left.
    pub fn end(&self) {
        self.closing();
        self.inner.end.cancel();
    }
}

impl<H> Clone for HttpService<H> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

impl<H> fmt::Debug for HttpService<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpService")
            .field("sessions", &self.inner.sessions)
            .finish_non_exhaustive()
    }
}

/// Returns the session that a request of an older revision names. From 2026-07-28 on there are none.
fn named_session(headers: &HeaderMap) -> Option<&str> {
    let stands_alone = headers
        .get(REVISION)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|revision| revision >= ProtocolVersion::V_2026_07_28.as_str());
    let id = headers.get(SESSION).filter(|_| !stands_alone)?;
    // An id that is no text is nobody's.
    Some(id.to_str().unwrap_or_default())
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let media = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default();
    media.trim().eq_ignore_ascii_case("application/json")
}
