//! Evidence: a step of a plan is done when all runs that work on it have succeeded.

use pentad_model::canonical::to_dag_cbor;
use pentad_model::event::NewEvent;
use pentad_model::plan::{Plan, StepStatus};
use pentad_model::{Actor, EventBody, RunId, Timestamp};
use rusqlite::{Connection, params};

use crate::codec;
use crate::events::{self, MAX_EVENT_BYTES};
use crate::fault::Fault;
use crate::plans;
use crate::record::Record;
use crate::threads;
use crate::writer::Scope;

/// What an event has beside its plan, at most, in bytes.
const AROUND_A_PLAN: usize = 4 << 10;

/// The query of the runs that work on a step.
pub(crate) const STEP_SQL: &str =
    "SELECT id, status = 'succeeded' AS succeeded FROM run WHERE thread = ?1 AND plan_step = ?2 ORDER BY row";

/// Marks the step that a run worked on as done, unless another run works on it still or has not succeeded.
pub(crate) fn settle_step(
    scope: &mut Scope<'_>,
    run: &Record,
    step: &str,
    at: Timestamp,
) -> Result<(), Fault> {
    let Some(evidence) = evidence(scope.connection, run.thread, step)? else {
        return Ok(());
    };
    let thread = threads::id_of(scope.connection, run.thread)?;
    let Some(plan) = plans::get(scope.connection, thread)? else {
        return Ok(());
    };
    // A journal that cannot take all ids names the last run: the others are found by the step.
    for evidence in [evidence, vec![run.id]] {
        let Some(plan) = with_done(plan.clone(), step, evidence) else {
            return Ok(());
        };
        if to_dag_cbor(&plan)?.len() > MAX_EVENT_BYTES - AROUND_A_PLAN {
            continue;
        }
        plans::set(scope, thread, &plan)?;
        let event = NewEvent {
            thread,
            at,
            caller: Actor::System.into(),
            call: None,
            run: Some(run.id),
            body: EventBody::PlanSet { plan },
        };
        return events::append(scope, &[event]).map(|_| ());
    }
    tracing::warn!(%thread, step, "the plan is too large to say that a step is done");
    Ok(())
}

fn evidence(connection: &Connection, thread: i64, step: &str) -> Result<Option<Vec<RunId>>, Fault> {
    let mut statement = connection.prepare_cached(STEP_SQL)?;
    let mut rows = statement.query(params![thread, step])?;
    let mut evidence = Vec::new();
    while let Some(row) = rows.next()? {
        if !row.get::<_, bool>("succeeded")? {
            return Ok(None);
        }
        evidence.push(RunId(codec::id(row, "id")?));
    }
    Ok(Some(evidence))
}

fn with_done(mut plan: Plan, step: &str, evidence: Vec<RunId>) -> Option<Plan> {
    let found = plan.steps.iter_mut().find(|found| found.id == step)?;
    if !matches!(found.status, StepStatus::Pending | StepStatus::Running) {
        return None;
    }
    found.status = StepStatus::Done;
    found.evidence = evidence;
    Some(plan)
}
