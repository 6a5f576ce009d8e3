//! Deciding about a new command: whether it may happen now, and what it needs.

use std::sync::Arc;

use pentad_model::run::{RunStatus, Terms};
use pentad_model::step::{CommandKind, Completion, Repeat};
use pentad_model::verb::Budget;
use pentad_model::{Name, RunId, Timestamp};
use pentad_program::{Child, NewRun, WaitFor};
use serde_json::json;

use crate::batch::{Batch, Start};
use crate::budget;
use crate::context::{Issued, Work};
use crate::core::Core;
use crate::resident::Resident;

/// Adds a command to the batch, with whatever becomes of it at once.
pub(crate) async fn admit(run: &mut Resident, issued: Issued, at: Timestamp, batch: &mut Batch) {
    let Issued { command, work } = issued;
    let (position, kind, repeat) = (command.position, command.kind, command.repeat);
    batch.command(at, command);
    if position >= run.core.limits.commands {
        let limit = run.core.limits.commands;
        let message =
            format!("A run has at most {limit} commands; one that goes on for ever continues as new.");
        return batch.refuse(at, position, "limit", message);
    }
    if let Some(why) = budget::reached(&run.budget, &run.usage(), run.began, at, kind) {
        tracing::info!(run = %run.run.id, why, "a budget is reached; the run waits for more");
        let waits = serde_json::to_value(WaitFor::Budget).unwrap_or_default();
        return batch.answer(at, position, Completion::Waits(waits));
    }
    match work {
        Work::Step(act) => begin(batch, position, repeat, Start::Step(repeat, act)),
        Work::Invoke(invoke) => begin(batch, position, repeat, Start::Invoke(repeat, invoke)),
        Work::Wait(wait) => {
            run.note_wait(position, &wait.what);
            if kind == CommandKind::Sleep || wait.due.is_some() {
                batch.must_be_synced();
            }
            batch.waits.push(wait);
        }
        Work::Spawn(child) => spawn(run, position, *child, at, batch).await,
        Work::Unsound(error) => batch.answer(at, position, Completion::Failed(error)),
    }
}

fn begin(batch: &mut Batch, position: u32, repeat: Repeat, start: Start) {
    if repeat != Repeat::Safe {
        batch.must_be_synced();
    }
    batch.starts.push((position, start));
}

async fn spawn(run: &mut Resident, position: u32, child: Child, at: Timestamp, batch: &mut Batch) {
    if let Err(refused) = own_limits(run, &child) {
        return batch.refuse(at, position, "limit", refused);
    }
    if let Some(name) = &child.name
        && let Some(refused) = taken(&run.core, name, batch).await
    {
        return batch.refuse(at, position, "name", refused);
    }
    let root = run.run.terms.root.unwrap_or(run.run.id);
    if let Err(refused) = tree_limit(&run.core, root, batch.children.len() as u64).await {
        return batch.refuse(at, position, "limit", refused);
    }
    let id = RunId::generate();
    run.children += 1;
    batch.must_be_synced();
    batch.children.push(record(run, id, child, at));
    batch.answer(at, position, Completion::Done(json!(id)));
}

/// Returns why a name cannot be given to a child: a live run has it, or one that is about to be started.
async fn taken(core: &Arc<Core>, name: &Name, batch: &Batch) -> Option<String> {
    if batch
        .children
        .iter()
        .any(|child| child.name.as_ref() == Some(name))
    {
        return Some(format!(
            "The name '{name}' was given to another child just now; take another one."
        ));
    }
    // None of this name, or a journal that cannot be read now and refuses the write that follows.
    let live = core.store.find_run(name).await.ok()?;
    (live.name.as_ref() == Some(name) && !live.status.is_settled()).then(|| {
        format!(
            "The name '{name}' belongs to the live run {}; take another one, or wait until that run has ended.",
            live.id
        )
    })
}

/// Checks what one run may have below it.
fn own_limits(run: &Resident, child: &Child) -> Result<(), String> {
    let limits = &run.core.limits;
    if run.core.program(&child.program).is_none() {
        return Err(format!("There is no program of the kind '{}'.", child.program));
    }
    let depth = run.run.terms.depth;
    if depth >= limits.depth || run.budget.depth == Some(0) {
        let least = u64::from(limits.depth);
        let limit = match run.budget.depth {
            Some(own) => own.saturating_add(u64::from(depth)).min(least),
            None => least,
        };
        return Err(format!(
            "A child would be {} generations below the first run of its tree, and {limit} is the limit; do it in this \
             run.",
            depth + 1
        ));
    }
    if run.children >= limits.children {
        return Err(format!(
            "This run has started {} children, and {} is the limit; it may continue as new.",
            run.children, limits.children
        ));
    }
    Ok(())
}

/// Checks how many runs of the tree have not ended, `more` about to be started; the text says limit, in use and queued.
pub(crate) async fn tree_limit(core: &Arc<Core>, root: RunId, more: u64) -> Result<(), String> {
    let limit = core.limits.tree;
    // A journal that cannot be read now refuses the write that follows.
    let counts = core.runs.counts(Some(root)).await.unwrap_or_default();
    let in_tree = counts.running + counts.queued + counts.waiting + more;
    if in_tree < limit {
        return Ok(());
    }
    Err(format!(
        "{in_tree} runs of this tree have not ended, and {limit} is the limit: {} at work, {} queued, {} waiting. Wait \
         for some of them first.",
        counts.running,
        counts.queued + more,
        counts.waiting
    ))
}

/// Returns the record of a child: what its parent may, and no more than was asked.
fn record(run: &Resident, id: RunId, child: Child, at: Timestamp) -> NewRun {
    let parent = &run.run;
    let grants = child
        .grants
        .as_ref()
        .map_or_else(|| parent.grants.clone(), |asked| parent.grants.intersect(asked));
    let depth = budget::child_depth(parent, child.budget.depth);
    NewRun {
        id,
        parent: Some(parent.id),
        thread: parent.thread,
        name: child.name,
        title: child.title,
        tool: None,
        tool_cid: None,
        caller: parent.caller.clone(),
        grants,
        input: child.input,
        terms: Terms {
            program: child.program,
            root: Some(parent.terms.root.unwrap_or(parent.id)),
            depth: parent.terms.depth + 1,
            awaited: child.awaited,
            output: child.output,
            budget: Budget {
                depth,
                ..child.budget
            },
            on_loss: child.on_loss,
            plan_step: parent.terms.plan_step.clone(),
            continues: None,
            workspace: parent.terms.workspace.clone(),
        },
        status: RunStatus::Queued,
        at,
    }
}
