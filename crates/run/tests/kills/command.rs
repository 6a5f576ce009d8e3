//! A program whose acts are commands below a warden.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use pentad_model::run::RunError;
use pentad_model::step::Repeat;
use pentad_process::{CommandSpec, Spawner, SpawnerProgram};
use pentad_program::{Act, ActFailure, Attempt, Context, Ending, Failure, Pending, Program, StepSpec};
use serde::Deserialize;
use serde_json::{Value, json};

/// The variable that every command of a trial carries.
pub const MARK: &str = "PENTAD_TEST_MARK";

/// Does `steps` steps, one after another, each a command that appends its key to the witness.
pub struct Commands {
    spawner: Arc<Spawner>,
    mark: String,
}

#[derive(Deserialize)]
struct Input {
    steps: u64,
    repeat: Repeat,
    witness: PathBuf,
}

impl Commands {
    pub fn new(mark: String) -> Self {
        let program = SpawnerProgram {
            exe: std::env::current_exe().unwrap(),
            args: vec!["__spawner".into()],
        };
        Self {
            spawner: Arc::new(Spawner::launch(program).unwrap()),
            mark,
        }
    }

    pub fn spawner(&self) -> Arc<Spawner> {
        Arc::clone(&self.spawner)
    }
}

impl Program for Commands {
    fn kind(&self) -> &'static str {
        "commands"
    }

    fn execute(&self, context: Arc<dyn Context>, input: Value) -> Pending<Result<Ending, RunError>> {
        let (spawner, mark) = (Arc::clone(&self.spawner), self.mark.clone());
        Box::pin(async move {
            let input: Input = serde_json::from_value(input).unwrap();
            let mut interrupted = 0;
            for number in 0..input.steps {
                let spec = StepSpec {
                    name: "command".to_owned(),
                    input: json!(number),
                    label: String::new(),
                    repeat: input.repeat,
                };
                let (spawner, mark, witness) = (Arc::clone(&spawner), mark.clone(), input.witness.clone());
                let act: Act = Box::new(move |attempt| {
                    let (spawner, mark, witness) = (Arc::clone(&spawner), mark.clone(), witness.clone());
                    Box::pin(async move { append(&spawner, &mark, &witness, attempt).await })
                });
                match context.step(spec, act).await {
                    Ok(_) => {}
                    Err(Failure::Interrupted) => interrupted += 1,
                    Err(Failure::Failed(error)) => return Err(error),
                }
            }
            Ok(Ending::done(
                json!({"steps": input.steps, "interrupted": interrupted}),
            ))
        })
    }
}

async fn append(
    spawner: &Spawner,
    mark: &str,
    witness: &std::path::Path,
    attempt: Attempt,
) -> Result<Value, ActFailure> {
    let failed = |message: String| {
        ActFailure::Failed(RunError {
            code: "command".to_owned(),
            message,
        })
    };
    let mut spec = CommandSpec::new("/bin/sh", "/", attempt.key.clone());
    spec.args = ["-c", "echo \"$1\" >>\"$2\"", "sh", &attempt.key]
        .map(Into::into)
        .to_vec();
    spec.args.push(witness.into());
    spec.env = BTreeMap::from([
        ("PATH".into(), "/usr/bin:/bin".into()),
        (MARK.into(), mark.into()),
    ]);
    let child = spawner.spawn(spec).await.map_err(|e| failed(e.to_string()))?;
    let exit = child.wait().await;
    if exit.success() {
        Ok(json!(attempt.key))
    } else {
        Err(failed(format!("{exit:?}")))
    }
}
