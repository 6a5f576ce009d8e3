//! Waits: what runs wait for, and the answers that nobody has taken yet.

use pentad_model::canonical::{from_dag_cbor, to_dag_cbor};
use pentad_model::run::RunStatus;
use pentad_model::step::{Completion, NewStep, StepBody};
use pentad_model::{ApprovalId, Caller, RunId, Timestamp};
use pentad_program::{ChildEnd, StoreError, Wait, WaitFor};
use rusqlite::{Connection, ErrorCode, OptionalExtension, params};
use serde_json::{Value, json};

use crate::approvals;
use crate::codec;
use crate::fault::Fault;
use crate::kept;
use crate::record::{self, Record};
use crate::steps::MAX_STEP_BYTES;
use crate::writer::Scope;

/// Largest answer from outside: the step that gives it to the run is a little larger.
pub(crate) const MAX_ANSWER_BYTES: usize = MAX_STEP_BYTES - 1024;

/// Waits that one transaction answers because they are due.
const FIRE_STRETCH: i64 = 500;

/// Returns the key by which whoever has an answer finds the wait.
pub(crate) fn key_of(what: &WaitFor) -> Option<String> {
    match what {
        WaitFor::Event { name } => Some(event_key(name)),
        WaitFor::Child { run } => Some(child_key(*run)),
        WaitFor::Approval { approval } => Some(format!("approval:{approval}")),
        WaitFor::Timer | WaitFor::Budget | WaitFor::Env { .. } => None,
    }
}

/// Returns the key of a wait for an event.
pub(crate) fn event_key(name: &str) -> String {
    format!("event:{name}")
}

fn child_key(run: RunId) -> String {
    format!("child:{run}")
}

/// Returns an event as the wait for it is answered; a limit that passes answers with null.
pub(crate) fn event_answer(value: &Value) -> Completion {
    Completion::Done(json!({ "event": value }))
}

/// Registers a wait, and answers it if it can be answered already.
pub(crate) fn register(scope: &mut Scope<'_>, run: &Record, wait: &Wait, at: Timestamp) -> Result<(), Fault> {
    if matches!(wait.what, WaitFor::Timer) && wait.due.is_none() {
        let text = format!(
            "the timer at place {} of run {} has no time; say when it is due",
            wait.position, run.id
        );
        return Err(StoreError::Conflict(text).into());
    }
    // A child that goes on as another run is waited for under the other's id.
    let what = match &wait.what {
        WaitFor::Child { run } => WaitFor::Child {
            run: newest(scope.connection, *run)?.id,
        },
        other => other.clone(),
    };
    let written = scope
        .connection
        .prepare_cached("INSERT INTO wait (run, position, what, key, due) VALUES (?1, ?2, ?3, ?4, ?5)")?
        .execute(params![
            run.row,
            wait.position,
            to_dag_cbor(&what)?,
            key_of(&what),
            wait.due.map(|due| due.0),
        ]);
    match written {
        Err(e) if e.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
            let text = format!("run {} waits at place {} already", run.id, wait.position);
            return Err(StoreError::Conflict(text).into());
        }
        other => other?,
    };
    let row = scope.connection.last_insert_rowid();
    scope.news.stirred |= wait.due.is_some();
    if let Some((answer, by)) = ready(scope, run, &what)? {
        put(scope, (row, run.row), &answer, by.as_ref(), at)?;
    }
    Ok(())
}

/// Returns the last of the runs that go on one after another in a run's place.
fn newest(connection: &Connection, run: RunId) -> Result<Record, Fault> {
    let mut found = record::get(connection, run)?;
    while let Some(next) = found.state.continued {
        found = record::get(connection, next)?;
    }
    Ok(found)
}

