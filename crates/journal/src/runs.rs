//! Runs: starting, changing, finding and listing.

use std::collections::BTreeMap;

use pentad_model::canonical::{from_dag_cbor, to_dag_cbor};
use pentad_model::id::MIN_ENDING;
use pentad_model::run::{Run, RunError, RunStatus, Stored, Terms, Usage};
use pentad_model::{Caller, GrantSet, IdEnding, Name, RunId, ThreadId, Timestamp};
use pentad_program::{NewRun, RunChange, RunFilter, StoreError};
use rusqlite::{Connection, ErrorCode, OptionalExtension, Row, ToSql, params};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::codec::{self, signed, tail, tail_of};
use crate::fault::Fault;
use crate::search::query::Words;
use crate::search::words;
use crate::threads;
use crate::writer::Scope;

/// What of a run never changes.
#[derive(Serialize, Deserialize)]
struct Start {
    parent: Option<RunId>,
    thread: ThreadId,
    title: String,
    tool: Option<String>,
    tool_cid: Option<String>,
    caller: Caller,
    grants: GrantSet,
    input: Value,
    #[serde(default)]
    terms: Terms,
    created_at: Timestamp,
}

/// What of a run changes.
#[derive(Serialize, Deserialize)]
struct State {
    status: RunStatus,
    output: Option<Value>,
    error: Option<RunError>,
    stored: BTreeMap<String, Stored>,
    #[serde(default)]
    usage: Usage,
}

/// The condition of one run; its index begins with the ending, by which people name runs.
const BY_ID: &str = "tail = ?1 AND id = ?2";
const COLUMNS: &str = "run.row, run.id, run.name, run.start, run.state, run.updated_at";

fn from_row(row: &Row<'_>) -> Result<Run, Fault> {
    let id = codec::id(row, "id")?;
    let start: Start = codec::record(row.get_ref("start")?.as_blob().unwrap_or_default(), "run", id)?;
    let state: State = codec::record(row.get_ref("state")?.as_blob().unwrap_or_default(), "run", id)?;
    let name: Option<String> = row.get("name")?;
    Ok(Run {
        id: RunId(id),
        parent: start.parent,
        thread: start.thread,
        name: name.and_then(|name| name.parse().ok()),
        title: start.title,
        tool: start.tool,
        tool_cid: start.tool_cid,
        caller: start.caller,
        status: state.status,
        grants: start.grants,
        input: start.input,
        terms: start.terms,
        usage: state.usage,
        canceling: false,
        output: state.output,
        error: state.error,
        stored: state.stored,
        created_at: start.created_at,
        updated_at: Timestamp(row.get("updated_at")?),
    })
}

/// Returns the text of a run that a search looks through.
pub(crate) fn words_of(start: &[u8]) -> Result<String, Fault> {
    let start: Start = from_dag_cbor(start)?;
    let mut out = String::new();
    words::add(&mut out, &start.title);
    if let Some(tool) = &start.tool {
        words::add(&mut out, tool);
    }
    words::add_value(&mut out, &start.input);
    Ok(out)
}

/// Records a run as running.
pub(crate) fn start(scope: &mut Scope<'_>, new: &NewRun) -> Result<(), Fault> {
    let thread = threads::row_of(scope.connection, new.thread)?;
    let start = Start {
        parent: new.parent,
        thread: new.thread,
        title: new.title.clone(),
        tool: new.tool.clone(),
        tool_cid: new.tool_cid.clone(),
        caller: new.caller.clone(),
        grants: new.grants.clone(),
        input: new.input.clone(),
        terms: new.terms.clone(),
        created_at: new.at,
    };
    let state = State {
        status: new.status,
        output: None,
        error: None,
        stored: BTreeMap::new(),
        usage: Usage::default(),
    };
    let written = scope
        .connection
        .prepare_cached(
            "INSERT INTO run (id, tail, thread, name, status, start, state, updated_at,
                              owner_pid, owner_born, owner_boot)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        )?
        .execute(params![
            new.id.0.as_bytes(),
            tail(new.id.0),
            thread,
            new.name.as_ref().map(Name::as_str),
            state.status.word(),
            to_dag_cbor(&start)?,
            to_dag_cbor(&state)?,
            new.at.0,
            scope.owner.pid,
            signed(scope.owner.born),
            scope.owner.boot,
        ]);
    match written {
        Ok(_) => Ok(()),
        Err(e) if e.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
            Err(taken(scope.connection, new)?.into())
        }
        Err(e) => Err(e.into()),
    }
}

fn taken(connection: &Connection, new: &NewRun) -> Result<StoreError, Fault> {
    let live = match &new.name {
        Some(name) => live_with_name(connection, name)?.map(|run| (name, run)),
        None => None,
    };
    Ok(StoreError::Conflict(match live {
        Some((name, run)) => format!(
            "the name '{name}' belongs to the live run {}; take another name, or wait until that run has ended",
            run.id
        ),
        None => format!("there is a run {} already; make one with another id", new.id),
    }))
}

