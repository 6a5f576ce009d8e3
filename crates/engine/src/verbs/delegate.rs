//! `delegate`: a recipe as a child run, awaited or detached.

use std::sync::Arc;

use pentad_catalog::unfit;
use pentad_model::event::{EventBody, NewEvent};
use pentad_model::grant::{Grant, GrantVerb};
use pentad_model::outcome::Product;
use pentad_model::plan::StepStatus;
use pentad_model::run::{OnLoss, Run, RunStatus, Terms};
use pentad_model::verb::{Delegate, Work};
use pentad_model::{GrantSet, Refusal, RefusalKind, RunId, Timestamp};
use pentad_program::NewRun;
use serde_json::{Value, json};

use super::call::Found;
use super::execute::Job;
use crate::Engine;
use crate::child::{Company, RecipeJob};
use crate::invoke::{Context, store_refusal};

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
    let child = Child::of(engine, context, &delegate, &job).await?;
    if delegate.awaits {
        child.awaited(engine, context).await
    } else {
        child.detached(engine, context).await
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
            "tools",
            "output",
            "await",
            "budget.wallSeconds",
            "budget.children",
            "budget.depth",
        ]))
    };
    if delegate.agent.is_some() {
        return refuse("agentId");
    }
    if delegate.budget.tokens.is_some() || delegate.budget.cost_micros.is_some() {
        return refuse("budget");
    }
    Ok(())
}

impl Engine {
    /// Returns what a child may do: what its parent may, and of the tools only its own and those that were asked for.
    async fn grants_of_child(
        &self,
        context: &Context,
        asked: Option<&[String]>,
        own: &str,
    ) -> Result<GrantSet, Refusal> {
        let parent = &context.authority.grants;
        let Some(asked) = asked else {
            return Ok(parent.clone());
        };
        let mut grants: Vec<Grant> = parent
            .iter()
            .filter(|grant| {
                !matches!(
                    grant,
                    Grant::Act {
                        verb: GrantVerb::Call,
                        ..
                    }
                )
            })
            .cloned()
            .collect();
        grants.push(Grant::act(GrantVerb::Call, own));
        for name in asked {
            // `source/` stands for all tools of a source.
            let target = if name.ends_with('/') {
                name.clone()
            } else {
                match self.find_tool(context, name).await? {
                    Found::Tool(entry) => entry.document.tool.to_string(),
                    Found::Contract(_) => continue,
                }
            };
            grants.push(Grant::act(GrantVerb::Call, &target));
        }
        Ok(parent.intersect(&GrantSet::new(grants)))
    }
}

/// A child that is about to be started.
struct Child {
    run: NewRun,
    company: Company,
}

impl Child {
    async fn of(engine: &Engine, context: &Context, delegate: &Delegate, job: &Job) -> Result<Self, Refusal> {
        let document = &job.entry.document;
        let (root, depth) = engine.place_below(context).await?;
        let recipe = RecipeJob::of(engine, document, &job.input)
            .await
            .map_err(|e| store_refusal(&e))?;
        let tool = document.tool.to_string();
        let grants = engine
            .grants_of_child(context, delegate.tools.as_deref(), &tool)
            .await?;
        let terms = Terms {
            program: "recipe".to_owned(),
            root,
            depth,
            awaited: delegate.awaits,
            output: delegate.output.clone(),
            budget: delegate.budget.clone(),
            // One that is waited for is nobody's when whoever waits is gone.
            on_loss: if delegate.awaits {
                OnLoss::Lose
            } else {
                OnLoss::Resume
            },
            plan_step: engine.running_step(context).await?,
            continues: None,
            workspace: Some(context.workspace.clone()),
        };
        let company = Company {
            attendance: context.detached().attendance,
            until: None,
            input: recipe.masked.then(|| job.input.clone()),
            product: None,
        };
        let run = NewRun {
            id: RunId::generate(),
            parent: context.run,
            thread: context.thread.id,
            name: None,
            title: job.title.clone().unwrap_or_else(|| tool.clone()),
            tool: Some(tool),
            tool_cid: Some(recipe.cid.clone()),
            caller: context.caller.clone(),
            grants,
            input: serde_json::to_value(&recipe).unwrap_or_default(),
            terms,
            status: RunStatus::Queued,
            at: Timestamp::now(),
        };
        Ok(Self { run, company })
    }

    fn events(&self, context: &Context) -> Vec<NewEvent> {
        let title = self.run.title.clone();
        let started = context.event(Some(self.run.id), EventBody::RunStarted { title });
        context.with_opening(Some(started))
    }

    /// Starts the child and waits for its end. Whoever stops waiting ends it.
    async fn awaited(mut self, engine: &Arc<Engine>, context: &Context) -> Result<Product, Refusal> {
        let (id, events) = (self.run.id, self.events(context));
        self.company.attendance = context.attendance.clone();
        self.company.until = Some(context.until);
        engine.attending.join(id, self.company);
        let ended = engine.started_and_ended(context, self.run, events).await;
        let company = engine.attending.part(id).unwrap_or_default();
        Ok(told(&ended?, company.product))
    }

    /// Starts the child and leaves it.
    async fn detached(self, engine: &Arc<Engine>, context: &Context) -> Result<Product, Refusal> {
        engine.room_for_detached().await?;
        let (id, events) = (self.run.id, self.events(context));
        engine.attending.join(id, self.company);
        if let Err(error) = engine.runtime.submit(self.run, events).await {
            engine.attending.part(id);
            return Err(store_refusal(&error));
        }
        context.opened();
        engine.part_in_the_end(id);
        let text = format!(
            "Detached as run:{id}. read run:{id} shows where it stands, run:{id}/output what it printed."
        );
        let value = json!({
            "status": "detached",
            "runId": id.to_string(),
            "sessionId": context.thread.id.to_string(),
        });
        let product = Product {
            run: Some(id),
            ..Product::text(text, format!("run:{id}"))
        };
        Ok(product.value(value))
    }
}

