//! Runs whose process is gone.

use std::collections::HashMap;

use pentad_model::event::NewEvent;
use pentad_model::run::{RunError, RunStatus};
use pentad_model::{Actor, EventBody, RunId, ThreadId, Timestamp};
use pentad_program::RunChange;
use rusqlite::Connection;

use crate::codec::{self, unsigned};
use crate::events;
use crate::fault::Fault;
use crate::options::Owner;
use crate::runs;
use crate::writer::Scope;

/// Returns the runs that are recorded as running and their owners.
pub(crate) fn running(connection: &Connection) -> Result<Vec<(RunId, ThreadId, Owner)>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT run.id, thread.id AS thread_id, owner_pid, owner_born, owner_boot
         FROM run JOIN thread ON thread.row = run.thread
         WHERE status = 'running' AND status <> 'succeeded' ORDER BY run.row",
    )?;
    statement
        .query_and_then([], |row| {
            let owner = Owner {
                pid: row.get("owner_pid")?,
                born: unsigned(row.get("owner_born")?),
                boot: row.get("owner_boot")?,
            };
            Ok((
                RunId(codec::id(row, "id")?),
                ThreadId(codec::id(row, "thread_id")?),
                owner,
            ))
        })?
        .collect()
}

/// Settles the runs whose owner does not live as `lost`, and notes it in their threads.
pub(crate) fn settle(
    scope: &mut Scope<'_>,
    at: Timestamp,
    is_alive: &dyn Fn(&Owner) -> bool,
) -> Result<Vec<RunId>, Fault> {
    let mut known: HashMap<Owner, bool> = HashMap::new();
    let mut lost = Vec::new();
    for (id, thread, owner) in running(scope.connection)? {
        let alive = owner == *scope.owner || *known.entry(owner).or_insert_with_key(is_alive);
        if alive {
            continue;
        }
        let error = RunError {
            code: "lost".to_owned(),
            message: "The process that ran this is gone, and nobody knows how far it came.".to_owned(),
        };
        let change = RunChange {
            id,
            status: RunStatus::Lost,
            output: None,
            error: Some(error.clone()),
            stored: std::collections::BTreeMap::new(),
            at,
        };
        runs::change(scope, &change)?;
        let event = |body| NewEvent {
            thread,
            at,
            caller: Actor::System.into(),
            call: None,
            run: Some(id),
            body,
        };
        let status = EventBody::RunStatus {
            status: RunStatus::Lost,
            error: Some(error),
        };
        let text = format!("Run {id} was interrupted: its process ended before it did.");
        events::append(scope, &[event(status), event(EventBody::Note { text })])?;
        lost.push(id);
    }
    Ok(lost)
}