/// Returns the answer that is there before the wait is.
fn ready(
    scope: &mut Scope<'_>,
    run: &Record,
    what: &WaitFor,
) -> Result<Option<(Completion, Option<Caller>)>, Fault> {
    Ok(match what {
        WaitFor::Timer | WaitFor::Budget | WaitFor::Env { .. } => None,
        WaitFor::Event { name } => {
            kept::take(scope, run.row, name)?.map(|(value, by)| (event_answer(&value), Some(by)))
        }
        WaitFor::Child { run } => {
            let child = record::get(scope.connection, *run)?;
            if child.status().is_settled() {
                Some((end_of(&child)?, None))
            } else {
                None
            }
        }
        WaitFor::Approval { approval } => {
            let found = approvals::get(scope.connection, *approval)?;
            let answered = found.state != pentad_model::approval::ApprovalState::Open;
            answered.then(|| {
                let by = found.answered_by.clone().map(Caller::from);
                (approval_answer(found.state.word()), by)
            })
        }
    })
}

fn approval_answer(word: &str) -> Completion {
    Completion::Done(json!({ "state": word }))
}

/// Returns how a run ended, as its parent is told.
fn end_of(child: &Record) -> Result<Completion, Fault> {
    let end = ChildEnd {
        run: child.id,
        status: child.status(),
        output: child.state.output.clone(),
        error: child.state.error.clone(),
    };
    let value = serde_json::to_value(end)
        .map_err(|e| StoreError::Corrupt(format!("the end of run {} is no JSON: {e}", child.id)))?;
    Ok(Completion::Done(value))
}

/// Puts an answer at an open wait, given by its row and its run's; queues the run if nobody has it.
pub(crate) fn put(
    scope: &mut Scope<'_>,
    (wait, run): (i64, i64),
    answer: &Completion,
    by: Option<&Caller>,
    at: Timestamp,
) -> Result<RunId, Fault> {
    scope
        .connection
        .prepare_cached(
            "UPDATE wait SET answer = ?3, by = ?4,
                    answered = (SELECT coalesce(max(other.answered), 0) + 1 FROM wait AS other
                                WHERE other.run = ?2 AND other.answered IS NOT NULL)
             WHERE row = ?1",
        )?
        .execute(params![
            wait,
            run,
            to_dag_cbor(answer)?,
            by.map(to_dag_cbor).transpose()?
        ])?;
    scope.news.stirred = true;
    let id = record::id_of(scope.connection, run)?;
    wake(scope, id, at)?;
    Ok(id)
}

/// Queues a waiting run that nobody has. One that was asked to end stays: it ends with the last run below it.
fn wake(scope: &mut Scope<'_>, id: RunId, at: Timestamp) -> Result<(), Fault> {
    let mut run = record::get(scope.connection, id)?;
    if matches!(run.status(), RunStatus::Waiting(_)) && run.epoch.is_none() && run.cancel.is_none() {
        run.state.status = RunStatus::Queued;
        record::store(scope, &run, at)?;
    }
    Ok(())
}

/// The query of the open waits that something answers.
pub(crate) const KEY_SQL: &str =
    "SELECT row, run FROM wait WHERE key = ?1 AND answered IS NULL ORDER BY run, row";

