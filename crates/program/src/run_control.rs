//! Saying something to a run from outside.

use async_trait::async_trait;
use pentad_model::{Caller, Refusal, RunId};
use serde_json::Value;

use crate::run_store::{Canceling, Delivery};

/// Whoever executes runs, as those see it who steer them.
#[async_trait]
pub trait RunControl: Send + Sync {
    /// Asks a run and everything below it to end. What is being executed is settled when its processes are gone, which
    /// this does not wait for.
    ///
    /// # Errors
    /// Refuses (409) what has ended and has nothing alive below it.
    async fn cancel(&self, run: RunId, by: Caller, reason: String) -> Result<Canceling, Refusal>;

    /// Sends an event to a run: delivered once, now or when the run waits for it.
    ///
    /// # Errors
    /// Refuses (409) runs that have ended, or keep too many events that nobody waited for.
    async fn signal(&self, run: RunId, event: &str, value: Value, by: Caller) -> Result<Delivery, Refusal>;

    /// Answers what a run waits for at the command `position`: a budget, variables, or an event in its place.
    ///
    /// # Errors
    /// Refuses (409) when the run waits for nothing there.
    async fn answer(&self, run: RunId, position: u32, answer: Value, by: Caller) -> Result<(), Refusal>;

    /// Starts a run again that has ended, from its beginning, as a new run that continues it; returns its id.
    ///
    /// # Errors
    /// Refuses (409) what has not ended, and verbs: whoever invoked one invokes it again.
    async fn retry(&self, run: RunId, by: Caller) -> Result<RunId, Refusal>;
}
