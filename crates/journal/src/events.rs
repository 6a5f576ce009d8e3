//! Events: appending to a thread's chain and reading it.

use std::collections::BTreeMap;

use pentad_model::event::NewEvent;
use pentad_model::{Event, EventBody, RunId, ThreadId};
use pentad_program::{EventPage, EventRange, StoreError};
use rusqlite::{Connection, OptionalExtension, ToSql, params};

use crate::codec::{self, MAX_PAGE_BYTES, signed};
use crate::fault::Fault;
use crate::threads::{self, Place};
use crate::writer::Scope;

/// Largest encoded event. Payloads over 64 KiB belong into blobs before they come here.
pub(crate) const MAX_EVENT_BYTES: usize = 256 << 10;

/// Appends events in order, each chained to its thread's last one.
pub(crate) fn append(scope: &mut Scope<'_>, new: &[NewEvent]) -> Result<Vec<Event>, Fault> {
    let mut places: Vec<Place> = Vec::new();
    let mut placed = Vec::with_capacity(new.len());
    for event in new {
        let at = match places.iter().position(|p| p.thread == event.thread) {
            Some(at) => at,
            None => {
                places.push(threads::place(scope.connection, event.thread)?);
                places.len() - 1
            }
        };
        if let Some(place) = places.get_mut(at) {
            placed.push(append_one(scope, place, event.clone())?);
        }
    }
    for place in &places {
        threads::move_head(scope.connection, place)?;
    }
    Ok(placed)
}

