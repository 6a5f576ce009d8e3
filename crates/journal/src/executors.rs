//! Executors: who has runs, who lives, and what becomes of the runs of those that are gone.

use pentad_model::event::NewEvent;
use pentad_model::run::{OnLoss, RunError, RunStatus};
use pentad_model::{Actor, EventBody, RunId, ThreadId, Timestamp};
use pentad_program::{Executor, Retired, Settled, StoreError};
use rusqlite::{Connection, params};

use crate::cancel;
use crate::codec::{self, signed, unsigned};
use crate::events;
use crate::fault::Fault;
use crate::options::Owner;
use crate::record::{self, Record};
use crate::settle::{self, End};
use crate::threads;
use crate::waits;
use crate::writer::Scope;

/// Which executor a journal is.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Standing {
    /// Its epoch, once it has had a run.
    pub(crate) epoch: Option<u64>,
    /// Whether an epoch was taken from it and it has not been told.
    pub(crate) displaced: bool,
}

fn is_listed(connection: &Connection, epoch: u64) -> Result<bool, Fault> {
    Ok(connection
        .prepare_cached("SELECT 1 FROM executor WHERE epoch = ?1")?
        .exists([signed(epoch)])?)
}

/// Returns the epoch under which this journal starts a run, a new one where it has none or was retired.
pub(crate) fn enlist(scope: &mut Scope<'_>) -> Result<u64, Fault> {
    if let Some(epoch) = scope.news.standing.epoch {
        if scope.listed || is_listed(scope.connection, epoch)? {
            scope.listed = true;
            return Ok(epoch);
        }
        scope.news.standing.displaced = true;
    }
    scope
        .connection
        .prepare_cached("INSERT INTO executor (pid, born, boot) VALUES (?1, ?2, ?3)")?
        .execute(params![
            scope.owner.pid,
            signed(scope.owner.born),
            scope.owner.boot
        ])?;
    let epoch = unsigned(scope.connection.last_insert_rowid());
    scope.news.standing.epoch = Some(epoch);
    scope.listed = true;
    Ok(epoch)
}

/// Returns the epoch under which this journal takes over a run; one that was retired must learn of that first.
pub(crate) fn claiming(scope: &mut Scope<'_>) -> Result<u64, Fault> {
    let standing = scope.news.standing;
    if let Some(epoch) = standing.epoch
        && (standing.displaced || !is_listed(scope.connection, epoch)?)
    {
        return Err(displaced().into());
    }
    enlist(scope)
}

/// Returns what an executor is told that was retired.
pub(crate) fn displaced() -> StoreError {
    StoreError::Conflict(
        "others have taken over the runs of this process, which they believed to be gone; drop what it has in \
         memory, then claim again"
            .to_owned(),
    )
}

/// Counts a sign of life; false, once, when others have taken over.
pub(crate) fn beat(scope: &mut Scope<'_>) -> Result<bool, Fault> {
    if std::mem::take(&mut scope.news.standing.displaced) {
        return Ok(false);
    }
    let Some(epoch) = scope.news.standing.epoch else {
        return Ok(true);
    };
    let beaten = scope
        .connection
        .prepare_cached("UPDATE executor SET beats = beats + 1 WHERE epoch = ?1")?
        .execute([signed(epoch)])?;
    if beaten == 0 {
        scope.news.standing = Standing::default();
    }
    Ok(beaten > 0)
}

/// Counts that executors may have something to do; returns the count.
pub(crate) fn count_stir(connection: &Connection) -> Result<u64, Fault> {
    let stirs = connection
        .prepare_cached("UPDATE progress SET stirs = stirs + 1 RETURNING stirs")?
        .query_one([], |row| row.get(0))?;
    Ok(unsigned(stirs))
}

/// Returns how often executors got something to do.
pub(crate) fn stirs(connection: &Connection) -> Result<u64, Fault> {
    let stirs = connection
        .prepare_cached("SELECT stirs FROM progress")?
        .query_one([], |row| row.get(0))?;
    Ok(unsigned(stirs))
}

/// Takes an executor off the list that leaves no run behind.
pub(crate) fn leave(connection: &Connection, epoch: u64) -> Result<(), Fault> {
    connection.execute(
        "DELETE FROM executor WHERE epoch = ?1
           AND NOT EXISTS (SELECT 1 FROM run
                           WHERE status = 'running' AND status <> 'succeeded' AND +run.epoch = ?1)
           AND NOT EXISTS (SELECT 1 FROM run WHERE status = 'waiting' AND run.epoch = ?1)",
        [signed(epoch)],
    )?;
    Ok(())
}

/// Lists the executors, each with its owner.
pub(crate) fn list(connection: &Connection) -> Result<Vec<(u64, u64, Owner)>, Fault> {
    let mut statement =
        connection.prepare_cached("SELECT epoch, beats, pid, born, boot FROM executor ORDER BY epoch")?;
    statement
        .query_and_then([], |row| {
            let owner = Owner {
                pid: row.get("pid")?,
                born: unsigned(row.get("born")?),
                boot: row.get("boot")?,
            };
            Ok((unsigned(row.get("epoch")?), unsigned(row.get("beats")?), owner))
        })?
        .collect()
}

/// Lists the executors as others see them.
pub(crate) fn seen(connection: &Connection, own: u64) -> Result<Vec<Executor>, Fault> {
    let listed = list(connection)?.into_iter();
    Ok(listed
        .map(|(epoch, beats, owner)| Executor {
            epoch,
            pid: owner.pid,
            beats,
            gone: epoch != own && !owner.is_alive(),
            own: epoch == own,
        })
        .collect())
}

