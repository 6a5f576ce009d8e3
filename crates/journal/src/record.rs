//! A run's row, as whatever changes it finds and writes it.

use std::collections::BTreeMap;

use pentad_model::canonical::{from_dag_cbor, to_dag_cbor};
use pentad_model::run::{RunError, RunStatus, Stored, Terms, Usage};
use pentad_model::{Caller, GrantSet, Id, RunId, ThreadId, Timestamp};
use pentad_program::StoreError;
use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::codec::{self, signed, tail, unsigned};
use crate::fault::Fault;
use crate::steps::Last;
use crate::writer::Scope;

/// The condition of one run; its index begins with the ending, by which people name runs.
pub(crate) const BY_ID: &str = "tail = ?1 AND id = ?2";

/// What of a run never changes.
#[derive(Serialize, Deserialize)]
pub(crate) struct Start {
    pub(crate) parent: Option<RunId>,
    pub(crate) thread: ThreadId,
    pub(crate) title: String,
    pub(crate) tool: Option<String>,
    pub(crate) tool_cid: Option<String>,
    pub(crate) caller: Caller,
    pub(crate) grants: GrantSet,
    pub(crate) input: Value,
    #[serde(default)]
    pub(crate) terms: Terms,
    pub(crate) created_at: Timestamp,
}

/// What of a run changes.
#[derive(Serialize, Deserialize)]
pub(crate) struct State {
    pub(crate) status: RunStatus,
    pub(crate) output: Option<Value>,
    pub(crate) error: Option<RunError>,
    pub(crate) stored: BTreeMap<String, Stored>,
    #[serde(default)]
    pub(crate) usage: Usage,
    /// The last step of a run that has ended with steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last: Option<Last>,
    /// The run that goes on in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) continued: Option<RunId>,
}

impl State {
    /// Returns the state of a run that was just accepted.
    pub(crate) const fn new(status: RunStatus) -> Self {
        Self {
            status,
            output: None,
            error: None,
            stored: BTreeMap::new(),
            usage: Usage {
                tokens: 0,
                cost_micros: 0,
                children: 0,
            },
            last: None,
            continued: None,
        }
    }
}

/// Who asked that a run end, and why.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Mark {
    pub(crate) by: Caller,
    pub(crate) reason: String,
}

/// A run before it changes.
pub(crate) struct Record {
    pub(crate) row: i64,
    pub(crate) id: RunId,
    /// The row of its thread.
    pub(crate) thread: i64,
    pub(crate) parent: Option<RunId>,
    pub(crate) plan_step: Option<String>,
    pub(crate) epoch: Option<u64>,
    pub(crate) cancel: Option<Mark>,
    pub(crate) state: State,
    /// Whether it has waits or kept events.
    pub(crate) tied: bool,
    /// Whether it has, or had, children.
    pub(crate) has_children: bool,
}

impl Record {
    /// Returns where it stands.
    pub(crate) const fn status(&self) -> RunStatus {
        self.state.status
    }

    /// Fails when it has ended.
    pub(crate) fn live(self) -> Result<Self, Fault> {
        if self.status().is_settled() {
            let text = format!(
                "run {} has ended ('{}') and is not changed again",
                self.id,
                self.status().word()
            );
            return Err(StoreError::Conflict(text).into());
        }
        Ok(self)
    }
}

/// The query of one run that is about to change.
pub(crate) const FIND_SQL: &str = "SELECT row, thread, parent, plan_step, epoch, cancel, state,
        EXISTS (SELECT 1 FROM wait WHERE wait.run = run.row)
          OR EXISTS (SELECT 1 FROM kept WHERE kept.run = run.row) AS tied,
        EXISTS (SELECT 1 FROM run AS child WHERE child.parent = ?2) AS has_children
     FROM run WHERE tail = ?1 AND id = ?2";

/// Finds a run.
pub(crate) fn find(connection: &Connection, id: RunId) -> Result<Option<Record>, Fault> {
    let mut statement = connection.prepare_cached(FIND_SQL)?;
    let mut rows = statement.query(params![tail(id.0), id.0.as_bytes()])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    let cancel: Option<Vec<u8>> = row.get("cancel")?;
    Ok(Some(Record {
        row: row.get("row")?,
        id,
        thread: row.get("thread")?,
        parent: codec::optional_id(row, "parent")?.map(RunId),
        plan_step: row.get("plan_step")?,
        epoch: row.get::<_, Option<i64>>("epoch")?.map(unsigned),
        cancel: cancel
            .map(|bytes| codec::record(&bytes, "run", id.0))
            .transpose()?,
        state: codec::record(row.get_ref("state")?.as_blob().unwrap_or_default(), "run", id.0)?,
        tied: row.get("tied")?,
        has_children: row.get("has_children")?,
    }))
}

/// Finds a run that must be there.
pub(crate) fn get(connection: &Connection, id: RunId) -> Result<Record, Fault> {
    find(connection, id)?.ok_or_else(|| missing(&id.to_string()).into())
}

/// Returns what is said when there is no such run.
pub(crate) fn missing(what: &str) -> StoreError {
    StoreError::NotFound(format!("there is no run '{what}'"))
}

/// Returns the number that stands for a run in the other tables.
pub(crate) fn row_of(connection: &Connection, id: RunId) -> Result<i64, Fault> {
    let row = connection
        .prepare_cached(&format!("SELECT row FROM run WHERE {BY_ID}"))?
        .query_one(params![tail(id.0), id.0.as_bytes()], |row| row.get(0))
        .optional()?;
    row.ok_or_else(|| missing(&id.to_string()).into())
}

/// Returns the id of the run in a row.
pub(crate) fn id_of(connection: &Connection, row: i64) -> Result<RunId, Fault> {
    let bytes = connection
        .prepare_cached("SELECT id FROM run WHERE row = ?1")?
        .query_one([row], |found| found.get(0))?;
    Ok(RunId(Id::from_bytes(bytes)))
}

/// Reads what of a run never changes.
pub(crate) fn start_of(connection: &Connection, row: i64) -> Result<Start, Fault> {
    let bytes: Vec<u8> = connection
        .prepare_cached("SELECT start FROM run WHERE row = ?1")?
        .query_one([row], |found| found.get(0))?;
    Ok(from_dag_cbor(&bytes)?)
}

/// Writes what of a run has changed.
pub(crate) fn store(scope: &mut Scope<'_>, run: &Record, at: Timestamp) -> Result<(), Fault> {
    scope
        .connection
        .prepare_cached(
            "UPDATE run SET status = ?2, epoch = ?3, cancel = ?4, state = ?5, updated_at = max(updated_at, ?6)
             WHERE row = ?1",
        )?
        .execute(params![
            run.row,
            run.status().word(),
            run.epoch.map(signed),
            run.cancel.as_ref().map(to_dag_cbor).transpose()?,
            to_dag_cbor(&run.state)?,
            at.0,
        ])?;
    scope.news.stirred |= run.status() == RunStatus::Queued;
    Ok(())
}
