//! Ending a run: what it did ends first, then its end is written, once.

use std::collections::BTreeMap;

use bytes::Bytes;
use pentad_model::RunId;
use pentad_model::event::EventBody;
use pentad_model::run::{Run, RunError, RunStatus, Stored, Terms};
use pentad_program::{Durability, Ending, NewRun, RunChange, Settlement, StoreError};
use serde_json::{Value, json};

use crate::batch::{Batch, event};
use crate::core::Core;
use crate::resident::{Ended, Exit, Resident};

/// How a run ends, as it is written.
struct End {
    status: RunStatus,
    output: Option<Value>,
    error: Option<RunError>,
    stored: BTreeMap<String, Stored>,
    continued: Option<NewRun>,
}

impl End {
    fn bad(status: RunStatus, error: RunError) -> Self {
        Self {
            status,
            output: None,
            error: Some(error),
            stored: BTreeMap::new(),
            continued: None,
        }
    }
}

impl Resident {
    /// Ends a run whose program has ended.
    pub(crate) async fn settle(mut self, mut batch: Batch, ended: Ended) -> Result<Exit, StoreError> {
        self.end_acts(&mut batch).await;
        let end = match ended {
            Ok(Ending::Done { output, stored }) => done(&self.core, &self.run, output, stored).await?,
            Ok(Ending::Failed {
                error,
                output,
                mut stored,
            }) => {
                let output = kept(&self.core, &self.run, output, &mut stored).await?;
                End {
                    output: Some(output),
                    stored,
                    ..End::bad(failure(&error), error)
                }
            }
            Ok(Ending::ContinueAsNew(input)) => self.continued(input),
            Err(error) => End::bad(failure(&error), error),
        };
        self.write(batch, end).await
    }

    /// Ends a run that somebody has asked to end, after everything that it did has ended.
    pub(crate) async fn settle_canceled(mut self) -> Result<Exit, StoreError> {
        let mut batch = Batch::new();
        self.end_acts(&mut batch).await;
        let error = RunError {
            code: "canceled".to_owned(),
            message: "It was asked to end, and what it did has ended.".to_owned(),
        };
        self.write(batch, End::bad(RunStatus::Canceled, error)).await
    }

    /// Ends a run whose journal cannot be followed: it is tried once, and never again.
    pub(crate) async fn give_up(self, error: RunError) -> Result<Exit, StoreError> {
        let at = self.core.clock.now();
        let status = RunStatus::Failed;
        let ended = event(
            &self.run,
            at,
            EventBody::RunStatus {
                status,
                error: Some(error.clone()),
            },
        );
        let change = RunChange {
            id: self.run.id,
            status,
            output: None,
            error: Some(error),
            stored: BTreeMap::new(),
            at,
        };
        match self
            .core
            .store
            .change_run(change, vec![ended], Durability::Power)
            .await
        {
            Ok(()) => Ok(Exit::Settled),
            Err(StoreError::Conflict(_)) => Ok(Exit::Fenced),
            Err(error) => Err(error),
        }
    }

    /// Ends what is still being done, and records what came of it.
    async fn end_acts(&mut self, batch: &mut Batch) {
        let ended = self.acts.end(self.core.limits.grace).await;
        let at = self.core.clock.now();
        for done in ended {
            batch.completed(at, done.position, done.recorded);
        }
        // Children that were asked for in the last moment are not started any more.
        batch.children.clear();
        batch.waits.clear();
    }

    fn continued(&self, input: Value) -> End {
        let run = &self.run;
        let id = RunId::generate();
        let next = NewRun {
            id,
            parent: run.parent,
            thread: run.thread,
            name: run.name.clone(),
            title: run.title.clone(),
            tool: run.tool.clone(),
            tool_cid: run.tool_cid.clone(),
            caller: run.caller.clone(),
            grants: run.grants.clone(),
            input,
            terms: Terms {
                continues: Some(run.id),
                budget: self.budget.clone(),
                ..run.terms.clone()
            },
            status: RunStatus::Queued,
            at: self.core.clock.now(),
        };
        End {
            status: RunStatus::Succeeded,
            output: Some(json!({"continuedAs": id})),
            error: None,
            stored: BTreeMap::new(),
            continued: Some(next),
        }
    }

    async fn write(self, batch: Batch, end: End) -> Result<Exit, StoreError> {
        let at = self.core.clock.now();
        let status = EventBody::RunStatus {
            status: end.status,
            error: end.error.clone(),
        };
        let mut events = batch.events;
        events.push(event(&self.run, at, status));
        let settlement = Settlement {
            run: self.run.id,
            after: self.last,
            steps: batch.steps,
            status: end.status,
            output: end.output,
            error: end.error,
            stored: end.stored,
            usage: Some(self.usage()),
            continued: end.continued,
            events,
            at,
        };
        match self.core.settle(settlement).await {
            Ok(()) => Ok(Exit::Settled),
            Err(StoreError::Conflict(why)) => {
                tracing::info!(run = %self.run.id, why, "this run was ended by somebody else");
                Ok(Exit::Fenced)
            }
            Err(error) => Err(error),
        }
    }
}

/// Returns the end of a run whose program returned a result: it must be what is owed.
async fn done(
    core: &Core,
    run: &Run,
    output: Value,
    mut stored: BTreeMap<String, Stored>,
) -> Result<End, StoreError> {
    if let Some(schema) = &run.terms.output
        && let Some(why) = misfit(schema, &output)
    {
        let error = RunError {
            code: "output-schema".to_owned(),
            message: format!("The result does not fit the owed output schema: {why}."),
        };
        return Ok(End {
            stored,
            ..End::bad(RunStatus::Failed, error)
        });
    }
    let output = kept(core, run, output, &mut stored).await?;
    Ok(End {
        status: RunStatus::Succeeded,
        output: Some(output),
        error: None,
        stored,
        continued: None,
    })
}

/// Returns what stands in the record for a result: itself, or where a large one is kept.
async fn kept(
    core: &Core,
    run: &Run,
    output: Value,
    stored: &mut BTreeMap<String, Stored>,
) -> Result<Value, StoreError> {
    let text = output.to_string();
    if text.len() <= core.limits.inline_bytes {
        return Ok(output);
    }
    let bytes = text.len() as u64;
    let blob = core.store.put_blob(Bytes::from(text)).await?;
    let whole = Stored {
        blob: blob.hash,
        bytes,
        lines: 1,
        mime: "application/json".to_owned(),
        truncated: false,
    };
    stored.insert("output".to_owned(), whole);
    Ok(json!({"stored": format!("run:{}/output", run.id), "bytes": bytes}))
}

/// Whoever says that nobody knows how far it came says what `lost` means.
fn failure(error: &RunError) -> RunStatus {
    match error.code.as_str() {
        "lost" => RunStatus::Lost,
        "canceled" => RunStatus::Canceled,
        _ => RunStatus::Failed,
    }
}

/// Returns where a result does not fit the schema that it is owed by.
fn misfit(schema: &Value, output: &Value) -> Option<String> {
    match jsonschema::validator_for(schema) {
        Ok(validator) => {
            let error = validator.iter_errors(output).next()?;
            let place = error.instance_path().to_string();
            let place = if place.is_empty() {
                "the whole".to_owned()
            } else {
                place
            };
            Some(format!("{place}: {error}"))
        }
        Err(error) => Some(format!("the schema itself is not valid: {error}")),
    }
}
