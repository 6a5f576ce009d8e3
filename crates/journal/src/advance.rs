//! What an executor does with its runs: claiming, advancing, taking answers, parking.

use pentad_model::run::{Run, RunStatus};
use pentad_model::step::Step;
use pentad_model::{RunId, Timestamp};
use pentad_program::{Advance, Advanced, StoreError};
use rusqlite::{Connection, params};

use crate::codec::{self, signed};
use crate::events;
use crate::executors;
use crate::fault::Fault;
use crate::record::{self, Record};
use crate::runs;
use crate::steps::{self, Bound, Last};
use crate::waits;
use crate::writer::Scope;

/// Returns a run that this executor has and the end of its chain, which must be the one that the executor knows.
pub(crate) fn own(scope: &Scope<'_>, id: RunId, after: u64) -> Result<(Record, Last), Fault> {
    let run = record::get(scope.connection, id)?.live()?;
    if run.epoch.is_none() || run.epoch != scope.news.standing.epoch {
        return Err(not_own(id).into());
    }
    let last = steps::last(scope.connection, run.row)?;
    if last.seq != after {
        let text = format!(
            "the last step of run {id} is {}, not {after}; read its steps again before it goes on",
            last.seq
        );
        return Err(StoreError::Conflict(text).into());
    }
    Ok((run, last))
}

/// Returns what an executor is told about a run that it does not have.
pub(crate) fn not_own(id: RunId) -> StoreError {
    StoreError::Conflict(format!(
        "run {id} is not this executor's any more; drop what is in memory of it"
    ))
}

/// The query of the runs that may be claimed, oldest first. What was asked to end is not begun again.
pub(crate) const QUEUED_SQL: &str = "SELECT id FROM run
     WHERE status = 'queued' AND status <> 'succeeded' AND +cancel IS NULL ORDER BY row LIMIT ?1";

/// Lists the runs that may be claimed.
pub(crate) fn queued(connection: &Connection, limit: usize) -> Result<Vec<RunId>, Fault> {
    let mut statement = connection.prepare_cached(QUEUED_SQL)?;
    statement
        .query_and_then([codec::limit(limit)], |row| Ok(RunId(codec::id(row, "id")?)))?
        .collect()
}

/// Makes queued runs this executor's.
pub(crate) fn claim(scope: &mut Scope<'_>, limit: usize, at: Timestamp) -> Result<Vec<Run>, Fault> {
    let epoch = executors::claiming(scope)?;
    let mut claimed = Vec::new();
    for id in queued(scope.connection, limit)? {
        let mut run = record::get(scope.connection, id)?;
        run.state.status = RunStatus::Running;
        run.epoch = Some(epoch);
        record::store(scope, &run, at)?;
        claimed.push(runs::get(scope.connection, id)?);
    }
    Ok(claimed)
}

/// Appends what one stretch of a run's execution brought.
pub(crate) fn advance(scope: &mut Scope<'_>, advance: &Advance) -> Result<Advanced, Fault> {
    let (mut run, mut last) = own(scope, advance.run, advance.after)?;
    waits::drop_at(scope, run.row, &advance.dropped, advance.at)?;
    let new = advance.steps.iter().cloned();
    steps::append(scope, &run, &mut last, new, Bound::Step)?;
    for child in &advance.children {
        runs::start(scope, child)?;
    }
    for wait in &advance.waits {
        waits::register(scope, &run, wait, advance.at)?;
    }
    if advance.status.is_some() || advance.usage.is_some() {
        if let Some(status) = advance.status {
            enter(&mut run, status)?;
        }
        if let Some(usage) = advance.usage {
            run.state.usage = usage;
        }
        record::store(scope, &run, advance.at)?;
    }
    events::append(scope, &advance.events)?;
    Ok(Advanced {
        last: last.seq,
        answered: waits::has_answer(scope.connection, run.row)?,
    })
}

fn enter(run: &mut Record, status: RunStatus) -> Result<(), Fault> {
    let conflict = |text: String| Err(StoreError::Conflict(text).into());
    match status {
        RunStatus::Running | RunStatus::Waiting(_) => {}
        RunStatus::Queued if run.cancel.is_some() => {
            return conflict(format!(
                "run {} was asked to end and is not begun again; settle it as canceled",
                run.id
            ));
        }
        RunStatus::Queued => run.epoch = None,
        RunStatus::Succeeded | RunStatus::Failed | RunStatus::Canceled | RunStatus::Lost => {
            return conflict(format!(
                "'{}' is the end of run {}; settle it instead of advancing it",
                status.word(),
                run.id
            ));
        }
    }
    run.state.status = status;
    Ok(())
}

/// Moves a run's answers into its steps.
pub(crate) fn take(scope: &mut Scope<'_>, id: RunId, after: u64, at: Timestamp) -> Result<Vec<Step>, Fault> {
    let (mut run, mut last) = own(scope, id, after)?;
    let answers = waits::collect(scope, run.row, at)?;
    if answers.is_empty() {
        return Ok(Vec::new());
    }
    let taken = steps::append(scope, &run, &mut last, answers, Bound::Accepted)?;
    if run.status() != RunStatus::Running {
        run.state.status = RunStatus::Running;
        record::store(scope, &run, at)?;
    }
    Ok(taken)
}

/// Gives up a waiting run unless there is something to do for it.
pub(crate) fn park(scope: &mut Scope<'_>, id: RunId, at: Timestamp) -> Result<bool, Fault> {
    let after = record::row_of(scope.connection, id)?;
    let after = steps::last(scope.connection, after)?.seq;
    let (mut run, _) = own(scope, id, after)?;
    if !matches!(run.status(), RunStatus::Waiting(_)) {
        let text = format!(
            "run {id} is '{}'; only a run that waits is given up",
            run.status().word()
        );
        return Err(StoreError::Conflict(text).into());
    }
    if run.cancel.is_some() || waits::has_answer(scope.connection, run.row)? {
        return Ok(false);
    }
    run.epoch = None;
    record::store(scope, &run, at)?;
    Ok(true)
}

/// The queries of an executor's runs that have something to take, or are asked to end. What has an answer comes first:
/// it is no longer listed when the answer is taken.
pub(crate) const MAIL_SQL: [&str; 3] = [
    "SELECT id FROM run INDEXED BY run_held WHERE epoch = ?1 AND status = 'waiting'
       AND EXISTS (SELECT 1 FROM wait WHERE wait.run = run.row AND wait.answered IS NOT NULL) LIMIT ?2",
    "SELECT id FROM run WHERE status = 'running' AND status <> 'succeeded' AND +epoch = ?1
       AND EXISTS (SELECT 1 FROM wait WHERE wait.run = run.row AND wait.answered IS NOT NULL) LIMIT ?2",
    "SELECT id FROM run INDEXED BY run_cancel WHERE epoch = ?1 AND cancel IS NOT NULL LIMIT ?2",
];

/// Lists an executor's runs that have something to take, or are asked to end.
pub(crate) fn mail(connection: &Connection, epoch: u64, limit: usize) -> Result<Vec<RunId>, Fault> {
    let mut found: Vec<RunId> = Vec::new();
    for sql in MAIL_SQL {
        let mut statement = connection.prepare_cached(sql)?;
        let mut rows = statement.query(params![signed(epoch), codec::limit(limit)])?;
        while let Some(row) = rows.next()? {
            let id = RunId(codec::id(row, "id")?);
            if found.len() < limit && !found.contains(&id) {
                found.push(id);
            }
        }
    }
    Ok(found)
}
