//! Waiting for events.

use std::sync::Arc;
use std::time::Duration;

use pentad_model::run::RunError;
use pentad_program::{Context, Ending, Pending, Program};
use serde::Deserialize;
use serde_json::{Value, json};

/// Waits for `count` events of the name `event`, each for `limit_ms` at most, and returns what came.
pub struct Waiter;

#[derive(Deserialize)]
struct Input {
    event: String,
    #[serde(default = "one")]
    count: usize,
    #[serde(default)]
    limit_ms: Option<u64>,
}

const fn one() -> usize {
    1
}

impl Program for Waiter {
    fn kind(&self) -> &'static str {
        "waiter"
    }

    fn execute(&self, context: Arc<dyn Context>, input: Value) -> Pending<Result<Ending, RunError>> {
        Box::pin(async move {
            let asked: Input = super::input(input)?;
            let limit = asked.limit_ms.map(Duration::from_millis);
            let mut came = Vec::new();
            for _ in 0..asked.count {
                came.push(context.wait(&asked.event, limit).await);
            }
            Ok(Ending::done(json!({"events": came})))
        })
    }
}
