//! One HTTP exchange of the transport: the token added, the trouble noted.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, RequestId};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
    StreamableHttpResponseLimits,
};
use sse_stream::Sse;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::super::login::Authorizer;
use super::super::stderr::Mask;
use super::fates::Fates;
use super::remote::Remote;
use super::trouble::Trouble;

/// How long the end of a session may take to be told; nobody should wait for a server that does not answer.
const FAREWELL_LIMIT: Duration = Duration::from_secs(2);

/// How long the first answer of the stream of a server's own messages is waited for.
const LISTEN_LIMIT: Duration = Duration::from_secs(2);

type HttpError = StreamableHttpError<reqwest::Error>;
type Headers = HashMap<HeaderName, HeaderValue>;
type Events = BoxStream<'static, Result<Sse, SseError>>;

/// Whether the server has a way to say something of its own, outside an answer.
#[derive(Debug, Default)]
struct Listening {
    /// The server keeps sessions, so that such a way is asked for.
    asked: AtomicBool,
    /// It answered, whatever it said.
    answered: CancellationToken,
}

/// The client of one connection. Clones share what they remember.
#[derive(Clone)]
pub struct HttpClient {
    http: reqwest::Client,
    authorizer: Option<Arc<Authorizer>>,
    fates: Arc<Fates>,
    listening: Arc<Listening>,
    /// Hides what a server repeats of our headers in an error.
    mask: Mask,
    max_bytes: usize,
}

impl HttpClient {
    /// Creates a client that remembers nothing yet.
    pub fn new(remote: &Remote, mask: Mask, max_bytes: usize) -> Self {
        Self {
            http: remote.http.clone(),
            authorizer: remote.authorizer.clone(),
            fates: Arc::default(),
            listening: Arc::default(),
            mask,
            max_bytes,
        }
    }

    /// Returns what became of its requests.
    pub fn fates(&self) -> &Fates {
        &self.fates
    }

    /// Waits until the server can say something of its own, if it keeps sessions: what it says before, it says to nobody.
    /// A server that answers only when it has something to say is not waited for longer than this.
    pub async fn heard(&self) {
        if self.listening.asked.load(Ordering::Acquire) {
            let answered = timeout(LISTEN_LIMIT, self.listening.answered.cancelled()).await;
            if answered.is_err() {
                tracing::debug!("a server has not answered the request for its own messages");
            }
        }
    }

    /// Exchanges with the token of the login, if there is one. A rejected token is renewed, once: what was rejected was
    /// not acted upon, so that it may be sent again.
    async fn with_token<T, Fut>(&self, exchange: impl Fn(Option<String>) -> Fut) -> Result<T, HttpError>
    where
        Fut: Future<Output = Result<T, HttpError>>,
    {
        let Some(authorizer) = &self.authorizer else {
            return exchange(None).await;
        };
        let Some(token) = authorizer.token().await? else {
            return exchange(None).await;
        };
        match exchange(Some(token.clone())).await {
            Err(error) if matches!(Trouble::of(&error), Trouble::LoginNeeded(_)) => {
                match authorizer.renewed(&token).await? {
                    Some(fresh) => exchange(Some(fresh.clone()))
                        .await
                        .map_err(|error| without(error, &fresh)),
                    None => Err(without(error, &token)),
                }
            }
            first => first.map_err(|error| without(error, &token)),
        }
    }

    async fn post(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        headers: Headers,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let id = match &message {
            JsonRpcMessage::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        if let Some(id) = &id {
            self.fates.begin(id);
        }
        let answered = self
            .with_token(|token| {
                let (uri, message) = (Arc::clone(&uri), message.clone());
                let (session, headers) = (session.clone(), headers.clone());
                self.http
                    .post_message_with_response_limits(uri, message, session, token, headers, limits)
            })
            .await;
        if let Ok(
            StreamableHttpPostResponse::Json(_, Some(_)) | StreamableHttpPostResponse::Sse(_, Some(_)),
        ) = &answered
        {
            self.listening.asked.store(true, Ordering::Release);
        }
        match answered {
            Ok(StreamableHttpPostResponse::Sse(events, session)) => {
                Ok(StreamableHttpPostResponse::Sse(self.watched(events, id), session))
            }
            Ok(other) => Ok(other),
            Err(error) => {
                let error = self.masked(error);
                self.fates.fail(id.as_ref(), Trouble::of(&error));
                Err(error)
            }
        }
    }

    /// Takes out of an error what nobody may see: the transport writes errors to the log. Errors of requests name their
    /// URL, whose query may carry a key.
    fn masked(&self, error: HttpError) -> HttpError {
        match error {
            StreamableHttpError::Client(error) => StreamableHttpError::Client(error.without_url()),
            StreamableHttpError::UnexpectedServerResponse(words) => {
                StreamableHttpError::UnexpectedServerResponse(self.mask.apply(words.into_owned()).into())
            }
            other => other,
        }
    }

    /// Notes what breaks a stream, for the request whose answer it carries.
    fn watched(&self, events: Events, id: Option<RequestId>) -> Events {
        let fates = Arc::clone(&self.fates);
        events
            .inspect(move |event| {
                if let Err(error) = event {
                    fates.fail(id.as_ref(), Trouble::of_stream(error));
                }
            })
            .boxed()
    }

    async fn events(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last: Option<String>,
        headers: Headers,
        max_event: usize,
    ) -> Result<Events, HttpError> {
        let is_first = last.is_none() && session.is_some();
        let answered = self
            .with_token(|token| {
                let (uri, session) = (Arc::clone(&uri), session.clone());
                let (last, headers) = (last.clone(), headers.clone());
                self.http
                    .get_stream_with_max_sse_event_size(uri, session, last, token, headers, max_event)
            })
            .await;
        if is_first {
            self.listening.answered.cancel();
        }
        answered.map_err(|error| self.masked(error))
    }
}

/// Takes a token out of what a server says about a request.
fn without(error: HttpError, token: &str) -> HttpError {
    match error {
        StreamableHttpError::UnexpectedServerResponse(words) if words.contains(token) => {
            StreamableHttpError::UnexpectedServerResponse(words.replace(token, "[secret]").into())
        }
        other => other,
    }
}

impl StreamableHttpClient for HttpClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _auth: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let mut limits = StreamableHttpResponseLimits::default();
        limits.max_json_response_size = self.max_bytes;
        limits.max_sse_event_size = self.max_bytes;
        self.post(uri, message, session, headers, limits).await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _auth: Option<String>,
        headers: Headers,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        self.post(uri, message, session, headers, limits).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        _auth: Option<String>,
        headers: Headers,
    ) -> Result<(), HttpError> {
        let told = self.with_token(|token| {
            let (uri, session, headers) = (Arc::clone(&uri), Arc::clone(&session), headers.clone());
            self.http.delete_session(uri, session, token, headers)
        });
        match timeout(FAREWELL_LIMIT, told).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                let error = self.masked(error);
                tracing::debug!(%error, "the end of a session was not taken");
            }
            Err(_) => tracing::debug!("the end of a session was not taken in time"),
        }
        Ok(())
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last: Option<String>,
        _auth: Option<String>,
        headers: Headers,
    ) -> Result<Events, HttpError> {
        self.events(uri, session, last, headers, self.max_bytes).await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last: Option<String>,
        _auth: Option<String>,
        headers: Headers,
        max_event: usize,
    ) -> Result<Events, HttpError> {
        self.events(uri, session, last, headers, max_event).await
    }
}
