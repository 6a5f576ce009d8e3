//! `GET /api/v1/events`: the journal as a stream, from any position on.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::{Extension, RawQuery, State};
use axum::http::HeaderMap;
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use futures::Stream;
use futures::stream::unfold;
use pentad_model::{Actor, Event, Refusal, RefusalKind};
use tokio::sync::OwnedSemaphorePermit;

use crate::answer::Rejection;
use crate::face::Shared;
use crate::tokens::Bearer;

/// Events that are read at once; a slow reader holds no more than these.
const PAGE: usize = 100;

/// Where a stream stands. It is pulled: nothing is read ahead of what the connection takes, and no task outlives it.
struct Feed {
    shared: Arc<Shared>,
    actor: Actor,
    position: u64,
    page: VecDeque<Event>,
    ended: bool,
    _permit: OwnedSemaphorePermit,
}

/// Streams events. `id:` is the position, so that `Last-Event-ID` goes on where a connection broke.
///
/// A person sees everything, a client what it did or what was done on its behalf.
pub(crate) async fn events(
    State(shared): State<Arc<Shared>>,
    Extension(bearer): Extension<Bearer>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Sse<impl Stream<Item = Result<SseEvent, Infallible>>>, Rejection> {
    let position = match start(&headers, query.as_deref())? {
        Some(position) => position,
        None => shared.face.store.head().await.map_err(|error| {
            Rejection::new(Refusal::new(
                RefusalKind::Unavailable,
                "events",
                format!("{error}."),
            ))
        })?,
    };
    let permit = Arc::clone(&shared.streams).try_acquire_owned().map_err(|_| {
        let message = format!("There are {} streams already.", crate::face::MAX_STREAMS);
        let refusal =
            Refusal::new(RefusalKind::TooMany, "events", message).next_step("close a stream, then try again");
        Rejection::new(refusal)
    })?;
    let heartbeat = KeepAlive::new().interval(shared.face.heartbeat).text("heartbeat");
    let feed = Feed {
        shared,
        actor: bearer.actor,
        position,
        page: VecDeque::new(),
        ended: false,
        _permit: permit,
    };
    Ok(Sse::new(unfold(feed, next)).keep_alive(heartbeat))
}

/// Reads where to begin: the header of a reconnecting reader wins over the address that it was first given.
fn start(headers: &HeaderMap, query: Option<&str>) -> Result<Option<u64>, Rejection> {
    let number = |subject: &str, text: &str| {
        text.trim().parse::<u64>().map(Some).map_err(|_| {
            Rejection::bad_request(subject, format!("{subject} must be a position: a whole number."))
        })
    };
    if let Some(value) = headers.get("last-event-id") {
        return number("Last-Event-ID", value.to_str().unwrap_or("?"));
    }
    let mut after = None;
    for pair in query.unwrap_or("").split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("after", value)) => after = number("after", value)?,
            _ => {
                let key = pair.split('=').next().unwrap_or(pair);
                let message = "The events have no such parameter.";
                return Err(Rejection::new(
                    Refusal::new(RefusalKind::BadRequest, key, message).supported(["after"]),
                ));
            }
        }
    }
    Ok(after)
}

async fn next(mut feed: Feed) -> Option<(Result<SseEvent, Infallible>, Feed)> {
    loop {
        if feed.ended {
            return None;
        }
        while let Some(event) = feed.page.pop_front() {
            feed.position = feed.position.max(event.position);
            if feed.shows(&event) {
                return Some((Ok(message(&event)), feed));
            }
        }
        let closing = feed.shared.closing.clone();
        let filled = tokio::select! {
            () = closing.cancelled() => return None,
            filled = fill(&feed.shared, feed.position) => filled,
        };
        match filled {
            Ok(events) => feed.page = events.into(),
            Err(error) => {
                feed.ended = true;
                let event = SseEvent::default()
                    .event("error")
                    .data(error.to_string().replace(['\r', '\n'], " "));
                return Some((Ok(event), feed));
            }
        }
    }
}

/// Waits for events after a position.
async fn fill(shared: &Shared, position: u64) -> Result<Vec<Event>, pentad_program::StoreError> {
    loop {
        let events = shared.face.store.feed(position, PAGE).await?;
        if !events.is_empty() {
            return Ok(events);
        }
        shared.face.store.changed(position).await?;
    }
}

impl Feed {
    fn shows(&self, event: &Event) -> bool {
        self.actor.is_person()
            || event.caller.actor == self.actor
            || event.caller.on_behalf_of.as_ref() == Some(&self.actor)
    }
}

fn message(event: &Event) -> SseEvent {
    let mut value = serde_json::to_value(event).unwrap_or_default();
    if let Some(map) = value.as_object_mut() {
        map.insert("position".to_owned(), event.position.into());
        map.remove("prev");
    }
    SseEvent::default()
        .id(event.position.to_string())
        .event(event.body.kind())
        .data(value.to_string())
}
