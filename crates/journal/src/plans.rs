//! Plans: one a thread, each replacing the last.

use pentad_model::ThreadId;
use pentad_model::canonical::to_dag_cbor;
use pentad_model::plan::Plan;
use rusqlite::{Connection, OptionalExtension, params};

use crate::codec;
use crate::fault::Fault;
use crate::threads;
use crate::writer::Scope;

/// Replaces a thread's plan.
pub(crate) fn set(scope: &mut Scope<'_>, thread: ThreadId, plan: &Plan) -> Result<(), Fault> {
    let row = threads::row_of(scope.connection, thread)?;
    scope
        .connection
        .prepare_cached(
            "INSERT INTO plan (thread, plan) VALUES (?1, ?2)
             ON CONFLICT (thread) DO UPDATE SET plan = excluded.plan",
        )?
        .execute(params![row, to_dag_cbor(plan)?])?;
    Ok(())
}

/// Reads a thread's plan.
pub(crate) fn get(connection: &Connection, thread: ThreadId) -> Result<Option<Plan>, Fault> {
    let row = threads::row_of(connection, thread)?;
    let bytes: Option<Vec<u8>> = connection
        .prepare_cached("SELECT plan FROM plan WHERE thread = ?1")?
        .query_one([row], |row| row.get(0))
        .optional()?;
    bytes
        .map(|bytes| codec::record(&bytes, "the plan of thread", thread.0))
        .transpose()
}
