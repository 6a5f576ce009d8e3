//! Events over all threads: the feed in journal order and the activity list.
//!
//! Times come from callers and may fall while positions rise. Each event therefore carries the journal's clock, the
//! greatest time so far, and the journal knows how far any event lies behind it. So a span of time becomes a span of
//! positions by bisection, which no event of that time lies outside of.

use pentad_model::Event;
use pentad_program::ActivityFilter;
use rusqlite::{Connection, OptionalExtension, ToSql};

use crate::codec::{self, signed, unsigned};
use crate::events;
use crate::fault::Fault;
use crate::threads;

/// The query of the feed.
pub(crate) const FEED_SQL: &str =
    "SELECT position, body FROM event WHERE position > ?1 ORDER BY position LIMIT ?2";

/// The query of the newest position: the last row of either table.
pub(crate) const HEAD_SQL: &str = "SELECT max(coalesce((SELECT max(position) FROM event), 0),
                                              coalesce((SELECT max(position) FROM step), 0))";

/// Returns the newest position of an event or a step, 0 in an empty journal.
pub(crate) fn head(connection: &Connection) -> Result<u64, Fault> {
    let head: i64 = connection
        .prepare_cached(HEAD_SQL)?
        .query_one([], |row| row.get(0))?;
    Ok(unsigned(head))
}

/// Reads events after a position.
pub(crate) fn feed(connection: &Connection, after: u64, limit: usize) -> Result<Vec<Event>, Fault> {
    let values: [&dyn ToSql; 2] = [&signed(after), &codec::limit(limit)];
    Ok(events::page(connection, FEED_SQL, &values, limit)?.events)
}

/// Which index leads an activity list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lead {
    Thread,
    Actor,
    Verb,
    All,
}

/// Returns the query of a page of activity; `+` keeps SQLite from leading with another index.
pub(crate) fn list_sql(lead: Lead, actor: bool, verb: bool) -> String {
    let mut conditions = vec![
        "position >= :first",
        "position < :end",
        "at >= :since",
        "at < :until",
    ];
    match lead {
        Lead::Thread => {
            conditions = vec![
                "thread = :thread",
                "seq >= :first",
                "seq < :end",
                "at >= :since",
                "at < :until",
            ]
        }
        Lead::Actor => conditions.push("actor = :actor"),
        Lead::Verb => conditions.push("verb = :verb"),
        Lead::All => {}
    }
    if actor && lead != Lead::Actor {
        conditions.push("+actor = :actor");
    }
    if verb && lead != Lead::Verb {
        conditions.push("+verb = :verb");
    }
    let order = if lead == Lead::Thread { "seq" } else { "position" };
    format!(
        "SELECT position, body FROM event WHERE {} ORDER BY {order} DESC LIMIT :limit",
        conditions.join(" AND ")
    )
}

/// Lists events, newest first.
pub(crate) fn list(connection: &Connection, filter: &ActivityFilter) -> Result<Vec<Event>, Fault> {
    let lead = match filter {
        ActivityFilter { thread: Some(_), .. } => Lead::Thread,
        ActivityFilter { actor: Some(_), .. } => Lead::Actor,
        ActivityFilter { verb: Some(_), .. } => Lead::Verb,
        _ => Lead::All,
    };
    let thread = filter
        .thread
        .map(|t| threads::row_of(connection, t))
        .transpose()?;
    let span = Span::of(connection, filter)?;
    let (first, end) = match thread {
        Some(thread) => span.within(connection, thread)?,
        None => (span.first, span.end),
    };
    let since = filter.since.map_or(i64::MIN, |t| t.0);
    let until = filter.until.map_or(i64::MAX, |t| t.0);
    let limit = codec::limit(filter.limit);
    let actor = filter.actor.as_ref().map(ToString::to_string);
    let verb = filter.verb.map(pentad_model::Verb::name);
    let sql = list_sql(lead, actor.is_some(), verb.is_some());
    let mut statement = connection.prepare_cached(&sql)?;
    let mut values: Vec<(&str, &dyn ToSql)> = vec![
        (":first", &first),
        (":end", &end),
        (":since", &since),
        (":until", &until),
        (":limit", &limit),
    ];
    for (name, value) in [
        (":thread", &thread as &dyn ToSql),
        (":actor", &actor),
        (":verb", &verb),
    ] {
        if statement.parameter_index(name)?.is_some() {
            values.push((name, value));
        }
    }
    let mut rows = statement.query(values.as_slice())?;
    let mut found = Vec::new();
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        let body = row.get_ref(1)?.as_blob().unwrap_or_default();
        found.push(codec::event(row.get(0)?, body)?);
        bytes += body.len();
        if bytes > codec::MAX_PAGE_BYTES {
            break;
        }
    }
    Ok(found)
}

/// Positions from `first` up to, not including, `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    first: i64,
    end: i64,
}

impl Span {
    /// Returns the positions that the filter's times and mark leave.
    fn of(connection: &Connection, filter: &ActivityFilter) -> Result<Self, Fault> {
        let end = signed(head(connection)?).saturating_add(1);
        let mut span = Self { first: 1, end };
        if let Some(before) = filter.before {
            span.end = span.end.min(signed(before));
        }
        let clock_at = |position: i64| {
            connection
                .prepare_cached("SELECT clock FROM event WHERE position >= ?1 ORDER BY position LIMIT 1")?
                .query_one([position], |row| row.get::<_, i64>(0))
                .optional()
        };
        if let Some(since) = filter.since {
            span.first = bisect(1, end, |position| {
                Ok(clock_at(position)?.is_none_or(|clock| clock >= since.0))
            })?;
        }
        if let Some(until) = filter.until {
            let skew: i64 = connection
                .prepare_cached("SELECT skew FROM progress")?
                .query_one([], |row| row.get(0))?;
            let last = until.0.saturating_add(skew);
            let reached = bisect(1, end, |position| {
                Ok(clock_at(position)?.is_none_or(|clock| clock >= last))
            })?;
            span.end = span.end.min(reached);
        }
        Ok(span)
    }

    /// Returns the same span as sequence numbers of one thread, where positions rise with them.
    fn within(self, connection: &Connection, thread: i64) -> Result<(i64, i64), Fault> {
        let events: i64 = connection
            .prepare_cached("SELECT events FROM thread WHERE row = ?1")?
            .query_one([thread], |row| row.get(0))?;
        let position_of = |seq: i64| {
            connection
                .prepare_cached(
                    "SELECT position FROM event WHERE thread = ?1 AND seq >= ?2 ORDER BY seq LIMIT 1",
                )?
                .query_one([thread, seq], |row| row.get::<_, i64>(0))
                .optional()
        };
        let seq_of = |wanted: i64| {
            bisect(1, events + 1, |seq| {
                Ok(position_of(seq)?.is_none_or(|position| position >= wanted))
            })
        };
        Ok((seq_of(self.first)?, seq_of(self.end)?))
    }
}

/// Returns the first number from `low` up to `high` for which `reached` holds, or `high`; it must hold from there on.
fn bisect(
    mut low: i64,
    mut high: i64,
    reached: impl Fn(i64) -> Result<bool, rusqlite::Error>,
) -> Result<i64, Fault> {
    while low < high {
        let middle = low + (high - low) / 2;
        if reached(middle)? {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Ok(low)
}
