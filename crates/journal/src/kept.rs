//! Events that are sent to a run: given to the wait for it, or kept until there is one.

use pentad_model::canonical::{from_dag_cbor, to_dag_cbor};
use pentad_model::{Caller, RunId, Timestamp};
use pentad_program::{Delivery, StoreError};
use rusqlite::{OptionalExtension, params};
use serde_json::Value;

use crate::fault::Fault;
use crate::record;
use crate::waits::{self, MAX_ANSWER_BYTES};
use crate::writer::Scope;

/// Most events that are kept for one run.
pub(crate) const MAX_KEPT: i64 = 1_000;
/// Longest name of an event in bytes.
const MAX_NAME_BYTES: usize = 200;

/// Sends an event to a run.
pub(crate) fn send(
    scope: &mut Scope<'_>,
    run: RunId,
    name: &str,
    value: &Value,
    by: &Caller,
    at: Timestamp,
) -> Result<Delivery, Fault> {
    let record = record::get(scope.connection, run)?;
    let conflict = |text: String| Err(StoreError::Conflict(text).into());
    if record.status().is_settled() {
        return conflict(format!(
            "run {run} has ended ('{}') and takes no more events",
            record.status().word()
        ));
    }
    if name.is_empty() || name.len() > MAX_NAME_BYTES {
        return conflict(format!(
            "the name of an event has 1 to {MAX_NAME_BYTES} bytes; this one has {}",
            name.len()
        ));
    }
    let answer = waits::event_answer(value);
    let bytes = to_dag_cbor(&answer)?.len();
    if bytes > MAX_ANSWER_BYTES {
        return conflict(format!(
            "the event '{name}' of {bytes} bytes is larger than the {MAX_ANSWER_BYTES} bytes that a run takes; put its \
             payload into an attachment and send the address"
        ));
    }
    if let Some(wait) = waits::for_event(scope.connection, record.row, name)? {
        waits::put(scope, (wait, record.row), &answer, Some(by), at)?;
        return Ok(Delivery::Delivered);
    }
    keep(scope, record.row, run, name, value, by, at)
}

fn keep(
    scope: &mut Scope<'_>,
    row: i64,
    run: RunId,
    name: &str,
    value: &Value,
    by: &Caller,
    at: Timestamp,
) -> Result<Delivery, Fault> {
    let (kept, last): (i64, i64) = scope
        .connection
        .prepare_cached("SELECT count(*), coalesce(max(seq), 0) FROM kept WHERE run = ?1")?
        .query_one([row], |found| Ok((found.get(0)?, found.get(1)?)))?;
    if kept >= MAX_KEPT {
        let text = format!(
            "run {run} keeps {MAX_KEPT} events that it has not waited for, and takes no more; send '{name}' again when \
             it has taken some, or cancel it if it never will"
        );
        return Err(StoreError::Conflict(text).into());
    }
    scope
        .connection
        .prepare_cached("INSERT INTO kept (run, seq, name, value, by, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?
        .execute(params![
            row,
            last + 1,
            name,
            to_dag_cbor(value)?,
            to_dag_cbor(by)?,
            at.0
        ])?;
    Ok(Delivery::Kept)
}

/// Takes the oldest kept event of a name.
pub(crate) fn take(scope: &mut Scope<'_>, run: i64, name: &str) -> Result<Option<(Value, Caller)>, Fault> {
    let oldest: Option<(i64, Vec<u8>, Vec<u8>)> = scope
        .connection
        .prepare_cached("SELECT seq, value, by FROM kept WHERE run = ?1 AND name = ?2 ORDER BY seq LIMIT 1")?
        .query_one(params![run, name], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .optional()?;
    let Some((seq, value, by)) = oldest else {
        return Ok(None);
    };
    scope
        .connection
        .prepare_cached("DELETE FROM kept WHERE run = ?1 AND seq = ?2")?
        .execute([run, seq])?;
    Ok(Some((from_dag_cbor(&value)?, from_dag_cbor(&by)?)))
}

/// Keeps an event again whose wait was given up: it is older than all that are kept.
pub(crate) fn give_back(
    scope: &mut Scope<'_>,
    run: i64,
    name: &str,
    value: &Value,
    by: &[u8],
    at: Timestamp,
) -> Result<(), Fault> {
    scope
        .connection
        .prepare_cached(
            "INSERT INTO kept (run, seq, name, value, by, at)
             VALUES (?1, (SELECT coalesce(min(seq), 1) - 1 FROM kept WHERE run = ?1), ?2, ?3, ?4, ?5)",
        )?
        .execute(params![run, name, to_dag_cbor(value)?, by, at.0])?;
    Ok(())
}
