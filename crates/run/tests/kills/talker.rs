//! A program that says a lot, and is then silent for long enough that the words of it are collected.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pentad_model::run::RunError;
use pentad_model::step::Repeat;
use pentad_program::{Act, Context, Ending, Failure, Pending, Program, StepSpec};
use serde::Deserialize;
use serde_json::{Value, json};

/// Says `lines` lines, sleeps, and does one step.
pub struct Talker;

#[derive(Deserialize)]
struct Input {
    lines: u64,
    ms: u64,
    witness: PathBuf,
}

impl Program for Talker {
    fn kind(&self) -> &'static str {
        "talker"
    }

    fn execute(&self, context: Arc<dyn Context>, input: Value) -> Pending<Result<Ending, RunError>> {
        Box::pin(async move {
            let input: Input = serde_json::from_value(input).unwrap();
            for line in 0..input.lines {
                context.emit("info", &format!("line {line} of many"));
            }
            context.sleep(Duration::from_millis(input.ms)).await;
            let spec = StepSpec {
                name: "end".to_owned(),
                input: Value::Null,
                label: String::new(),
                repeat: Repeat::Keyed,
            };
            let witness = input.witness;
            let act: Act = Box::new(move |attempt| {
                let mut file = std::fs::OpenOptions::new()
                    .append(true)
                    .create(true)
                    .open(&witness)
                    .unwrap();
                writeln!(file, "{}", attempt.key).unwrap();
                Box::pin(async { Ok(Value::Null) })
            });
            context.step(spec, act).await.map_err(Failure::into_error)?;
            Ok(Ending::done(json!({"lines": input.lines})))
        })
    }
}
