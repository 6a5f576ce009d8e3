//! Many children at once.

use std::sync::Arc;

use futures::stream::{FuturesUnordered, StreamExt as _};
use pentad_model::run::{OnLoss, RunError};
use pentad_model::verb::Budget;
use pentad_program::{Child, Context, Ending, Failure, Pending, Program};
use serde::Deserialize;
use serde_json::{Value, json};

/// Starts `children` runs of the program `program` with `input`, all at once, and returns how they ended.
pub struct FanOut;

#[derive(Deserialize)]
struct Input {
    children: usize,
    program: String,
    #[serde(default)]
    input: Value,
    #[serde(default)]
    name: Option<pentad_model::Name>,
    #[serde(default = "yes")]
    awaited: bool,
}

const fn yes() -> bool {
    true
}

impl Program for FanOut {
    fn kind(&self) -> &'static str {
        "fan-out"
    }

    fn execute(&self, context: Arc<dyn Context>, input: Value) -> Pending<Result<Ending, RunError>> {
        Box::pin(async move {
            let asked: Input = super::input(input)?;
            let mut ends: FuturesUnordered<_> = (0..asked.children)
                .map(|number| one(&context, &asked, number))
                .collect();
            let mut counts = std::collections::BTreeMap::<String, u64>::new();
            let mut order = Vec::new();
            while let Some((number, ended)) = ends.next().await {
                let word = match ended {
                    Ok(word) => word,
                    Err(Failure::Failed(error)) => error.code,
                    Err(Failure::Interrupted) => "interrupted".to_owned(),
                };
                *counts.entry(word).or_default() += 1;
                order.push(number);
            }
            Ok(Ending::done(json!({"ends": counts, "order": order})))
        })
    }
}

fn one(
    context: &Arc<dyn Context>,
    asked: &Input,
    number: usize,
) -> Pending<(usize, Result<String, Failure>)> {
    let child = Child {
        program: asked.program.clone(),
        title: format!("child {number}"),
        name: asked.name.clone(),
        input: asked.input.clone(),
        grants: None,
        output: None,
        budget: Budget::default(),
        awaited: asked.awaited,
        on_loss: OnLoss::Resume,
    };
    let started = context.spawn(child);
    let (context, awaited) = (Arc::clone(context), asked.awaited);
    Box::pin(async move {
        let ended = async {
            let run = started.await?;
            if !awaited {
                return Ok("detached".to_owned());
            }
            Ok(context.join(run).await?.status.word().to_owned())
        };
        (number, ended.await)
    })
}
