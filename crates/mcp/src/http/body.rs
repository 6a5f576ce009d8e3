//! Bodies: a request's within its limits, an answer's with what must live as long as it.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::sessions::Busy;

/// Why a body was not read.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// It is larger than this.
    #[error("the body has more than {0} bytes")]
    TooLarge(usize),
    /// It did not come in this time.
    #[error("the body was not sent within {0:?}")]
    TooSlow(Duration),
    /// The connection broke.
    #[error("the body ended early: {0}")]
    Broken(String),
}

/// Reads a body whole.
pub async fn read<B>(body: B, most: usize, limit: Duration) -> Result<Bytes, BodyError>
where
    B: Body + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let reading = Limited::new(body, most).collect();
    match tokio::time::timeout(limit, Box::pin(reading)).await {
        Err(_) => Err(BodyError::TooSlow(limit)),
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(BodyError::TooLarge(most)),
        Ok(Err(error)) => Err(BodyError::Broken(error.to_string())),
    }
}

/// The body of an answer: a message, or a stream of them.
pub struct HttpBody {
    inner: BoxBody<Bytes, Infallible>,
    /// Keeps the session from being silent while somebody listens.
    _busy: Option<Busy>,
    /// Ends a stream that waits for nothing in particular.
    until: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
}

impl HttpBody {
    pub(super) fn new(
        inner: BoxBody<Bytes, Infallible>,
        busy: Option<Busy>,
        until: Option<CancellationToken>,
    ) -> Self {
        Self {
            inner,
            _busy: busy,
            until: until.map(|token| Box::pin(token.cancelled_owned())),
        }
    }

    pub(super) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self::new(http_body_util::Full::new(bytes.into()).boxed(), None, None)
    }
}

impl Body for HttpBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(until) = &mut self.until
            && until.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(None);
        }
        Pin::new(&mut self.inner).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl std::fmt::Debug for HttpBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HttpBody")
    }
}
