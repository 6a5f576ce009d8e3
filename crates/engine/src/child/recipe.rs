//! A recipe as a program: one act, recorded before it is done.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, Weak};

use pentad_catalog::Resolution;
use pentad_model::outcome::Product;
use pentad_model::run::{Run, RunError, Stored};
use pentad_model::{CallId, IdEnding, Refusal, RefusalKind, Timestamp};
use pentad_program::{
    ActFailure, Attempt, Attendance, Context as RunContext, Ending, Failure, Pending, Program, RunChange,
    StepSpec,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::RecipeJob;
use crate::Engine;
use crate::invoke::{Context, Opening, Settlement, store_refusal};
use crate::verbs::delegate::output_of;
use crate::verbs::execute::{self, Job};

/// Executes one tool as a run of its own.
pub(crate) struct RecipeProgram {
    pub(crate) engine: Weak<Engine>,
}

/// What the act leaves for the run's record.
#[derive(Serialize, Deserialize)]
struct Returned {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    output: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<RunError>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    stored: BTreeMap<String, Stored>,
}

impl Program for RecipeProgram {
    fn kind(&self) -> &'static str {
        "recipe"
    }

    fn execute(&self, context: Arc<dyn RunContext>, input: Value) -> Pending<Result<Ending, RunError>> {
        let engine = self.engine.clone();
        Box::pin(async move {
            let job: RecipeJob = serde_json::from_value(input).map_err(|error| RunError {
                code: "corrupt".to_owned(),
                message: format!("The run's input cannot be read: {error}."),
            })?;
            let spec = StepSpec {
                name: "call".to_owned(),
                input: json!({"tool": job.tool, "cid": job.cid}),
                label: job.tool.clone(),
                repeat: job.repeat,
            };
            let run = context.run().clone();
            let act = move |attempt: Attempt| -> pentad_program::ActFuture {
                let (engine, run, job) = (engine.clone(), run.clone(), job.clone());
                Box::pin(async move {
                    let engine = engine.upgrade().ok_or(ActFailure::Interrupted)?;
                    act(&engine, run, &job, attempt).await
                })
            };
            match context.step(spec, Box::new(act)).await {
                Ok(value) => ending(value),
                Err(Failure::Failed(error)) => Err(error),
                Err(Failure::Interrupted) => Err(RunError {
                    code: "lost".to_owned(),
                    message:
                        "The process that executed it ended, and nobody knows whether it took effect; look \
                              before you start it again."
                            .to_owned(),
                }),
            }
        })
    }
}

fn ending(value: Value) -> Result<Ending, RunError> {
    let returned: Returned = serde_json::from_value(value).map_err(|error| RunError {
        code: "corrupt".to_owned(),
        message: format!("What the tool returned cannot be read: {error}."),
    })?;
    let output = returned.output.unwrap_or_default();
    Ok(match returned.error {
        None => Ending::Done {
            output,
            stored: returned.stored,
        },
        Some(error) => Ending::Failed {
            error,
            output,
            stored: returned.stored,
        },
    })
}

/// Executes the tool once.
async fn act(engine: &Arc<Engine>, run: Run, job: &RecipeJob, attempt: Attempt) -> Result<Value, ActFailure> {
    let context = context_of(engine, &run, attempt)
        .await
        .map_err(|refusal| refused(&refusal))?;
    let work = prepare(engine, &context, &run, job)
        .await
        .map_err(|refusal| refused(&refusal))?;
    let result = execute::finish(engine, &context, work, run.id).await;
    let settlement = context
        .settlement
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    match (result, settlement) {
        (Ok(product), Some((change, _))) => returned(engine, &run, product, change),
        (Err(refusal), _) => Err(refused(&refusal)),
        (Ok(_), None) => Err(ActFailure::Interrupted),
    }
}

fn refused(refusal: &Refusal) -> ActFailure {
    ActFailure::Failed(RunError {
        code: "refused".to_owned(),
        message: refusal.message.clone(),
    })
}

fn returned(engine: &Engine, run: &Run, product: Product, change: RunChange) -> Result<Value, ActFailure> {
    match &change.error {
        Some(error) if error.code == "canceled" => return Err(ActFailure::Failed(error.clone())),
        Some(error) if error.code == "interrupted" => return Err(ActFailure::Interrupted),
        _ => {}
    }
    // Whoever is owed a typed result gets that, and no text around it.
    let typed = run.terms.output.is_some() && change.error.is_none();
    let output = if typed {
        let whole = product.value.clone();
        Some(whole.unwrap_or_else(|| output_of(&product.text)))
    } else {
        change.output
    };
    engine.attending.leave_product(run.id, product);
    let returned = Returned {
        output,
        error: change.error,
        stored: change.stored,
    };
    Ok(serde_json::to_value(returned).unwrap_or_default())
}

/// Finds the tool as it was judged, and its input.
async fn prepare(engine: &Engine, context: &Context, run: &Run, job: &RecipeJob) -> Result<Job, Refusal> {
    let input: Map<String, Value> = match engine.attending.of(run.id).input {
        Some(input) => input,
        None => job.load(&*engine.parts.store).await?,
    };
    let Resolution::Found(entry) = engine
        .parts
        .catalog
        .resolve(&job.tool, &engine.visibility(context))
    else {
        let message = format!("The tool '{}' is not there any more.", job.tool);
        return Err(Refusal::new(RefusalKind::NotFound, job.tool.as_str(), message));
    };
    let now = entry.document.cid().unwrap_or_default();
    if now != job.cid {
        let message = format!(
            "The tool '{}' has changed since this was started: it was {}, and is {now}.",
            job.tool, job.cid
        );
        return Err(Refusal::new(RefusalKind::Conflict, job.tool.as_str(), message));
    }
    let work = Job {
        entry,
        input,
        title: Some(run.title.clone()),
        name: run.name.clone(),
    };
    // What was allowed when it was asked for may have been denied since.
    engine.still_allowed(context, &work)?;
    Ok(work)
}

/// Returns what the run brings along, with whatever accompanies it.
async fn context_of(engine: &Engine, run: &Run, attempt: Attempt) -> Result<Context, Refusal> {
    let company = engine.attending.of(run.id);
    let ending: IdEnding = run
        .thread
        .to_string()
        .parse()
        .map_err(|e| Refusal::new(RefusalKind::Internal, "thread", format!("{e}")))?;
    let thread = engine
        .parts
        .store
        .find_thread(&ending)
        .await
        .map_err(|e| store_refusal(&e))?;
    let authority = pentad_catalog::Authority::everything().child(Some(&run.grants));
    let own = run.terms.budget.wall_ms.map(std::time::Duration::from_millis);
    let limit = own.unwrap_or(engine.parts.limits.call);
    let until = Instant::now() + limit;
    let workspace = run
        .terms
        .workspace
        .clone()
        .unwrap_or_else(|| pentad_model::invocation::Workspace {
            cwd: thread.cwd.clone().unwrap_or_else(|| "/".to_owned()).into(),
            project_root: None,
            trusted: false,
        });
    Ok(Context {
        call: CallId::generate(),
        caller: run.caller.clone(),
        thread,
        run: run.parent,
        authority,
        workspace,
        attendance: Attendance {
            cancel: attempt.attendance.cancel,
            ..company.attendance
        },
        now: Timestamp::now(),
        limit,
        until: company.until.map_or(until, |theirs| theirs.min(until)),
        opening: Opening::default(),
        settlement: Settlement::default(),
    })
}
