//! Asking runs to end: what nobody executes ends at once, from the leaves up; what is being executed is marked.

use std::collections::HashSet;

use pentad_model::event::NewEvent;
use pentad_model::run::{RunError, RunStatus};
use pentad_model::{Caller, EventBody, RunId, Timestamp, text};
use pentad_program::{Canceling, Settled, StoreError};
use rusqlite::{Connection, params};

use crate::codec::{self, tail};
use crate::fault::Fault;
use crate::record::{self, Mark, Record};
use crate::settle::{self, End};
use crate::threads;
use crate::writer::Scope;

/// Longest reason that is kept, in bytes.
const MAX_REASON_BYTES: usize = 1_000;

/// Asks a run and everything below it to end.
pub(crate) fn ask(
    scope: &mut Scope<'_>,
    id: RunId,
    by: &Caller,
    reason: &str,
    at: Timestamp,
) -> Result<Canceling, Fault> {
    let run = record::get(scope.connection, id)?;
    let mark = Mark {
        by: by.clone(),
        reason: text::excerpt(reason, MAX_REASON_BYTES).to_string(),
    };
    let mut asked = Settled::default();
    below(scope, id, &mark, at, &mut asked)?;
    if asked.canceled.is_empty() && asked.canceling.is_empty() {
        let text = format!(
            "run {id} has ended ('{}'), and so has everything below it; there is nothing to cancel",
            run.status().word()
        );
        return Err(StoreError::Conflict(text).into());
    }
    settle::climb(scope, run.parent, at, &mut asked)?;
    Ok(Canceling {
        canceled: asked.canceled,
        canceling: asked.canceling,
    })
}

/// The query of a run and all below it, the deepest first.
pub(crate) const BELOW_SQL: &str = "WITH RECURSIVE below (id, parent, status, depth) AS (
        SELECT id, parent, status, 0 FROM run WHERE tail = ?1 AND id = ?2
        UNION ALL
        SELECT run.id, run.parent, run.status, below.depth + 1
        FROM below CROSS JOIN run ON run.parent = below.id WHERE below.depth < 65536)
     SELECT id, parent, status FROM below ORDER BY depth DESC";

struct Node {
    id: RunId,
    parent: Option<RunId>,
    live: bool,
}

fn tree(connection: &Connection, root: RunId) -> Result<Vec<Node>, Fault> {
    let mut statement = connection.prepare_cached(BELOW_SQL)?;
    statement
        .query_and_then(params![tail(root.0), root.0.as_bytes()], |row| {
            let status: String = row.get("status")?;
            Ok(Node {
                id: RunId(codec::id(row, "id")?),
                parent: codec::optional_id(row, "parent")?.map(RunId),
                live: matches!(status.as_str(), "queued" | "running" | "waiting"),
            })
        })?
        .collect()
}

/// The query of whether anything below a run has not ended.
pub(crate) const LIVE_BELOW_SQL: &str = "WITH RECURSIVE below (id, live) AS (
        SELECT id, status IN ('queued', 'running', 'waiting') FROM run WHERE parent = ?1
        UNION
        SELECT run.id, run.status IN ('queued', 'running', 'waiting')
        FROM below CROSS JOIN run ON run.parent = below.id)
     SELECT EXISTS (SELECT 1 FROM below WHERE live)";

/// Tells whether anything below a run has not ended.
pub(crate) fn has_live_below(connection: &Connection, id: RunId) -> Result<bool, Fault> {
    Ok(connection
        .prepare_cached(LIVE_BELOW_SQL)?
        .query_one([id.0.as_bytes()], |row| row.get(0))?)
}

/// Asks a run and everything below it to end, without looking above it.
pub(crate) fn below(
    scope: &mut Scope<'_>,
    root: RunId,
    mark: &Mark,
    at: Timestamp,
    asked: &mut Settled,
) -> Result<(), Fault> {
    scope.news.stirred = true;
    let mut keeping: HashSet<RunId> = HashSet::new();
    for node in tree(scope.connection, root)? {
        let mut alive = keeping.contains(&node.id);
        if node.live {
            // What ended below it may have changed it.
            let mut run = record::get(scope.connection, node.id)?;
            if run.cancel.is_none() {
                run.cancel = Some(mark.clone());
            }
            if alive || run.status() == RunStatus::Running {
                // One that waits is nobody's from here on: the last run below it ends it.
                if run.status() != RunStatus::Running {
                    run.epoch = None;
                }
                record::store(scope, &run, at)?;
                asked.canceling.push(node.id);
                alive = true;
            } else {
                asked.canceled.push(node.id);
                end_one(scope, run, at, asked)?;
            }
        }
        if alive && let Some(parent) = node.parent {
            keeping.insert(parent);
        }
    }
    Ok(())
}

/// Ends a run as canceled that was asked to end, with whatever its end leads to.
pub(crate) fn end(
    scope: &mut Scope<'_>,
    run: Record,
    at: Timestamp,
    settled: &mut Settled,
) -> Result<(), Fault> {
    let (error, event) = told(scope, &run, at)?;
    let end = End {
        error: Some(&error),
        events: &[event],
        ..End::of(RunStatus::Canceled, at)
    };
    settle::finish(scope, run, &end, settled)
}

/// Ends one run as canceled that was asked to end, without looking above or below it.
pub(crate) fn end_one(
    scope: &mut Scope<'_>,
    run: Record,
    at: Timestamp,
    settled: &mut Settled,
) -> Result<(), Fault> {
    let (error, event) = told(scope, &run, at)?;
    let end = End {
        error: Some(&error),
        events: &[event],
        ..End::of(RunStatus::Canceled, at)
    };
    settle::record_end(scope, run, &end, settled)
}

/// Returns what the record and the thread of a canceled run say.
fn told(scope: &Scope<'_>, run: &Record, at: Timestamp) -> Result<(RunError, NewEvent), Fault> {
    let (by, message) = match &run.cancel {
        Some(mark) if mark.reason.is_empty() => (mark.by.clone(), format!("Canceled by {}.", mark.by.actor)),
        Some(mark) => (
            mark.by.clone(),
            format!("Canceled by {}: {}", mark.by.actor, mark.reason),
        ),
        None => (pentad_model::Actor::System.into(), "Canceled.".to_owned()),
    };
    let error = RunError {
        code: "canceled".to_owned(),
        message,
    };
    let event = NewEvent {
        thread: threads::id_of(scope.connection, run.thread)?,
        at,
        caller: by,
        call: None,
        run: Some(run.id),
        body: EventBody::RunStatus {
            status: RunStatus::Canceled,
            error: Some(error.clone()),
        },
    };
    Ok((error, event))
}
