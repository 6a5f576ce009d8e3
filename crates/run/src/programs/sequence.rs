//! One step after another.

use std::sync::Arc;

use pentad_model::run::RunError;
use pentad_program::{Context, Ending, Pending, Program};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Effect;

/// Does `steps` steps, one after another, and returns how many were interrupted.
pub struct Sequence;

#[derive(Deserialize)]
struct Input {
    steps: u64,
    #[serde(flatten)]
    effect: Effect,
}

impl Program for Sequence {
    fn kind(&self) -> &'static str {
        "sequence"
    }

    fn execute(&self, context: Arc<dyn Context>, input: Value) -> Pending<Result<Ending, RunError>> {
        Box::pin(async move {
            let Input { steps, effect } = super::input(input)?;
            let mut interrupted = 0;
            for number in 0..steps {
                let result = effect.step(&context, number).await?;
                interrupted += u64::from(result == json!("interrupted"));
            }
            Ok(Ending::done(json!({"steps": steps, "interrupted": interrupted})))
        })
    }
}
