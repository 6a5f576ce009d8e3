//! Collecting words.

use rusqlite::{Connection, params};

use crate::codec::{self, signed};
use crate::fault::Fault;
use crate::runs;
use crate::search::words;

/// Bits of a row number below the thread's.
const SEQ_BITS: u32 = 32;

/// Returns the row of an event's words; number 0 is the thread's title.
pub(crate) const fn words_row(thread: i64, seq: i64) -> i64 {
    (thread << SEQ_BITS) | seq
}

/// Returns the thread's row and the event's number of a row of words.
pub(crate) const fn place_of(words_row: i64) -> (i64, i64) {
    (words_row >> SEQ_BITS, words_row & ((1 << SEQ_BITS) - 1))
}

/// Adds a thread's title.
pub(crate) fn add_title(connection: &Connection, thread: i64, title: &str) -> Result<(), Fault> {
    connection
        .prepare_cached("INSERT INTO event_words (rowid, text) VALUES (?1, ?2)")?
        .execute(params![words_row(thread, 0), title])?;
    Ok(())
}

/// Collects the words of at most `stretch` events and runs; tells whether there are more.
pub(crate) fn collect(connection: &Connection, stretch: u64) -> Result<bool, Fault> {
    let more_events = collect_events(connection, signed(stretch))?;
    let more_runs = collect_runs(connection, signed(stretch))?;
    Ok(more_events || more_runs)
}

/// Tells whether there are words to collect.
pub(crate) fn is_behind(connection: &Connection) -> Result<bool, Fault> {
    Ok(connection
        .prepare_cached(
            "SELECT (SELECT coalesce(max(position), 0) FROM event) > events_indexed
                 OR (SELECT coalesce(max(row), 0) FROM run) > runs_indexed FROM progress",
        )?
        .query_one([], |row| row.get(0))?)
}

fn collect_events(connection: &Connection, stretch: i64) -> Result<bool, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT position, thread, seq, body FROM event
         WHERE position > (SELECT events_indexed FROM progress) ORDER BY position LIMIT ?1",
    )?;
    let mut rows = statement.query([stretch])?;
    let mut found: Vec<(i64, String)> = Vec::new();
    let (mut last, mut seen) = (None, 0);
    while let Some(row) = rows.next()? {
        let position: i64 = row.get(0)?;
        seen += 1;
        last = Some(position);
        // What cannot be decoded has no words; reading it says why.
        if let Ok(event) = codec::event(position, row.get_ref(3)?.as_blob().unwrap_or_default()) {
            let text = words::of_event(&event.body);
            if !text.is_empty() {
                found.push((words_row(row.get(1)?, row.get(2)?), text));
            }
        }
    }
    // FTS5 writes out what it holds whenever row numbers fall.
    found.sort_unstable_by_key(|(row, _)| *row);
    let mut insert = connection.prepare_cached("INSERT INTO event_words (rowid, text) VALUES (?1, ?2)")?;
    for (row, text) in &found {
        insert.execute(params![row, text])?;
    }
    if let Some(last) = last {
        connection
            .prepare_cached("UPDATE progress SET events_indexed = ?1")?
            .execute([last])?;
    }
    Ok(seen == stretch)
}

fn collect_runs(connection: &Connection, stretch: i64) -> Result<bool, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT row, start FROM run WHERE row > (SELECT runs_indexed FROM progress) ORDER BY row LIMIT ?1",
    )?;
    let mut rows = statement.query([stretch])?;
    let mut insert = connection.prepare_cached("INSERT INTO run_words (rowid, text) VALUES (?1, ?2)")?;
    let (mut last, mut seen) = (None, 0);
    while let Some(row) = rows.next()? {
        let number: i64 = row.get(0)?;
        seen += 1;
        last = Some(number);
        if let Ok(text) = runs::words_of(row.get_ref(1)?.as_blob().unwrap_or_default()) {
            insert.execute(params![number, text])?;
        }
    }
    if let Some(last) = last {
        connection
            .prepare_cached("UPDATE progress SET runs_indexed = ?1")?
            .execute([last])?;
    }
    Ok(seen == stretch)
}
