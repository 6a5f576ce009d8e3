//! `delegate`: a recipe as a child run, awaited or detached.

use std::sync::Arc;

use pentad_catalog::unfit;
use pentad_model::outcome::Product;
use pentad_model::run::{RunError, RunStatus};
use pentad_model::verb::{Delegate, Work};
use pentad_model::{Refusal, RefusalKind, RunId};
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;

use super::call::Found;
use super::execute::{self, Job};
use super::settle;
use crate::Engine;
use crate::invoke::Context;

pub(crate) async fn delegate(
    engine: &Arc<Engine>,
    context: &Context,
    delegate: Delegate,
) -> Result<Product, Refusal> {
    let tool = match &delegate.work {
        Work::Recipe(tool) => tool.clone(),
        Work::Brief(_) => return Err(unavailable("brief", "a model provider, and none is configured")),
        Work::Script(_) => {
            return Err(unavailable(
                "script",
                "the script host, which this build does not have",
            ));
        }
    };
    refuse_what_recipes_lack(&delegate)?;
    let entry = match engine.find_tool(context, &tool).await? {
        Found::Tool(entry) => entry,
        Found::Contract(_) => {
            return Err(Refusal::new(
                RefusalKind::BadRequest,
                tool,
                "A verb is no recipe; use it directly.",
            ));
        }
    };
    let errors = engine.parts.catalog.validate(&entry.document, &delegate.input);
    if !errors.is_empty() {
        return Err(unfit(&entry.document.tool, &errors));
    }
    let job = Job {
        entry,
        input: delegate.input.clone(),
        title: delegate.title.clone(),
        name: None,
    };
    engine.judge_tool(context, &job).await?;
    let slot = if delegate.awaits {
        None
    } else {
        Some(slot(engine)?)
    };
    let run = RunId::generate();
    execute::start(engine, context, &job, run).await?;
    match slot {
        None => awaited(engine, context, job, run, &delegate).await,
        Some(slot) => Ok(detached(engine, context, job, run, slot)),
    }
}

fn unavailable(what: &str, needs: &str) -> Refusal {
    Refusal::new(
        RefusalKind::NotAvailable,
        what,
        format!("delegate with a {what} needs {needs}."),
    )
    .supported(["recipe"])
    .next_step("delegate {\"recipe\":TOOL,\"input\":{…}} runs a recipe as a child")
}

fn refuse_what_recipes_lack(delegate: &Delegate) -> Result<(), Refusal> {
    let refuse = |key: &str| {
        let message = format!("A recipe takes no '{key}': it is for children that a model drives.");
        Err(Refusal::new(RefusalKind::BadRequest, key, message).supported([
            "title",
            "input",
            "output",
            "await",
            "budget.wallSeconds",
        ]))
    };
    if delegate.agent.is_some() {
        return refuse("agentId");
    }
    if delegate.tools.is_some() {
        return refuse("tools");
    }
    let budget = &delegate.budget;
    if budget.tokens.is_some()
        || budget.cost_micros.is_some()
        || budget.children.is_some()
        || budget.depth.is_some()
    {
        return refuse("budget");
    }
    Ok(())
}

async fn awaited(
    engine: &Arc<Engine>,
    context: &Context,
    job: Job,
    run: RunId,
    delegate: &Delegate,
) -> Result<Product, Refusal> {
    let mut product = match delegate.budget.wall_ms {
        None => execute::finish(engine, context, job, run).await?,
        Some(wall) => {
            let limited = context.limited(std::time::Duration::from_millis(wall));
            execute::finish(engine, &limited, job, run).await?
        }
    };
    let output = product.value.clone().unwrap_or_else(|| output_of(&product.text));
    let misfit = delegate
        .output
        .as_ref()
        .filter(|_| !product.failed)
        .and_then(|schema| misfit(schema, &output));
    if let Some(why) = misfit {
        product.failed = true;
        product.text = format!(
            "The result does not fit the owed output schema: {why}\n\n{}",
            product.text
        );
        settle::fail(
            context,
            run,
            RunError {
                code: "output-schema".to_owned(),
                message: why,
            },
        );
    }
    let (status, error) = settle::ending(context);
    let status = if status == RunStatus::Lost {
        "failed"
    } else {
        status.word()
    };
    let mut value =
        json!({"status": status, "runId": run.to_string(), "sessionId": context.thread.id.to_string()});
    if let Some(map) = value.as_object_mut() {
        match error {
            Some(error) => map.insert(
                "error".to_owned(),
                json!({"code": error.code, "message": error.message}),
            ),
            None => map.insert("output".to_owned(), output),
        };
    }
    Ok(product.value(value))
}

/// A text that is JSON counts as that value, any other as a text.
fn output_of(text: &str) -> Value {
    serde_json::from_str(text.trim()).unwrap_or_else(|_| json!({"text": text}))
}

fn misfit(schema: &Value, output: &Value) -> Option<String> {
    match jsonschema::validator_for(schema) {
        Ok(validator) => validator
            .iter_errors(output)
            .next()
            .map(|e| format!("{}: {e}", e.instance_path())),
        Err(error) => Some(format!("the schema itself is not valid: {error}")),
    }
}

/// Takes a place for a detached run, before anything is recorded.
fn slot(engine: &Engine) -> Result<OwnedSemaphorePermit, Refusal> {
    let limit = engine.parts.limits.detached;
    if limit == 0 {
        let message = "This process ends with the command, and a detached run would end with it.";
        return Err(
            Refusal::new(RefusalKind::NotAvailable, "await", message).next_step(
                "wait for it (leave await out), or start it through pentad up or pentad mcp, which stay",
            ),
        );
    }
    Arc::clone(&engine.slots).try_acquire_owned().map_err(|_| {
        let message =
            format!("{limit} detached runs are in progress, which is the limit (limits.detached_runs).");
        Refusal::new(RefusalKind::TooMany, "delegate", message).next_step(
            "read {\"address\":\"run:\",\"options\":{\"status\":\"running\"}} lists them; await one, or wait",
        )
    })
}

fn detached(
    engine: &Arc<Engine>,
    context: &Context,
    job: Job,
    run: RunId,
    slot: OwnedSemaphorePermit,
) -> Product {
    let owned = context.detached();
    let task_engine = Arc::clone(engine);
    engine.tasks.spawn(async move {
        let stopping = task_engine.stopping.clone();
        let cancel = owned.attendance.cancel.clone();
        let work = execute::finish(&task_engine, &owned, job, run);
        tokio::pin!(work);
        let result = tokio::select! {
            result = &mut work => result,
            () = stopping.cancelled() => {
                cancel.cancel();
                work.await
            }
        };
        if let Err(refusal) = result {
            tracing::debug!(%run, refusal = %refusal.message, "a detached run was refused");
        }
        if let Err(error) = task_engine.settle_with(&owned, None).await {
            tracing::error!(%run, %error, "the end of a detached run could not be journaled");
        }
        drop(slot);
    });
    let text = format!(
        "Detached as run:{run}. read run:{run} shows where it stands, run:{run}/output what it printed."
    );
    let value =
        json!({"status": "detached", "runId": run.to_string(), "sessionId": context.thread.id.to_string()});
    Product {
        run: Some(run),
        ..Product::text(text, format!("run:{run}"))
    }
    .value(value)
}
