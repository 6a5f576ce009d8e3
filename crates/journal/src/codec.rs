//! Records to and from what the tables hold.

use pentad_model::canonical::{CanonicalError, from_dag_cbor};
use pentad_model::event::EVENT_VERSION;
use pentad_model::id::MIN_ENDING;
use pentad_model::step::{STEP_VERSION, Step};
use pentad_model::{Event, Id, text};
use pentad_program::StoreError;
use rusqlite::Row;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::fault::Fault;

/// Most entries of one answer.
pub(crate) const MAX_LIMIT: usize = 10_000;
/// Bytes of events after which an answer is cut even below its limit.
pub(crate) const MAX_PAGE_BYTES: usize = 64 << 20;

/// Returns a limit as SQL takes it.
pub(crate) fn limit(asked: usize) -> i64 {
    i64::try_from(asked.min(MAX_LIMIT)).unwrap_or(0)
}

/// Returns a number as SQL takes it; beyond the largest that is the largest.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Returns a number that SQL held; it is never negative.
pub(crate) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// Returns the characters by which an id is found from its ending.
pub(crate) fn tail(id: Id) -> String {
    text::suffix(&id.to_string(), MIN_ENDING).to_owned()
}

/// Returns the same characters of an ending.
pub(crate) fn tail_of(ending: &str) -> &str {
    text::suffix(ending, MIN_ENDING)
}

/// Reads a column that holds an id.
pub(crate) fn id(row: &Row<'_>, column: &str) -> Result<Id, Fault> {
    Ok(Id::from_bytes(row.get::<_, [u8; 16]>(column)?))
}

/// Reads a column that may hold an id.
pub(crate) fn optional_id(row: &Row<'_>, column: &str) -> Result<Option<Id>, Fault> {
    Ok(row.get::<_, Option<[u8; 16]>>(column)?.map(Id::from_bytes))
}

/// Parses a column's text.
pub(crate) fn parsed<T: std::str::FromStr>(row: &Row<'_>, column: &str) -> Result<T, Fault>
where
    T::Err: std::fmt::Display,
{
    let text: String = row.get(column)?;
    text.parse()
        .map_err(|e| StoreError::Corrupt(format!("column {column} of the journal: {e}")).into())
}

/// Decodes a record's bytes; `what` and `id` name it when they are none.
pub(crate) fn record<T: DeserializeOwned>(bytes: &[u8], what: &str, id: Id) -> Result<T, Fault> {
    from_dag_cbor(bytes).map_err(|error| {
        StoreError::Corrupt(format!("{what} {id} of the journal cannot be decoded: {error}")).into()
    })
}

#[derive(Deserialize)]
struct Version {
    v: u32,
}

/// Decodes an event's bytes and gives it its position. Older versions are brought up to this one here.
pub(crate) fn event(position: i64, bytes: &[u8]) -> Result<Event, StoreError> {
    match from_dag_cbor::<Event>(bytes) {
        Ok(event) if event.v == EVENT_VERSION => Ok(Event {
            position: unsigned(position),
            ..event
        }),
        Ok(event) => Err(unknown_version("event", position, event.v, EVENT_VERSION)),
        Err(error) => Err(undecoded("event", position, bytes, EVENT_VERSION, &error)),
    }
}

/// Decodes a step's bytes and gives it its position. Older versions are brought up to this one here.
pub(crate) fn step(position: i64, bytes: &[u8]) -> Result<Step, StoreError> {
    match from_dag_cbor::<Step>(bytes) {
        Ok(step) if step.v == STEP_VERSION => Ok(Step {
            journal: unsigned(position),
            ..step
        }),
        Ok(step) => Err(unknown_version("step", position, step.v, STEP_VERSION)),
        Err(error) => Err(undecoded("step", position, bytes, STEP_VERSION, &error)),
    }
}

fn undecoded(what: &str, position: i64, bytes: &[u8], newest: u32, error: &CanonicalError) -> StoreError {
    match from_dag_cbor::<Version>(bytes) {
        Ok(Version { v }) if v != newest => unknown_version(what, position, v, newest),
        _ => StoreError::Corrupt(format!(
            "{what} {position} of the journal cannot be decoded: {error}"
        )),
    }
}

fn unknown_version(what: &str, position: i64, v: u32, newest: u32) -> StoreError {
    StoreError::Corrupt(format!(
        "{what} {position} of the journal has format {v}, and this build reads up to {newest}; use a newer pentad"
    ))
}
