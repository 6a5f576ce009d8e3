//! Running one tool as a run: record, intent, act, settlement.

use std::sync::{Arc, PoisonError};

use pentad_catalog::Entry;
use pentad_catalog::gate::{Act, Reach, Verdict};
use pentad_model::event::{EventBody, NewEvent};
use pentad_model::grant::GrantVerb;
use pentad_model::outcome::Product;
use pentad_model::run::{RunStatus, Terms};
use pentad_model::tool::ToolKind;
use pentad_model::{Name, Refusal, RefusalKind, RunId, Timestamp, ToolDocument};
use pentad_program::{Durability, NewRun, ToolCall};
use serde_json::{Map, Value};

use super::settle;
use crate::Engine;
use crate::acts::hash_of;
use crate::invoke::{Context, store_refusal};

/// One tool to be run.
pub(crate) struct Job {
    pub entry: Entry,
    pub input: Map<String, Value>,
    pub title: Option<String>,
    pub name: Option<Name>,
}

impl Engine {
    /// Asks the gate whether the job may run now.
    pub(crate) async fn judge_tool(&self, context: &Context, job: &Job) -> Result<(), Refusal> {
        let act = self.act_of(context, job)?;
        let gate = &self.parts.gate;
        // A question to a person is seen by others: what it belongs to stands before it.
        if !matches!(gate.would_ask(&act, &context.authority), Verdict::Allowed(_)) {
            self.record(context, None).await.map_err(|e| store_refusal(&e))?;
        }
        self.judge(context, &act).await
    }

    /// Refuses a job that was allowed when it was asked for and is denied by now.
    pub(crate) fn still_allowed(&self, context: &Context, job: &Job) -> Result<(), Refusal> {
        match self
            .parts
            .gate
            .would_ask(&self.act_of(context, job)?, &context.authority)
        {
            Verdict::Denied(refusal) => Err(refusal),
            Verdict::Allowed(_) | Verdict::Asks => Ok(()),
        }
    }

    fn act_of(&self, context: &Context, job: &Job) -> Result<Act, Refusal> {
        let document = &job.entry.document;
        let tool = document.tool.to_string();
        let input = Value::Object(job.input.clone());
        let shown = pentad_model::text::excerpt(&pentad_model::text::visible(&input.to_string()), 2000);
        Ok(Act {
            verb: GrantVerb::Call,
            target: tool.clone(),
            reach: Reach::Own,
            right: None,
            caller: context.caller.clone(),
            agent: context.agent().clone(),
            thread: context.thread.id,
            run: context.run,
            read_only_trusted: document.is_trusted_read_only(),
            destructive: document.is_destructive(),
            input_hash: hash_of(Some(&job.input))?,
            closure_hash: job.entry.source.closure_hash(document),
            question: self
                .parts
                .redactor
                .text(format!("call {tool}\n{}\n{shown}", document.summary)),
        })
    }
}

/// Runs a judged job to its end and returns what the caller sees.
pub(crate) async fn execute(engine: &Arc<Engine>, context: &Context, job: Job) -> Result<Product, Refusal> {
    let run = RunId::generate();
    if !may_overtake_its_record(&job.entry.document) {
        start(engine, context, &job, run).await?;
        return finish(engine, context, job, run).await;
    }
    let record = Record::of(engine, context, &job, run).await?;
    let (recorded, product) = tokio::join!(
        biased;
        record.write(engine, context),
        finish(engine, context, job, run),
    );
    if let Err(refusal) = recorded {
        // Without its record there is no run to settle, and no result to hand out.
        *context.settlement.lock().unwrap_or_else(PoisonError::into_inner) = None;
        return Err(refusal);
    }
    product
}

/// Tells whether the call may go out while its record is being written. What a person trusts to change nothing leaves
/// nothing behind that a lost record would hide; it is queued before the call goes out, and the result waits for it.
fn may_overtake_its_record(document: &ToolDocument) -> bool {
    document.kind == ToolKind::Mcp && document.is_trusted_read_only()
}