/// The queries of an executor's running and waiting runs.
pub(crate) const HELD_SQL: [&str; 2] = [
    "SELECT id FROM run WHERE status = 'running' AND status <> 'succeeded' AND +epoch = ?1 ORDER BY row",
    "SELECT id FROM run WHERE epoch = ?1 AND status = 'waiting' ORDER BY row",
];

/// Takes over from executors, never from the own one.
pub(crate) fn retire(scope: &mut Scope<'_>, epochs: &[u64], at: Timestamp) -> Result<Retired, Fault> {
    let mut retired = Retired::default();
    for epoch in epochs {
        if scope.news.standing.epoch == Some(*epoch) {
            continue;
        }
        let listed = scope
            .connection
            .prepare_cached("DELETE FROM executor WHERE epoch = ?1")?
            .execute([signed(*epoch)])?;
        if listed == 0 {
            continue;
        }
        let [running, waiting] = HELD_SQL;
        for id in held(scope.connection, running, *epoch)? {
            interrupt(scope, id, at, &mut retired)?;
        }
        for id in held(scope.connection, waiting, *epoch)? {
            release(scope, id, at, &mut retired)?;
        }
    }
    Ok(retired)
}

fn held(connection: &Connection, sql: &str, epoch: u64) -> Result<Vec<RunId>, Fault> {
    let mut statement = connection.prepare_cached(sql)?;
    statement
        .query_and_then([signed(epoch)], |row| Ok(RunId(codec::id(row, "id")?)))?
        .collect()
}

/// Queues or settles a run that was being executed.
fn interrupt(scope: &mut Scope<'_>, id: RunId, at: Timestamp, retired: &mut Retired) -> Result<(), Fault> {
    // What was settled before may have led to the end of this one.
    let Some(mut run) = record::find(scope.connection, id)?.filter(|run| run.status() == RunStatus::Running)
    else {
        return Ok(());
    };
    let thread = threads::id_of(scope.connection, run.thread)?;
    let start = record::start_of(scope.connection, run.row)?;
    if start.terms.on_loss == OnLoss::Resume {
        if run.cancel.is_some() && !cancel::has_live_below(scope.connection, id)? {
            return abandon(scope, run, at, retired);
        }
        run.state.status = RunStatus::Queued;
        run.epoch = None;
        record::store(scope, &run, at)?;
        let status = EventBody::RunStatus {
            status: RunStatus::Queued,
            error: None,
        };
        let text = format!("Run {id} was interrupted: its process ended. It goes on where its journal ends.");
        events::append(scope, &noted(thread, id, at, status, text))?;
        retired.queued.push(id);
        return Ok(());
    }
    let error = RunError {
        code: "lost".to_owned(),
        message: "The process that ran this is gone, and nobody knows how far it came.".to_owned(),
    };
    let status = EventBody::RunStatus {
        status: RunStatus::Lost,
        error: Some(error.clone()),
    };
    let text = format!("Run {id} was interrupted: its process ended before it did.");
    let end = End {
        error: Some(&error),
        events: &noted(thread, id, at, status, text),
        ..End::of(RunStatus::Lost, at)
    };
    let mut settled = Settled::default();
    settle::finish(scope, run, &end, &mut settled)?;
    retired.lost.push(id);
    add(retired, settled);
    Ok(())
}

/// Leaves a waiting run to whoever its answer comes to.
fn release(scope: &mut Scope<'_>, id: RunId, at: Timestamp, retired: &mut Retired) -> Result<(), Fault> {
    let waits = |run: &Record| matches!(run.status(), RunStatus::Waiting(_));
    let Some(mut run) = record::find(scope.connection, id)?.filter(waits) else {
        return Ok(());
    };
    run.epoch = None;
    if run.cancel.is_some() {
        if !cancel::has_live_below(scope.connection, id)? {
            return abandon(scope, run, at, retired);
        }
    } else if waits::has_answer(scope.connection, run.row)? {
        run.state.status = RunStatus::Queued;
        retired.queued.push(id);
    }
    record::store(scope, &run, at)
}

/// Settles a run as canceled that somebody asked to end and that nobody executes any more.
fn abandon(scope: &mut Scope<'_>, run: Record, at: Timestamp, retired: &mut Retired) -> Result<(), Fault> {
    let mut settled = Settled::default();
    retired.canceled.push(run.id);
    cancel::end(scope, run, at, &mut settled)?;
    add(retired, settled);
    Ok(())
}

fn add(retired: &mut Retired, settled: Settled) {
    retired.canceled.extend(settled.canceled);
    retired.queued.retain(|id| !retired.canceled.contains(id));
}

fn noted(thread: ThreadId, id: RunId, at: Timestamp, status: EventBody, text: String) -> [NewEvent; 2] {
    [status, EventBody::Note { text }].map(|body| NewEvent {
        thread,
        at,
        caller: Actor::System.into(),
        call: None,
        run: Some(id),
        body,
    })
}

/// Returns the epochs of those executors, without the own one, whose owner does not live.
pub(crate) fn gone(
    connection: &Connection,
    own: &Owner,
    is_alive: &dyn Fn(&Owner) -> bool,
) -> Result<Vec<u64>, Fault> {
    let listed = list(connection)?.into_iter();
    Ok(listed
        .filter(|(_, _, owner)| owner != own && !is_alive(owner))
        .map(|(epoch, ..)| epoch)
        .collect())
}
