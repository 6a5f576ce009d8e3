//! Small programs that exercise what runs are made of, in tests and benchmarks.
//!
//! Where they have an effect it is a line in a *witness*: a file outside of everything that Pentad keeps, to which the act's
//! key is appended. Whoever honours keys counts different lines, whoever does not counts them all.

mod counter;
mod fan_out;
mod sequence;
mod sleeper;
mod waiter;

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use pentad_model::run::RunError;
use pentad_model::step::Repeat;
use pentad_program::{Act, ActFailure, Context, Failure, Pending, Program, StepSpec};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub use self::counter::Counter;
pub use self::fan_out::FanOut;
pub use self::sequence::Sequence;
pub use self::sleeper::Sleeper;
pub use self::waiter::Waiter;

/// Returns all of them.
#[must_use]
pub fn all() -> Vec<Arc<dyn Program>> {
    vec![
        Arc::new(Sequence),
        Arc::new(FanOut),
        Arc::new(Waiter),
        Arc::new(Sleeper),
        Arc::new(Counter),
    ]
}

/// What a step does, and what becomes of it when it is interrupted.
#[derive(Debug, Clone, Deserialize)]
struct Effect {
    /// The file to which each act appends its key.
    #[serde(default)]
    witness: Option<PathBuf>,
    /// What becomes of an interrupted act.
    #[serde(default = "safe")]
    repeat: Repeat,
}

const fn safe() -> Repeat {
    Repeat::Safe
}

impl Effect {
    /// Does step `number`; an interrupted one that may not be repeated is told as such.
    fn step(&self, context: &Arc<dyn Context>, number: u64) -> Pending<Result<Value, RunError>> {
        let spec = StepSpec {
            name: "count".to_owned(),
            input: json!(number),
            label: format!("step {number}"),
            repeat: self.repeat,
        };
        let witness = self.witness.clone();
        let act: Act = Box::new(move |attempt| {
            let witness = witness.clone();
            Box::pin(async move {
                if let Some(witness) = witness {
                    append(&witness, &attempt.key)
                        .map_err(|error| ActFailure::Failed(witnessless(&error)))?;
                }
                Ok(json!(number))
            })
        });
        let done = context.step(spec, act);
        Box::pin(async move {
            match done.await {
                Ok(value) => Ok(value),
                Err(Failure::Interrupted) => Ok(json!("interrupted")),
                Err(Failure::Failed(error)) => Err(error),
            }
        })
    }
}

fn append(witness: &std::path::Path, key: &str) -> std::io::Result<()> {
    let mut file = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(witness)?;
    file.write_all(format!("{key}\n").as_bytes())
}

fn witnessless(error: &std::io::Error) -> RunError {
    RunError {
        code: "witness".to_owned(),
        message: format!("The witness cannot be written: {error}."),
    }
}

/// Reads a program's input.
fn input<T: DeserializeOwned>(input: Value) -> Result<T, RunError> {
    serde_json::from_value(input).map_err(|error| RunError {
        code: "input".to_owned(),
        message: format!("The input is not what this program takes: {error}."),
    })
}