/// Records the run, and the intent of whatever is not read-only, before anything happens.
pub(crate) async fn start(engine: &Engine, context: &Context, job: &Job, run: RunId) -> Result<(), Refusal> {
    let record = Record::of(engine, context, job, run).await?;
    record.write(engine, context).await
}

/// The first entry of a run.
struct Record {
    run: NewRun,
    events: Vec<NewEvent>,
    durability: Durability,
}

impl Record {
    async fn of(engine: &Engine, context: &Context, job: &Job, run: RunId) -> Result<Self, Refusal> {
        let document = &job.entry.document;
        let tool = document.tool.to_string();
        let read_only = document.is_trusted_read_only();
        let mut events = vec![context.event(Some(run), EventBody::RunStarted { title: tool.clone() })];
        if !read_only {
            let closure = job.entry.source.closure_hash(document);
            events.push(context.event(
                Some(run),
                EventBody::Intent {
                    act: format!("call:{tool}"),
                    closure,
                },
            ));
        }
        let (root, depth) = engine.place_below(context).await?;
        let input = engine.parts.redactor.value(Value::Object(job.input.clone()));
        let run = NewRun {
            id: run,
            parent: context.run,
            thread: context.thread.id,
            name: job.name.clone(),
            title: job.title.clone().unwrap_or_else(|| tool.clone()),
            tool: Some(tool),
            tool_cid: document.cid().ok(),
            caller: context.caller.clone(),
            grants: context.authority.grants.clone(),
            input: engine.journaled(input).await.map_err(|e| store_refusal(&e))?,
            terms: Terms {
                root,
                depth,
                ..Terms::default()
            },
            status: RunStatus::Running,
            at: Timestamp::now(),
        };
        Ok(Self {
            run,
            events,
            durability: if read_only {
                Durability::Crash
            } else {
                Durability::Power
            },
        })
    }

    async fn write(self, engine: &Engine, context: &Context) -> Result<(), Refusal> {
        let events = context.with_opening(self.events);
        engine
            .parts
            .store
            .start_run(self.run, events, self.durability)
            .await
            .map_err(|e| store_refusal(&e))?;
        context.opened();
        Ok(())
    }
}

/// Acts and settles.
pub(crate) async fn finish(
    engine: &Engine,
    context: &Context,
    job: Job,
    run: RunId,
) -> Result<Product, Refusal> {
    let run_dir = engine.parts.runs_dir.join(run.to_string());
    let starts_commands = matches!(job.entry.document.kind, ToolKind::Recipe | ToolKind::Lambda);
    if starts_commands && let Err(error) = tokio::fs::create_dir_all(&run_dir).await {
        let refusal = Refusal::new(
            RefusalKind::Unavailable,
            run_dir.display().to_string(),
            format!(
                "The run's folder {} could not be made: {error}.",
                run_dir.display()
            ),
        );
        settle::refused(context, run, &refusal);
        return Err(refusal);
    }
    let call = ToolCall {
        document: Arc::clone(&job.entry.document),
        input: job.input,
        run,
        thread: context.thread.id,
        agent: context.agent().clone(),
        visible: context.authority.grants.clone(),
        caller: context.caller.clone(),
        workspace: context.workspace.clone(),
        run_dir: run_dir.clone(),
        time_limit: Some(context.time_left()),
        attendance: context.attendance.clone(),
    };
    let result = job.entry.source.call(call).await;
    let product = settle::settle(engine, context, run, &job.entry.document, result).await;
    // Whatever is worth keeping has become a blob; an empty folder goes, one with files stays for a person to see.
    if starts_commands {
        let _ = tokio::fs::remove_dir(&run_dir).await;
    }
    product
}

/// Returns the event of a status change.
pub(crate) fn status_event(
    context: &Context,
    run: RunId,
    status: RunStatus,
    error: Option<pentad_model::run::RunError>,
) -> NewEvent {
    context.event(Some(run), EventBody::RunStatus { status, error })
}
