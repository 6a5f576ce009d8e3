//! The end of a run, and whatever it leads to, in the transaction that records it.

use std::collections::BTreeMap;

use pentad_model::event::NewEvent;
use pentad_model::run::{RunError, RunStatus, Stored, Usage, WaitReason};
use pentad_model::{Actor, EventBody, RunId, Timestamp};
use pentad_program::{NewRun, RunChange, Settled, Settlement, StoreError};
use rusqlite::Connection;
use serde_json::Value;

use crate::advance;
use crate::cancel;
use crate::codec;
use crate::events;
use crate::evidence;
use crate::executors;
use crate::fault::Fault;
use crate::record::{self, Mark, Record};
use crate::runs;
use crate::steps::{self, Bound};
use crate::threads;
use crate::waits;
use crate::writer::Scope;

/// Generations that are looked through; more are no tree.
const MAX_GENERATIONS: usize = 1 << 16;

/// How a run ends.
pub(crate) struct End<'a> {
    pub(crate) status: RunStatus,
    pub(crate) output: Option<&'a Value>,
    pub(crate) error: Option<&'a RunError>,
    pub(crate) stored: Option<&'a BTreeMap<String, Stored>>,
    pub(crate) usage: Option<Usage>,
    pub(crate) continued: Option<&'a NewRun>,
    pub(crate) events: &'a [NewEvent],
    pub(crate) at: Timestamp,
}

impl End<'_> {
    /// Returns an end with nothing but a status.
    pub(crate) const fn of(status: RunStatus, at: Timestamp) -> Self {
        Self {
            status,
            output: None,
            error: None,
            stored: None,
            usage: None,
            continued: None,
            events: &[],
            at,
        }
    }
}

/// Ends a run that this executor has.
pub(crate) fn settle(scope: &mut Scope<'_>, settlement: &Settlement) -> Result<Settled, Fault> {
    if !settlement.status.is_settled() {
        let text = format!(
            "'{}' is no end of run {}; settle it as succeeded, failed, canceled or lost",
            settlement.status.word(),
            settlement.run
        );
        return Err(StoreError::Conflict(text).into());
    }
    let (mut run, mut last) = advance::own(scope, settlement.run, settlement.after)?;
    steps::append(
        scope,
        &run,
        &mut last,
        settlement.steps.iter().cloned(),
        Bound::Step,
    )?;
    let mut settled = Settled::default();
    // Whoever asked that it end does not mean the run after it less.
    let asked_to_end = settlement.continued.is_some() || settlement.status == RunStatus::Canceled;
    if asked_to_end && run.cancel.is_some() {
        if let Some(usage) = settlement.usage {
            run.state.usage = usage;
        }
        end_canceled(scope, run, settlement, &mut settled)?;
        return Ok(settled);
    }
    let end = End {
        status: settlement.status,
        output: settlement.output.as_ref(),
        error: settlement.error.as_ref(),
        stored: Some(&settlement.stored),
        usage: settlement.usage,
        continued: settlement.continued.as_ref(),
        events: &settlement.events,
        at: settlement.at,
    };
    finish(scope, run, &end, &mut settled)?;
    Ok(settled)
}

/// Ends a run as canceled for the reason that was given; one with something alive below it waits for that, as nobody's.
fn end_canceled(
    scope: &mut Scope<'_>,
    mut run: Record,
    settlement: &Settlement,
    settled: &mut Settled,
) -> Result<(), Fault> {
    if !cancel::has_live_below(scope.connection, run.id)? {
        if settlement.continued.is_some() {
            settled.canceled.push(run.id);
        }
        return cancel::end(scope, run, settlement.at, settled);
    }
    run.state.status = RunStatus::Waiting(WaitReason::Children);
    run.epoch = None;
    add_results(&mut run, None, None, Some(&settlement.stored));
    if run.tied {
        waits::clear(scope, run.row)?;
    }
    record::store(scope, &run, settlement.at)
}

/// Changes a run that is not settled: the way of verbs, whose runs belong to whoever changed them last. A program's run
/// is only changed by the executor that has it.
pub(crate) fn change(scope: &mut Scope<'_>, change: &RunChange, new: &[NewEvent]) -> Result<(), Fault> {
    let mut run = record::get(scope.connection, change.id)?.live()?;
    if run.epoch.is_some()
        && run.epoch != scope.news.standing.epoch
        && !record::start_of(scope.connection, run.row)?
            .terms
            .program
            .is_empty()
    {
        return Err(advance::not_own(run.id).into());
    }
    if change.status.is_settled() {
        let end = End {
            output: change.output.as_ref(),
            error: change.error.as_ref(),
            stored: Some(&change.stored),
            events: new,
            ..End::of(change.status, change.at)
        };
        return finish(scope, run, &end, &mut Settled::default());
    }
    run.epoch = match change.status {
        RunStatus::Queued => None,
        _ => Some(executors::enlist(scope)?),
    };
    run.state.status = change.status;
    add_results(
        &mut run,
        change.output.as_ref(),
        change.error.as_ref(),
        Some(&change.stored),
    );
    record::store(scope, &run, change.at)?;
    events::append(scope, new).map(|_| ())
}

fn add_results(
    run: &mut Record,
    output: Option<&Value>,
    error: Option<&RunError>,
    stored: Option<&BTreeMap<String, Stored>>,
) {
    if output.is_some() {
        run.state.output = output.cloned();
    }
    if error.is_some() {
        run.state.error = error.cloned();
    }
    if let Some(stored) = stored {
        run.state.stored.extend(stored.clone());
    }
}

