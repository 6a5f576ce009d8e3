//! Runs: starting, finding, counting and listing.

use pentad_model::canonical::{from_dag_cbor, to_dag_cbor};
use pentad_model::id::MIN_ENDING;
use pentad_model::run::{Run, RunStatus};
use pentad_model::{IdEnding, Name, RunId, Timestamp};
use pentad_program::{NewRun, RunCounts, RunFilter, StoreError};
use rusqlite::{Connection, ErrorCode, Row, ToSql, params};

use crate::codec::{self, signed, tail, tail_of, unsigned};
use crate::executors;
use crate::fault::Fault;
use crate::record::{self, BY_ID, Start, State, missing};
use crate::search::query::Words;
use crate::search::words;
use crate::threads;
use crate::writer::Scope;

const COLUMNS: &str =
    "run.row, run.id, run.name, run.start, run.state, run.updated_at, run.cancel IS NOT NULL AS canceling";

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
        canceling: row.get("canceling")?,
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

/// Records a run: this executor's, or nobody's as long as it is queued.
pub(crate) fn start(scope: &mut Scope<'_>, new: &NewRun) -> Result<(), Fault> {
    let thread = threads::row_of(scope.connection, new.thread)?;
    let epoch = match new.status {
        RunStatus::Running | RunStatus::Waiting(_) => Some(executors::enlist(scope)?),
        RunStatus::Queued => {
            scope.news.stirred = true;
            None
        }
        RunStatus::Succeeded | RunStatus::Failed | RunStatus::Canceled | RunStatus::Lost => None,
    };
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
    let state = State::new(new.status);
    let root = new.terms.root.filter(|root| *root != new.id);
    let written = scope
        .connection
        .prepare_cached(
            "INSERT INTO run (id, tail, thread, parent, root, name, plan_step, status, epoch, start, state, updated_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        )?
        .execute(params![
            new.id.0.as_bytes(),
            tail(new.id.0),
            thread,
            new.parent.map(|parent| *parent.0.as_bytes()),
            root.map(|root| *root.0.as_bytes()),
            new.name.as_ref().map(Name::as_str),
            new.terms.plan_step,
            state.status.word(),
            epoch.map(signed),
            to_dag_cbor(&start)?,
            to_dag_cbor(&state)?,
            new.at.0,
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

fn first(connection: &Connection, condition: &str, values: &[&dyn ToSql]) -> Result<Option<Run>, Fault> {
    let sql = format!("SELECT {COLUMNS} FROM run WHERE {condition} LIMIT 1");
    let mut statement = connection.prepare_cached(&sql)?;
    statement.query_and_then(values, from_row)?.next().transpose()
}

/// Reads a run by id.
pub(crate) fn get(connection: &Connection, id: RunId) -> Result<Run, Fault> {
    let found = first(connection, BY_ID, &[&tail(id.0), id.0.as_bytes()])?;
    found.ok_or_else(|| missing(&id.to_string()).into())
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

/// The query of a run's children.
pub(crate) fn children_sql() -> String {
    format!("SELECT {COLUMNS} FROM run WHERE parent = ?1 ORDER BY row LIMIT ?2")
}

/// Lists a run's children, oldest first.
pub(crate) fn children(connection: &Connection, parent: RunId, limit: usize) -> Result<Vec<Run>, Fault> {
    let mut statement = connection.prepare_cached(&children_sql())?;
    statement
        .query_and_then(params![parent.0.as_bytes(), codec::limit(limit)], from_row)?
        .collect()
}

/// The queries of how many runs have not ended: of all, and of those that have a root above them.
pub(crate) const COUNT_SQL: [&str; 2] = [
    "SELECT status, count(*) FROM run
     WHERE status IN ('queued', 'running', 'waiting') AND status <> 'succeeded' GROUP BY status",
    "SELECT status, 1 FROM run WHERE root = ?1 AND status IN ('queued', 'running', 'waiting')",
];

/// Counts the runs that have not ended, of all trees or of one.
pub(crate) fn counts(connection: &Connection, root: Option<RunId>) -> Result<RunCounts, Fault> {
    let mut counts = RunCounts::default();
    let mut add = |status: &str, number: i64| {
        let of_status = match status {
            "queued" => &mut counts.queued,
            "running" => &mut counts.running,
            "waiting" => &mut counts.waiting,
            _ => return,
        };
        *of_status += unsigned(number);
    };
    let [all, below] = COUNT_SQL;
    let mut statement = connection.prepare_cached(if root.is_some() { below } else { all })?;
    let mut rows = match root {
        Some(root) => statement.query([root.0.as_bytes()])?,
        None => statement.query([])?,
    };
    while let Some(row) = rows.next()? {
        add(row.get_ref(0)?.as_str().unwrap_or_default(), row.get(1)?);
    }
    if let Some(root) = root {
        add(record::get(connection, root)?.status().word(), 1);
    }
    Ok(counts)
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
        Some(id) => record::row_of(connection, id)?,
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