fn with_key(connection: &Connection, key: &str) -> Result<Vec<(i64, i64)>, Fault> {
    let mut statement = connection.prepare_cached(KEY_SQL)?;
    let found = statement.query_map([key], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// Tells everybody who waits for a run how it ended; returns who waited.
pub(crate) fn tell_end(scope: &mut Scope<'_>, child: &Record, at: Timestamp) -> Result<Vec<RunId>, Fault> {
    let waiting = with_key(scope.connection, &child_key(child.id))?;
    if waiting.is_empty() {
        return Ok(Vec::new());
    }
    let answer = end_of(child)?;
    waiting
        .into_iter()
        .map(|wait| put(scope, wait, &answer, None, at))
        .collect()
}

/// Makes the waits for a run waits for the run that goes on in its place.
pub(crate) fn follow(scope: &mut Scope<'_>, old: RunId, new: RunId) -> Result<(), Fault> {
    let what = WaitFor::Child { run: new };
    scope
        .connection
        .prepare_cached("UPDATE wait SET key = ?2, what = ?3 WHERE key = ?1 AND answered IS NULL")?
        .execute(params![child_key(old), child_key(new), to_dag_cbor(&what)?])?;
    Ok(())
}

/// Tells everybody who waits for an approval what the answer is.
pub(crate) fn tell_approval(
    scope: &mut Scope<'_>,
    approval: ApprovalId,
    word: &str,
    by: &Caller,
    at: Timestamp,
) -> Result<(), Fault> {
    let key = key_of(&WaitFor::Approval { approval }).unwrap_or_default();
    for wait in with_key(scope.connection, &key)? {
        put(scope, wait, &approval_answer(word), Some(by), at)?;
    }
    Ok(())
}

/// Answers one wait of a run.
pub(crate) fn answer(
    scope: &mut Scope<'_>,
    run: RunId,
    position: u32,
    answer: &Completion,
    by: &Caller,
    at: Timestamp,
) -> Result<(), Fault> {
    let bytes = to_dag_cbor(answer)?.len();
    if bytes > MAX_ANSWER_BYTES {
        let text = format!(
            "an answer of {bytes} bytes is larger than the {MAX_ANSWER_BYTES} bytes that a run takes; put its payload \
             into a blob"
        );
        return Err(StoreError::Conflict(text).into());
    }
    let row = record::row_of(scope.connection, run)?;
    let found: Option<(i64, bool)> = scope
        .connection
        .prepare_cached("SELECT row, answered IS NOT NULL FROM wait WHERE run = ?1 AND position = ?2")?
        .query_one(params![row, position], |found| Ok((found.get(0)?, found.get(1)?)))
        .optional()?;
    match found {
        Some((wait, false)) => put(scope, (wait, row), answer, Some(by), at).map(|_| ()),
        Some((_, true)) => Err(StoreError::Conflict(format!(
            "what run {run} waits for at place {position} is answered already"
        ))
        .into()),
        None => Err(StoreError::Conflict(format!(
            "run {run} waits for nothing at place {position}; read the run to see what it waits for"
        ))
        .into()),
    }
}

/// The queries of what is due, and of when the next wait is.
pub(crate) const DUE_SQL: &str =
    "SELECT row, run FROM wait WHERE due <= ?1 AND answered IS NULL ORDER BY due, row LIMIT ?2";
pub(crate) const NEXT_SQL: &str =
    "SELECT due FROM wait WHERE due IS NOT NULL AND answered IS NULL ORDER BY due LIMIT 1";

/// Returns when the next wait is due.
pub(crate) fn next_due(connection: &Connection) -> Result<Option<Timestamp>, Fault> {
    let due = connection
        .prepare_cached(NEXT_SQL)?
        .query_one([], |row| row.get(0))
        .optional()?;
    Ok(due.map(Timestamp))
}

/// Answers waits that are due, the earliest first, so many that others have their turn; returns when the next one is.
pub(crate) fn fire(scope: &mut Scope<'_>, now: Timestamp) -> Result<Option<Timestamp>, Fault> {
    let due: Vec<(i64, i64)> = {
        let mut statement = scope.connection.prepare_cached(DUE_SQL)?;
        let found = statement.query_map([now.0, FIRE_STRETCH], |row| Ok((row.get(0)?, row.get(1)?)))?;
        found.collect::<Result<_, _>>()?
    };
    for wait in due {
        put(scope, wait, &Completion::Done(Value::Null), None, now)?;
    }
    next_due(scope.connection)
}

/// Tells whether a run has an answer to take.
pub(crate) fn has_answer(connection: &Connection, run: i64) -> Result<bool, Fault> {
    Ok(connection
        .prepare_cached("SELECT 1 FROM wait WHERE run = ?1 AND answered IS NOT NULL LIMIT 1")?
        .exists([run])?)
}

/// Takes a run's answers off their waits, in the order in which they came, as steps.
pub(crate) fn collect(scope: &mut Scope<'_>, run: i64, at: Timestamp) -> Result<Vec<NewStep>, Fault> {
    let mut steps = Vec::new();
    {
        let mut statement = scope.connection.prepare_cached(
            "SELECT position, answer, by FROM wait WHERE run = ?1 AND answered IS NOT NULL ORDER BY answered",
        )?;
        let mut rows = statement.query([run])?;
        while let Some(row) = rows.next()? {
            let by = row.get_ref("by")?.as_blob_or_null().unwrap_or_default();
            steps.push(NewStep {
                at,
                by: by.map(from_dag_cbor).transpose()?,
                body: StepBody::Completed {
                    position: row.get("position")?,
                    completion: from_dag_cbor(row.get_ref("answer")?.as_blob().unwrap_or_default())?,
                },
            });
        }
    }
    if !steps.is_empty() {
        scope
            .connection
            .prepare_cached("DELETE FROM wait WHERE run = ?1 AND answered IS NOT NULL")?
            .execute([run])?;
    }
    Ok(steps)
}

/// Gives up waits. An event that nobody has taken is kept for another wait.
pub(crate) fn drop_at(
    scope: &mut Scope<'_>,
    run: i64,
    positions: &[u32],
    at: Timestamp,
) -> Result<(), Fault> {
    let mut events = Vec::new();
    for position in positions {
        let dropped = scope
            .connection
            .prepare_cached(
                "DELETE FROM wait WHERE run = ?1 AND position = ?2 RETURNING what, answer, answered, by",
            )?
            .query_one(params![run, position], |row| {
                Ok((
                    row.get::<_, Vec<u8>>(0)?,
                    row.get::<_, Option<Vec<u8>>>(1)?,
                    row.get::<_, Option<i64>>(2)?,
                    row.get::<_, Option<Vec<u8>>>(3)?,
                ))
            })
            .optional()?;
        let Some((what, Some(answer), Some(order), Some(by))) = dropped else {
            continue;
        };
        let (what, answer): (WaitFor, Completion) = (from_dag_cbor(&what)?, from_dag_cbor(&answer)?);
        if let (WaitFor::Event { name }, Completion::Done(Value::Object(mut event))) = (what, answer)
            && let Some(value) = event.remove("event")
        {
            events.push((order, name, value, by));
        }
    }
    // They came before whatever is kept, the last one first on the way back.
    events.sort_unstable_by_key(|(order, ..)| std::cmp::Reverse(*order));
    for (_, name, value, by) in events {
        kept::give_back(scope, run, &name, &value, &by, at)?;
    }
    Ok(())
}

/// Reads the open waits of a run.
pub(crate) fn open(connection: &Connection, run: RunId) -> Result<Vec<Wait>, Fault> {
    let row = record::row_of(connection, run)?;
    let mut statement = connection.prepare_cached(
        "SELECT position, what, due FROM wait WHERE run = ?1 AND answered IS NULL ORDER BY position",
    )?;
    statement
        .query_and_then([row], |row| {
            Ok(Wait {
                position: row.get("position")?,
                what: codec::record(
                    row.get_ref("what")?.as_blob().unwrap_or_default(),
                    "a wait of run",
                    run.0,
                )?,
                due: row.get::<_, Option<i64>>("due")?.map(Timestamp),
            })
        })?
        .collect()
}

/// Removes what a run that has ended waits for, and what is kept for it.
pub(crate) fn clear(scope: &mut Scope<'_>, run: i64) -> Result<(), Fault> {
    for table in ["wait", "kept"] {
        scope
            .connection
            .prepare_cached(&format!("DELETE FROM {table} WHERE run = ?1"))?
            .execute([run])?;
    }
    Ok(())
}

/// Returns the open wait of a run for an event: the first in the run's order.
pub(crate) fn for_event(connection: &Connection, run: i64, name: &str) -> Result<Option<i64>, Fault> {
    Ok(connection
        .prepare_cached(
            "SELECT row FROM wait WHERE key = ?1 AND run = ?2 AND answered IS NULL ORDER BY row LIMIT 1",
        )?
        .query_one(params![event_key(name), run], |row| row.get(0))
        .optional()?)
}