/// Ends a run, asks the children to end that it alone waited for, and ends whoever only waited for its end.
pub(crate) fn finish(
    scope: &mut Scope<'_>,
    run: Record,
    end: &End<'_>,
    settled: &mut Settled,
) -> Result<(), Fault> {
    let (id, parent) = (run.id, run.parent);
    let children = if run.has_children {
        awaited(scope.connection, id)?
    } else {
        Vec::new()
    };
    record_end(scope, run, end, settled)?;
    let mark = Mark {
        by: Actor::System.into(),
        reason: format!("its parent, run {id}, has ended"),
    };
    for child in children {
        cancel::below(scope, child, &mark, end.at, settled)?;
    }
    climb(scope, parent, end.at, settled)?;
    let Settled { woken, canceled, .. } = settled;
    woken.retain(|id| !canceled.contains(id));
    Ok(())
}

/// The query of a run's children.
pub(crate) const LIVE_CHILDREN_SQL: &str =
    "SELECT row, id FROM run WHERE parent = ?1 AND +status IN ('queued', 'running', 'waiting') ORDER BY row";

fn awaited(connection: &Connection, parent: RunId) -> Result<Vec<RunId>, Fault> {
    let mut statement = connection.prepare_cached(LIVE_CHILDREN_SQL)?;
    let live: Vec<(i64, RunId)> = statement
        .query_and_then([parent.0.as_bytes()], |row| {
            Ok::<_, Fault>((row.get("row")?, RunId(codec::id(row, "id")?)))
        })?
        .collect::<Result<_, _>>()?;
    let mut awaited = Vec::new();
    for (row, id) in live {
        if record::start_of(connection, row)?.terms.awaited {
            awaited.push(id);
        }
    }
    Ok(awaited)
}

/// Records the end of one run, and tells whoever waits for it.
pub(crate) fn record_end(
    scope: &mut Scope<'_>,
    mut run: Record,
    end: &End<'_>,
    settled: &mut Settled,
) -> Result<(), Fault> {
    let last = steps::last(scope.connection, run.row)?;
    run.state.status = end.status;
    run.state.last = (last.seq > 0).then_some(last);
    run.state.continued = end.continued.map(|new| new.id);
    if let Some(usage) = end.usage {
        run.state.usage = usage;
    }
    add_results(&mut run, end.output, end.error, end.stored);
    run.epoch = None;
    run.cancel = None;
    record::store(scope, &run, end.at)?;
    if run.tied {
        waits::clear(scope, run.row)?;
    }
    if let Some(new) = end.continued {
        go_on(scope, &run, new)?;
    }
    events::append(scope, end.events)?;
    if end.continued.is_none()
        && let Some(parent) = run.parent
    {
        tell_parent(scope, &run, parent, end.at, settled)?;
    }
    if let Some(step) = &run.plan_step
        && end.status == RunStatus::Succeeded
    {
        evidence::settle_step(scope, &run, step, end.at)?;
    }
    Ok(())
}

/// Starts the run that goes on in the place of one that has ended.
fn go_on(scope: &mut Scope<'_>, run: &Record, new: &NewRun) -> Result<(), Fault> {
    let name: Option<String> = scope
        .connection
        .prepare_cached("SELECT name FROM run WHERE row = ?1")?
        .query_one([run.row], |row| row.get(0))?;
    let new = NewRun {
        parent: run.parent,
        name: name.and_then(|name| name.parse().ok()),
        ..new.clone()
    };
    runs::start(scope, &new)?;
    waits::follow(scope, run.id, new.id)
}

/// Answers the waits for a run; notes the result of one that was asked for by a parent that has ended meanwhile.
fn tell_parent(
    scope: &mut Scope<'_>,
    run: &Record,
    parent: RunId,
    at: Timestamp,
    settled: &mut Settled,
) -> Result<(), Fault> {
    let told = waits::tell_end(scope, run, at)?;
    if !told.is_empty() {
        settled.woken.extend(told);
        return Ok(());
    }
    // One that was canceled has no result.
    if run.status() == RunStatus::Canceled || !record::start_of(scope.connection, run.row)?.terms.awaited {
        return Ok(());
    }
    let ended = record::find(scope.connection, parent)?.is_some_and(|parent| parent.status().is_settled());
    if ended {
        let text = format!(
            "Run {} ended after its parent {parent}: {}.",
            run.id,
            run.status().word()
        );
        let note = NewEvent {
            thread: threads::id_of(scope.connection, run.thread)?,
            at,
            caller: Actor::System.into(),
            call: None,
            run: Some(run.id),
            body: EventBody::Note { text },
        };
        events::append(scope, &[note])?;
    }
    Ok(())
}

/// Ends the ancestors that were asked to end and had only been kept by what has ended below them.
pub(crate) fn climb(
    scope: &mut Scope<'_>,
    mut parent: Option<RunId>,
    at: Timestamp,
    settled: &mut Settled,
) -> Result<(), Fault> {
    for _ in 0..MAX_GENERATIONS {
        let Some(id) = parent else { break };
        let Some(run) = record::find(scope.connection, id)? else {
            break;
        };
        parent = run.parent;
        if run.status().is_settled() {
            continue;
        }
        let executed = run.status() == RunStatus::Running;
        if run.cancel.is_none() || executed || cancel::has_live_below(scope.connection, id)? {
            break;
        }
        settled.canceled.push(id);
        cancel::end_one(scope, run, at, settled)?;
    }
    Ok(())
}