impl Engine {
    /// Returns the place in the tree of a child of this invocation.
    pub(crate) async fn place_below(&self, context: &Context) -> Result<(Option<RunId>, u16), Refusal> {
        let Some(parent) = context.run else {
            return Ok((None, 0));
        };
        let parent = self
            .parts
            .store
            .run(parent)
            .await
            .map_err(|e| store_refusal(&e))?;
        match self.runtime.place_below(&parent).await {
            Ok((root, depth)) => Ok((Some(root), depth)),
            Err(text) => Err(Refusal::new(RefusalKind::TooMany, "delegate", text)),
        }
    }

    /// Returns the plan's step that a child works on: the only one that is running.
    async fn running_step(&self, context: &Context) -> Result<Option<String>, Refusal> {
        let plan = self
            .parts
            .store
            .plan(context.thread.id)
            .await
            .map_err(|e| store_refusal(&e))?;
        let steps = plan.map(|plan| plan.steps).unwrap_or_default();
        let mut running = steps
            .into_iter()
            .filter(|step| step.status == StepStatus::Running);
        Ok(match (running.next(), running.next()) {
            (Some(step), None) => Some(step.id),
            _ => None,
        })
    }

    /// Refuses a detached run where nothing stays to execute it, or where too many have not ended.
    async fn room_for_detached(&self) -> Result<(), Refusal> {
        let limit = self.parts.limits.detached;
        if limit == 0 {
            let message = "This process ends with the command, and a detached run would end with it.";
            return Err(
                Refusal::new(RefusalKind::NotAvailable, "await", message).next_step(
                    "wait for it (leave await out), or start it through pentad up or pentad mcp, which stay",
                ),
            );
        }
        let counts = self.runtime.counts().await.map_err(|e| store_refusal(&e))?;
        let in_use = counts.running + counts.queued + counts.waiting;
        if in_use < limit as u64 {
            return Ok(());
        }
        let message = format!(
            "{in_use} runs have not ended, and {limit} is the limit (limits.detached_runs): {} at work, {} queued, {} \
             waiting.",
            counts.running, counts.queued, counts.waiting
        );
        Err(Refusal::new(RefusalKind::TooMany, "delegate", message).next_step(
            "read {\"address\":\"run:\",\"options\":{\"status\":\"running\"}} lists them; await one, or wait",
        ))
    }

    /// Starts a run and waits for its end; whoever stops waiting ends it, and its end is waited for all the same.
    async fn started_and_ended(
        &self,
        context: &Context,
        run: NewRun,
        events: Vec<NewEvent>,
    ) -> Result<Run, Refusal> {
        let id = run.id;
        let cancel = &context.attendance.cancel;
        tokio::select! {
            started = self.runtime.execute(run, events) => started.map_err(|e| store_refusal(&e))?,
            // It waits for a place among those at work; nothing of it is recorded.
            () = cancel.cancelled() => return Err(crate::acts::canceled()),
        }
        context.opened();
        let ended = self.runtime.ended(id);
        tokio::pin!(ended);
        let ended = tokio::select! {
            ended = &mut ended => ended,
            () = cancel.cancelled() => {
                let reason = "Whoever waited for it went away.".to_owned();
                // One that ended just now needs no end.
                let _ended = self.runtime.cancel(id, context.caller.clone(), reason).await;
                ended.await
            }
        };
        ended.map_err(|e| store_refusal(&e))
    }

    /// Forgets what accompanies a detached run when it has ended here.
    fn part_in_the_end(self: &Arc<Self>, run: RunId) {
        let engine = Arc::clone(self);
        self.tasks.spawn(async move {
            tokio::select! {
                _ended = engine.runtime.ended(run) => {}
                () = engine.stopping.cancelled() => {}
            }
            engine.attending.part(run);
        });
    }
}

/// Returns what the delegating call is told about the end of its child.
fn told(run: &Run, product: Option<Product>) -> Product {
    let mut product = product.unwrap_or_else(|| kept(run));
    product.run = Some(run.id);
    product.failed = run.status != RunStatus::Succeeded;
    let status = match run.status {
        RunStatus::Lost => RunStatus::Failed.word(),
        other => other.word(),
    };
    let mut value = json!({
        "status": status,
        "runId": run.id.to_string(),
        "sessionId": run.thread.to_string(),
    });
    let (key, told) = match &run.error {
        Some(error) => {
            if error.code == "output-schema" {
                product.text = format!("{}\n\n{}", error.message, product.text);
            }
            ("error", json!({"code": error.code, "message": error.message}))
        }
        None => {
            let output = product.value.clone();
            ("output", output.unwrap_or_else(|| output_of(&product.text)))
        }
    };
    if let Some(map) = value.as_object_mut() {
        map.insert(key.to_owned(), told);
    }
    product.value(value)
}

/// Returns what the record alone tells, for a run that ended elsewhere or before it had a result.
fn kept(run: &Run) -> Product {
    let text = match (&run.error, &run.output) {
        (Some(error), _) => error.message.clone(),
        (None, Some(output)) => output
            .get("text")
            .and_then(Value::as_str)
            .map_or_else(|| format!("{output:#}"), str::to_owned),
        (None, None) => String::new(),
    };
    Product::text(text, format!("run:{}", run.id))
}

/// A text that is JSON counts as that value, any other as a text.
pub(crate) fn output_of(text: &str) -> Value {
    serde_json::from_str(text.trim()).unwrap_or_else(|_| json!({"text": text}))
}
