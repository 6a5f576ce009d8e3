//! The stream of one request in a session, which outlives the connection that it began on.
//!
//! A client whose connection breaks opens the stream again at the last event that it has. Until then what is sent is
//! kept, within limits; the session never waits for somebody to read it. The newest reader gets what there is.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures::{Stream, StreamExt as _};
use rmcp::model::{JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::ServerSseMessage;
use tokio::time::Instant;

/// The place of an event: which request's stream, and where in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The number of the request within its session.
    pub request: u64,
    /// The number of the event within its stream.
    pub index: u64,
}

impl Place {
    /// Reads an event id as the transport writes it; the events of the session's own stream name no request.
    pub fn of(event_id: &str) -> Option<Self> {
        let (index, request) = event_id.split_once('/')?;
        Some(Self {
            request: request.parse().ok()?,
            index: index.parse().ok()?,
        })
    }
}

#[derive(Debug, Default)]
struct Kept {
    events: VecDeque<(u64, ServerSseMessage)>,
    ended: Option<Instant>,
    /// The reader that counts; earlier ones end.
    reader: u64,
    waker: Option<Waker>,
}

/// What is kept of one stream.
#[derive(Debug)]
pub struct Outlet {
    kept: Mutex<Kept>,
    most: usize,
}

impl Outlet {
    /// Makes one that keeps this many events.
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            kept: Mutex::default(),
            most: most.max(2),
        })
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when the stream ended, if it has.
    pub fn ended(&self) -> Option<Instant> {
        self.kept().ended
    }

    /// Keeps an event. When there are too many, the oldest that another supersedes goes.
    pub fn push(&self, event: ServerSseMessage) {
        let Some(place) = event.event_id.as_deref().and_then(Place::of) else {
            return;
        };
        let mut kept = self.kept();
        if kept.events.len() >= self.most {
            let passing = kept.events.iter().position(|(_, event)| !is_answer(event));
            kept.events.remove(passing.unwrap_or_default());
        }
        kept.events.push_back((place.index, event));
        wake(kept);
    }

    /// Passes on everything of a stream until it ends.
    pub async fn fill(self: Arc<Self>, mut stream: Pin<Box<dyn Stream<Item = ServerSseMessage> + Send>>) {
        while let Some(event) = stream.next().await {
            self.push(event);
        }
        let mut kept = self.kept();
        kept.ended = Some(Instant::now());
        wake(kept);
    }

    /// Returns a reader of the events from this number on. The reader before it ends.
    pub fn read(self: &Arc<Self>, from: u64) -> Reader {
        let mut kept = self.kept();
        kept.reader += 1;
        let number = kept.reader;
        wake(kept);
        Reader {
            outlet: Arc::clone(self),
            number,
            next: from,
        }
    }
}

fn wake(mut kept: MutexGuard<'_, Kept>) {
    let waker = kept.waker.take();
    drop(kept);
    if let Some(waker) = waker {
        waker.wake();
    }
}

fn is_answer(event: &ServerSseMessage) -> bool {
    let message: Option<&ServerJsonRpcMessage> = event.message.as_deref();
    matches!(
        message,
        Some(JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) | JsonRpcMessage::Request(_))
    )
}

/// Reads a stream for one connection.
#[derive(Debug)]
pub struct Reader {
    outlet: Arc<Outlet>,
    number: u64,
    next: u64,
}

impl Stream for Reader {
    type Item = ServerSseMessage;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<ServerSseMessage>> {
        let outlet = Arc::clone(&self.outlet);
        let mut kept = outlet.kept();
        if kept.reader != self.number {
            return Poll::Ready(None);
        }
        let found = kept.events.iter().find(|(index, _)| *index >= self.next);
        if let Some((index, event)) = found {
            self.next = index + 1;
            return Poll::Ready(Some(event.clone()));
        }
        if kept.ended.is_some() {
            return Poll::Ready(None);
        }
        kept.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use serde_json::json;

    use super::*;

    fn event(index: u64, message: serde_json::Value) -> ServerSseMessage {
        let message: ServerJsonRpcMessage = serde_json::from_value(message).unwrap();
        ServerSseMessage::new(format!("{index}/7"), message)
    }

    fn progress(index: u64) -> ServerSseMessage {
        let params = json!({"progressToken": "t", "progress": index});
        event(
            index,
            json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}),
        )
    }

    fn answer(index: u64) -> ServerSseMessage {
        event(index, json!({"jsonrpc": "2.0", "id": 1, "result": {}}))
    }

    fn indices(reader: &mut Reader) -> Vec<u64> {
        std::iter::from_fn(|| reader.next().now_or_never().flatten())
            .filter_map(|event| Place::of(event.event_id.as_deref()?))
            .map(|place| place.index)
            .collect()
    }

    #[test]
    fn an_event_id_names_its_place() {
        assert_eq!(Place::of("3/7"), Some(Place { request: 7, index: 3 }));
        for other in ["", "3", "3/", "/7", "x/7", "3/7/1", "-1/7"] {
            assert_eq!(Place::of(other), None, "{other}");
        }
    }

    #[tokio::test]
    async fn a_later_reader_goes_on_where_the_first_stopped_and_replaces_it() {
        let outlet = Outlet::new(8);
        outlet.push(progress(0));
        outlet.push(progress(1));
        let mut first = outlet.read(0);
        assert_eq!(indices(&mut first), [0, 1]);
        let mut second = outlet.read(1);
        assert!(first.next().await.is_none());
        outlet.push(answer(2));
        assert_eq!(indices(&mut second), [1, 2]);
        let nothing = Box::pin(futures::stream::empty());
        Arc::clone(&outlet).fill(nothing).await;
        assert!(second.next().await.is_none() && outlet.ended().is_some());
        // The answer is there for whoever comes later.
        assert_eq!(indices(&mut outlet.read(2)), [2]);
    }

    #[tokio::test]
    async fn too_many_events_push_out_progress_and_never_the_answer() {
        let outlet = Outlet::new(3);
        outlet.push(answer(0));
        for index in 1..10 {
            outlet.push(progress(index));
        }
        assert_eq!(indices(&mut outlet.read(0)), [0, 8, 9]);
    }

    #[tokio::test]
    async fn a_waiting_reader_is_woken() {
        let outlet = Outlet::new(3);
        let mut reader = outlet.read(0);
        let waiting = tokio::spawn(async move { reader.next().await });
        tokio::task::yield_now().await;
        let stream = futures::stream::iter([answer(0)]);
        Arc::clone(&outlet).fill(Box::pin(stream)).await;
        assert!(waiting.await.unwrap().is_some());
    }
}
