//! Steering runs from outside, as refusals tell it.

use async_trait::async_trait;
use pentad_model::run::{RunStatus, Terms};
use pentad_model::{Caller, Refusal, RefusalKind, RunId};
use pentad_program::{Canceling, Delivery, NewRun, RunControl, StoreError};
use serde_json::Value;

use crate::runtime::Runtime;

fn refused(run: RunId, error: &StoreError) -> Refusal {
    let kind = match error {
        StoreError::NotFound(_) => RefusalKind::NotFound,
        StoreError::Conflict(_) => RefusalKind::Conflict,
        _ => RefusalKind::Unavailable,
    };
    Refusal::new(kind, format!("run:{run}"), error.to_string())
        .next_step(format!("read run:{run} shows where it stands"))
}

#[async_trait]
impl RunControl for Runtime {
    async fn cancel(&self, run: RunId, by: Caller, reason: String) -> Result<Canceling, Refusal> {
        Self::cancel(self, run, by, reason)
            .await
            .map_err(|e| refused(run, &e))
    }

    async fn signal(&self, run: RunId, event: &str, value: Value, by: Caller) -> Result<Delivery, Refusal> {
        self.send(run, event, value, by)
            .await
            .map_err(|e| refused(run, &e))
    }

    async fn answer(&self, run: RunId, position: u32, answer: Value, by: Caller) -> Result<(), Refusal> {
        Self::answer(self, run, position, answer, by)
            .await
            .map_err(|e| refused(run, &e))
    }

    async fn retry(&self, run: RunId, by: Caller) -> Result<RunId, Refusal> {
        let old = self.record(run).await.map_err(|e| refused(run, &e))?;
        let conflict = |text: &str| Err(Refusal::new(RefusalKind::Conflict, format!("run:{run}"), text));
        if !old.status.is_settled() {
            return conflict("This run has not ended; cancel it first, or wait.");
        }
        if !self.has_program(&old.terms.program) {
            return conflict("This was a verb that somebody invoked; invoke it again.");
        }
        let id = RunId::generate();
        let again = NewRun {
            id,
            parent: None,
            thread: old.thread,
            name: old.name,
            title: old.title,
            tool: old.tool,
            tool_cid: old.tool_cid,
            caller: by,
            grants: old.grants,
            input: old.input,
            terms: Terms {
                continues: Some(run),
                root: None,
                depth: 0,
                awaited: false,
                ..old.terms
            },
            status: RunStatus::Queued,
            at: self.now(),
        };
        self.submit(again, Vec::new())
            .await
            .map_err(|e| refused(run, &e))?;
        Ok(id)
    }
}
