//! `GET /api/v1/events`: the journal as a stream, from any position on: events of threads and steps of runs.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::{Extension, RawQuery, State};
use axum::http::HeaderMap;
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use futures::Stream;
use futures::stream::unfold;
use pentad_model::step::Step;
use pentad_model::{Actor, Caller, Event, Refusal, RefusalKind, RunId};
use pentad_program::StoreError;
use tokio::sync::OwnedSemaphorePermit;

use crate::answer::Rejection;
use crate::face::Shared;
use crate::tokens::Bearer;

/// Events, and steps, that are read at once; a slow reader holds no more than these.
const PAGE: usize = 100;
/// Runs whose owners a stream remembers.
const KNOWN_RUNS: usize = 1_024;

/// An event or a step.
enum Entry {
    Event(Event),
    Step(Step),
}

impl Entry {
    const fn position(&self) -> u64 {
        match self {
            Self::Event(event) => event.position,
            Self::Step(step) => step.journal,
        }
    }
}

/// Where a stream stands. It is pulled: nothing is read ahead of what the connection takes, and no task outlives it.
struct Feed {
    shared: Arc<Shared>,
    actor: Actor,
    position: u64,
    page: VecDeque<Entry>,
    /// Whether the steps of a run are shown.
    runs: HashMap<RunId, bool>,
    ended: bool,
    _permit: OwnedSemaphorePermit,
}

/// Streams events and steps. `id:` is the position, so that `Last-Event-ID` goes on where a connection broke; a step is of
/// the type `step`, an event of its own.
///
/// A person sees everything, a client what it did or what was done on its behalf, and the steps of runs that it started.
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
        runs: HashMap::new(),
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
        while let Some(entry) = feed.page.pop_front() {
            feed.position = feed.position.max(entry.position());
            match feed.shows(&entry).await {
                Ok(true) => return Some((Ok(message(&entry)), feed)),
                Ok(false) => {}
                Err(error) => {
                    let last = feed.fail(&error);
                    return Some((Ok(last), feed));
                }
            }
        }
        let closing = feed.shared.closing.clone();
        let filled = tokio::select! {
            () = closing.cancelled() => return None,
            filled = fill(&feed.shared, feed.position) => filled,
        };
        match filled {
            Ok(entries) => feed.page = entries.into(),
            Err(error) => {
                let last = feed.fail(&error);
                return Some((Ok(last), feed));
            }
        }
    }
}

/// Waits for entries after a position, and returns some of them in order.
async fn fill(shared: &Shared, position: u64) -> Result<Vec<Entry>, StoreError> {
    let (store, runs) = (&shared.face.store, &shared.face.runs);
    loop {
        // What is written while both kinds are read comes with the next page, or it might be passed over.
        let head = store.head().await?;
        if head > position {
            let events = store.feed(position, PAGE).await?;
            let steps = runs.step_feed(position, PAGE).await?;
            let entries = merged(events, steps, head);
            if !entries.is_empty() {
                return Ok(entries);
            }
        }
        store.changed(position.max(head)).await?;
    }
}

/// Merges events and steps up to `head`. Each kind may be cut, so where there are both, they go as far as both are known.
fn merged(events: Vec<Event>, steps: Vec<Step>, head: u64) -> Vec<Entry> {
    let last_event = events.last().map_or(head, |event| event.position);
    let last_step = steps.last().map_or(head, |step| step.journal);
    let horizon = head.min(last_event).min(last_step);
    let mut entries: Vec<Entry> = events.into_iter().map(Entry::Event).collect();
    entries.extend(steps.into_iter().map(Entry::Step));
    entries.retain(|entry| entry.position() <= horizon);
    entries.sort_by_key(Entry::position);
    entries
}

impl Feed {
    async fn shows(&mut self, entry: &Entry) -> Result<bool, StoreError> {
        if self.actor.is_person() {
            return Ok(true);
        }
        match entry {
            Entry::Event(event) => Ok(self.is_of(&event.caller)),
            Entry::Step(step) => self.shows_run(step.run).await,
        }
    }

    fn is_of(&self, caller: &Caller) -> bool {
        caller.actor == self.actor || caller.on_behalf_of.as_ref() == Some(&self.actor)
    }

    async fn shows_run(&mut self, run: RunId) -> Result<bool, StoreError> {
        if let Some(shown) = self.runs.get(&run) {
            return Ok(*shown);
        }
        let shown = match self.shared.face.store.run(run).await {
            Ok(run) => self.is_of(&run.caller),
            Err(StoreError::NotFound(_)) => false,
            Err(error) => return Err(error),
        };
        if self.runs.len() >= KNOWN_RUNS {
            self.runs.clear();
        }
        self.runs.insert(run, shown);
        Ok(shown)
    }

    fn fail(&mut self, error: &StoreError) -> SseEvent {
        self.ended = true;
        SseEvent::default()
            .event("error")
            .data(error.to_string().replace(['\r', '\n'], " "))
    }
}

fn message(entry: &Entry) -> SseEvent {
    let (kind, value) = match entry {
        Entry::Event(event) => (event.body.kind(), shown(event)),
        Entry::Step(step) => ("step", step.shown()),
    };
    SseEvent::default()
        .id(entry.position().to_string())
        .event(kind)
        .data(value.to_string())
}

fn shown(event: &Event) -> serde_json::Value {
    let mut value = serde_json::to_value(event).unwrap_or_default();
    if let Some(map) = value.as_object_mut() {
        map.insert("position".to_owned(), event.position.into());
        map.remove("prev");
    }
    value
}
