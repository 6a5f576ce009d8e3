//! Going on for ever, a short journal at a time.

use std::sync::Arc;

use pentad_model::run::RunError;
use pentad_program::{Context, Ending, Pending, Program};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Effect;

/// Does `each` steps and continues as new, until it has done `until`.
pub struct Counter;

#[derive(Deserialize, Serialize)]
struct Input {
    until: u64,
    each: u64,
    #[serde(default)]
    done: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    witness: Option<std::path::PathBuf>,
}

impl Program for Counter {
    fn kind(&self) -> &'static str {
        "counter"
    }

    fn execute(&self, context: Arc<dyn Context>, input: Value) -> Pending<Result<Ending, RunError>> {
        Box::pin(async move {
            let mut asked: Input = super::input(input)?;
            let effect = Effect {
                witness: asked.witness.clone(),
                repeat: pentad_model::step::Repeat::Keyed,
            };
            for _ in 0..asked.each.max(1) {
                if asked.done >= asked.until {
                    return Ok(Ending::done(json!({"done": asked.done})));
                }
                effect.step(&context, asked.done).await?;
                asked.done += 1;
            }
            if asked.done >= asked.until {
                return Ok(Ending::done(json!({"done": asked.done})));
            }
            let next = serde_json::to_value(&asked).unwrap_or_default();
            Ok(Ending::ContinueAsNew(next))
        })
    }
}