/// Changes a run that is not settled.
pub(crate) fn change(scope: &mut Scope<'_>, change: &RunChange) -> Result<(), Fault> {
    let found: Option<(i64, Vec<u8>)> = scope
        .connection
        .prepare_cached(&format!("SELECT row, state FROM run WHERE {BY_ID}"))?
        .query_one(params![tail(change.id.0), change.id.0.as_bytes()], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    let Some((row, bytes)) = found else {
        return Err(no_run(&change.id.to_string()).into());
    };
    let mut state: State = codec::record(&bytes, "run", change.id.0)?;
    if state.status.is_settled() {
        let text = format!(
            "run {} has ended ('{}') and is not changed again",
            change.id,
            state.status.word()
        );
        return Err(StoreError::Conflict(text).into());
    }
    state.status = change.status;
    if change.output.is_some() {
        state.output.clone_from(&change.output);
    }
    if change.error.is_some() {
        state.error.clone_from(&change.error);
    }
    state.stored.extend(change.stored.clone());
    scope
        .connection
        .prepare_cached(
            "UPDATE run SET status = ?2, state = ?3, updated_at = max(updated_at, ?4),
                            owner_pid = ?5, owner_born = ?6, owner_boot = ?7 WHERE row = ?1",
        )?
        .execute(params![
            row,
            state.status.word(),
            to_dag_cbor(&state)?,
            change.at.0,
            scope.owner.pid,
            signed(scope.owner.born),
            scope.owner.boot,
        ])?;
    Ok(())
}

fn no_run(what: &str) -> StoreError {
    StoreError::NotFound(format!("there is no run '{what}'"))
}

fn first(connection: &Connection, condition: &str, values: &[&dyn ToSql]) -> Result<Option<Run>, Fault> {
    let sql = format!("SELECT {COLUMNS} FROM run WHERE {condition} LIMIT 1");
    let mut statement = connection.prepare_cached(&sql)?;
    statement.query_and_then(values, from_row)?.next().transpose()
}

/// Reads a run by id.
pub(crate) fn get(connection: &Connection, id: RunId) -> Result<Run, Fault> {
    let found = first(connection, BY_ID, &[&tail(id.0), id.0.as_bytes()])?;
    found.ok_or_else(|| no_run(&id.to_string()).into())
}

fn live_with_name(connection: &Connection, name: &Name) -> Result<Option<Run>, Fault> {
    first(
        connection,
        "name = ?1 AND status IN ('queued', 'running', 'waiting')",
        &[&name.as_str()],
    )
}

/// Finds a run: the live one of this name, else the newest of this name, else the one whose id ends so.
pub(crate) fn find(connection: &Connection, name: &Name) -> Result<Run, Fault> {
    if let Some(run) = live_with_name(connection, name)? {
        return Ok(run);
    }
    if let Some(run) = first(connection, "name = ?1 ORDER BY row DESC", &[&name.as_str()])? {
        return Ok(run);
    }
    let Ok(ending) = name.as_str().parse::<IdEnding>() else {
        return Err(StoreError::NotFound(format!(
            "there is no run named '{name}', and an ending of an id has {MIN_ENDING} characters or more"
        ))
        .into());
    };
    let sql = format!("SELECT {COLUMNS} FROM run WHERE tail = ?1");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut found = Vec::new();
    for run in statement.query_and_then([tail_of(ending.as_str())], from_row)? {
        let run = run?;
        if ending.matches(run.id.0) {
            found.push(run);
        }
    }
    threads::only(found, ending.as_str(), "run")
}

/// Which conditions a list of runs has.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Conditions {
    pub(crate) words: bool,
    pub(crate) thread: bool,
    pub(crate) status: Option<Status>,
}

/// What the index of statuses knows: all runs but those that succeeded, which are most of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Succeeded,
    Indexed,
}

/// Returns the query of a page of runs, newest first in the order in which they were recorded.
pub(crate) fn list_sql(has: Conditions) -> String {
    let mut conditions = Vec::new();
    let (tables, row) = if has.words {
        conditions.push("run_words MATCH :words");
        (
            "run_words JOIN run ON run.row = run_words.rowid",
            "run_words.rowid",
        )
    } else {
        ("run", "run.row")
    };
    let below = format!("{row} < :before");
    conditions.push(&below);
    // The narrower index leads; `+` keeps SQLite from leading with the other.
    if has.thread {
        conditions.push(if has.words {
            "+run.thread = :thread"
        } else {
            "run.thread = :thread"
        });
    }
    match has.status {
        None => {}
        Some(Status::Indexed) if !has.words && !has.thread => {
            conditions.push("run.status = :status AND run.status <> 'succeeded'");
        }
        Some(_) => conditions.push("+run.status = :status"),
    }
    format!(
        "SELECT {COLUMNS} FROM {tables} WHERE {} ORDER BY {row} DESC LIMIT :limit",
        conditions.join(" AND ")
    )
}

/// Lists runs, newest first.
pub(crate) fn list(connection: &Connection, filter: &RunFilter) -> Result<Vec<Run>, Fault> {
    let words = match &filter.query {
        None => None,
        Some(query) => match Words::parse(query)?.all() {
            None => return Ok(Vec::new()),
            all => all,
        },
    };
    let before: i64 = match filter.before {
        None => i64::MAX,
        Some(id) => connection
            .prepare_cached(&format!("SELECT row FROM run WHERE {BY_ID}"))?
            .query_one(params![tail(id.0), id.0.as_bytes()], |row| row.get(0))
            .optional()?
            .ok_or_else(|| no_run(&id.to_string()))?,
    };
    let thread = filter
        .thread
        .map(|t| threads::row_of(connection, t))
        .transpose()?;
    let sql = list_sql(Conditions {
        words: words.is_some(),
        thread: thread.is_some(),
        status: filter.status.as_deref().map(|status| {
            if status == RunStatus::Succeeded.word() {
                Status::Succeeded
            } else {
                Status::Indexed
            }
        }),
    });
    let limit = codec::limit(filter.limit);
    let mut statement = connection.prepare_cached(&sql)?;
    let mut values: Vec<(&str, &dyn ToSql)> = vec![(":before", &before), (":limit", &limit)];
    if words.is_some() {
        values.push((":words", &words));
    }
    if thread.is_some() {
        values.push((":thread", &thread));
    }
    if filter.status.is_some() {
        values.push((":status", &filter.status));
    }
    statement.query_and_then(values.as_slice(), from_row)?.collect()
}
