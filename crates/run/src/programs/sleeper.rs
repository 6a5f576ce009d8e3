//! Sleeping.

use std::sync::Arc;
use std::time::Duration;

use pentad_model::run::RunError;
use pentad_program::{Context, Ending, Pending, Program};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Effect;

/// Sleeps `times` times for `ms` and does a step after each.
pub struct Sleeper;

#[derive(Deserialize)]
struct Input {
    ms: u64,
    #[serde(default = "one")]
    times: u64,
    #[serde(flatten)]
    effect: Effect,
}

const fn one() -> u64 {
    1
}

impl Program for Sleeper {
    fn kind(&self) -> &'static str {
        "sleeper"
    }

    fn execute(&self, context: Arc<dyn Context>, input: Value) -> Pending<Result<Ending, RunError>> {
        Box::pin(async move {
            let asked: Input = super::input(input)?;
            let began = context.now();
            for number in 0..asked.times {
                context.sleep(Duration::from_millis(asked.ms)).await;
                asked.effect.step(&context, number).await?;
            }
            let slept = context.now().0 - began.0;
            Ok(Ending::done(json!({"times": asked.times, "ms": slept})))
        })
    }
}