fn append_one(scope: &mut Scope<'_>, place: &mut Place, new: NewEvent) -> Result<Event, Fault> {
    let mut event = Event::place(new, place.seq + 1, place.prev);
    let bytes = event.encode()?;
    if bytes.len() > MAX_EVENT_BYTES {
        let text = format!(
            "an event '{}' of {} bytes is larger than the {MAX_EVENT_BYTES} bytes that the journal takes; put its \
             payload into a blob",
            event.body.kind(),
            bytes.len()
        );
        return Err(StoreError::Conflict(text).into());
    }
    let hash = Event::hash(&bytes);
    let clock = advance_clock(scope, event.at.0)?;
    let verb = match &event.body {
        EventBody::Called { verb, .. } => Some(verb.name()),
        _ => None,
    };
    event.position = scope.next_position()?;
    scope
        .connection
        .prepare_cached(
            "INSERT INTO event (position, thread, seq, at, clock, actor, kind, verb, call, run, hash, body)
             VALUES (?12, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        )?
        .execute(params![
            place.row,
            signed(event.seq),
            event.at.0,
            clock,
            event.caller.actor.to_string(),
            event.body.kind(),
            verb,
            event.call.map(|c| *c.0.as_bytes()),
            event.run.map(|r| *r.0.as_bytes()),
            hash,
            bytes,
            signed(event.position),
        ])?;
    if let EventBody::Promoted { tool, cid } = &event.body {
        promote(scope.connection, place.row, tool, cid)?;
    }
    place.seq = event.seq;
    place.prev = hash;
    place.updated_at = place.updated_at.max(event.at.0);
    scope.news.appended += 1;
    Ok(event)
}

/// Returns the journal's clock for an event, and notes how far the event lies behind it.
fn advance_clock(scope: &mut Scope<'_>, at: i64) -> Result<i64, Fault> {
    let last = match scope.clock {
        Some(clock) => clock,
        None => scope
            .connection
            .prepare_cached("SELECT clock FROM event ORDER BY position DESC LIMIT 1")?
            .query_one([], |row| row.get(0))
            .optional()?
            .unwrap_or(at),
    };
    let clock = last.max(at);
    scope.clock = Some(clock);
    let behind = clock.saturating_sub(at);
    if behind > 0 {
        scope
            .connection
            .prepare_cached("UPDATE progress SET skew = ?1 WHERE skew < ?1")?
            .execute([behind])?;
    }
    Ok(clock)
}

fn promote(connection: &Connection, thread: i64, tool: &str, cid: &str) -> Result<(), Fault> {
    connection
        .prepare_cached(
            "INSERT INTO promoted (thread, tool, cid) VALUES (?1, ?2, ?3)
             ON CONFLICT (thread, tool) DO UPDATE SET cid = excluded.cid",
        )?
        .execute(params![thread, tool, cid])?;
    Ok(())
}

/// Returns the tools that are promoted in a thread.
pub(crate) fn promoted(connection: &Connection, thread: ThreadId) -> Result<BTreeMap<String, String>, Fault> {
    let row = threads::row_of(connection, thread)?;
    let mut statement = connection.prepare_cached("SELECT tool, cid FROM promoted WHERE thread = ?1")?;
    let tools = statement.query_map([row], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(tools.collect::<Result<_, _>>()?)
}

/// Makes the table of promoted tools again from a thread's events.
pub(crate) fn rebuild_promoted(scope: &mut Scope<'_>, thread: ThreadId) -> Result<(), Fault> {
    let connection = scope.connection;
    let row = threads::row_of(connection, thread)?;
    connection.execute("DELETE FROM promoted WHERE thread = ?1", [row])?;
    let mut statement = connection.prepare_cached(
        "SELECT position, body FROM event WHERE thread = ?1 AND kind = 'promoted' ORDER BY seq",
    )?;
    let mut rows = statement.query([row])?;
    while let Some(found) = rows.next()? {
        let event = codec::event(found.get(0)?, found.get_ref(1)?.as_blob().unwrap_or_default())?;
        if let EventBody::Promoted { tool, cid } = &event.body {
            promote(connection, row, tool, cid)?;
        }
    }
    Ok(())
}

/// Collects a page of events from a query of (position, body) with one row more than the limit.
pub(crate) fn page(
    connection: &Connection,
    sql: &str,
    values: &[&dyn ToSql],
    limit: usize,
) -> Result<EventPage, Fault> {
    let limit = limit.min(codec::MAX_LIMIT);
    let mut page = EventPage::default();
    let mut bytes = 0;
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(values)?;
    while let Some(row) = rows.next()? {
        if page.events.len() >= limit || bytes > MAX_PAGE_BYTES {
            page.more = true;
            break;
        }
        let body = row.get_ref(1)?.as_blob().unwrap_or_default();
        bytes += body.len();
        page.events.push(codec::event(row.get(0)?, body)?);
    }
    Ok(page)
}

/// Returns the queries of a thread's events from either end.
pub(crate) const THREAD_SQL: [&str; 2] = [
    "SELECT position, body FROM event WHERE thread = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3",
    "SELECT position, body FROM event WHERE thread = ?1 AND seq < ?2 ORDER BY seq DESC LIMIT ?3",
];

/// The query of a run's events.
pub(crate) const RUN_SQL: &str =
    "SELECT position, body FROM event WHERE run = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3";

/// Reads a thread's events.
pub(crate) fn of_thread(
    connection: &Connection,
    thread: ThreadId,
    range: &EventRange,
    limit: usize,
) -> Result<EventPage, Fault> {
    let row = threads::row_of(connection, thread)?;
    let [ascending, descending] = THREAD_SQL;
    let one_more = codec::limit(limit) + 1;
    match range {
        EventRange::After(seq) => page(connection, ascending, &[&row, &signed(*seq), &one_more], limit),
        EventRange::Before(seq) => {
            let before = seq.map_or(i64::MAX, signed);
            let mut found = page(connection, descending, &[&row, &before, &one_more], limit)?;
            found.events.reverse();
            Ok(found)
        }
    }
}

/// Reads a run's events, oldest first.
pub(crate) fn of_run(
    connection: &Connection,
    run: RunId,
    after: u64,
    limit: usize,
) -> Result<EventPage, Fault> {
    let one_more = codec::limit(limit) + 1;
    page(
        connection,
        RUN_SQL,
        &[run.0.as_bytes(), &signed(after), &one_more],
        limit,
    )
}
