//! From a program's beginning to its end.

use std::sync::Arc;

use pentad_model::run::{RunError, RunStatus};
use pentad_model::step::Repeat;
use pentad_program::{Context, Ending, Pending, Program, StepSpec};
use serde_json::{Value, json};

use crate::support::{Host, Setup, words};

#[tokio::test]
async fn a_program_is_recorded_step_by_step_and_ends_once() {
    let host = Host::new().await;
    let run = host
        .start(
            "sequence",
            json!({"steps": 2, "witness": host.witness(), "repeat": "never"}),
        )
        .await;
    let ended = host.end(run).await;
    assert_eq!(ended.status, RunStatus::Succeeded);
    assert_eq!(ended.output, Some(json!({"steps": 2, "interrupted": 0})));
    let steps = host.steps(run).await;
    assert_eq!(words(&steps), ["started", "step 0", "done 0", "step 1", "done 1"]);
    assert_eq!(host.witnessed().into_values().collect::<Vec<_>>(), [1, 1]);
    host.stop().await;
}

#[tokio::test]
async fn a_hundred_children_at_once_all_end_and_are_told_once() {
    let host = Host::new().await;
    let run = host
        .start(
            "fan-out",
            json!({"children": 100, "program": "sequence", "input": {"steps": 2}}),
        )
        .await;
    let ended = host.end(run).await;
    let output = ended.output.unwrap();
    assert_eq!(output["ends"], json!({"succeeded": 100}));
    let mut order: Vec<u64> = serde_json::from_value(output["order"].clone()).unwrap();
    order.sort_unstable();
    assert_eq!(order, (0..100).collect::<Vec<_>>());
    host.stop().await;
}

#[tokio::test]
async fn a_program_may_go_on_for_ever_with_short_journals() {
    let host = Host::new().await;
    let mut new = host.new_run(
        "counter",
        json!({"until": 10, "each": 3, "witness": host.witness()}),
    );
    new.name = Some("count".parse().unwrap());
    let first = host.submit(new).await;
    let mut last = host.end(first).await;
    let mut generations = 1;
    while let Some(next) = last.output.as_ref().and_then(|o| o.get("continuedAs")) {
        last = host.end(serde_json::from_value(next.clone()).unwrap()).await;
        generations += 1;
    }
    assert_eq!((generations, last.output), (4, Some(json!({"done": 10}))));
    assert_eq!(last.name.unwrap().as_str(), "count");
    assert_eq!(host.witnessed().len(), 10);
    host.stop().await;
}

#[tokio::test]
async fn a_child_that_owes_a_typed_result_ends_failed_without_one() {
    let host = Host::new().await;
    let mut new = host.new_run("sequence", json!({"steps": 1}));
    new.terms.output = Some(json!({"type": "object", "required": ["answer"]}));
    let run = host.submit(new).await;
    let ended = host.end(run).await;
    assert_eq!(ended.status, RunStatus::Failed);
    assert_eq!(ended.error.unwrap().code, "output-schema");
    host.stop().await;
}

/// Ends unexpectedly, or waits for nothing.
struct Odd;

impl Program for Odd {
    fn kind(&self) -> &'static str {
        "odd"
    }

    fn execute(&self, context: Arc<dyn Context>, input: Value) -> Pending<Result<Ending, RunError>> {
        Box::pin(async move {
            match input.as_str() {
                Some("panic") => panic!("as the test wants it"),
                Some("stuck") => std::future::pending().await,
                Some("large") => {
                    let spec = StepSpec {
                        name: "large".to_owned(),
                        input: Value::Null,
                        label: String::new(),
                        repeat: Repeat::Safe,
                    };
                    let act = |_| -> pentad_program::ActFuture {
                        Box::pin(async { Ok(json!("x".repeat(100_000))) })
                    };
                    let large = context.step(spec, Box::new(act)).await;
                    let value = large.map_err(pentad_program::Failure::into_error)?;
                    context.wait("go", None).await;
                    Ok(Ending::done(value))
                }
                _ => Ok(Ending::done(json!([
                    context.random(),
                    context.random(),
                    context.now()
                ]))),
            }
        })
    }
}

fn odd() -> Setup {
    Setup {
        programs: vec![Arc::new(Odd)],
        ..Setup::default()
    }
}

#[tokio::test]
async fn a_program_that_panics_or_waits_for_nothing_ends_failed_and_says_so() {
    let host = Host::with(odd()).await;
    for (input, code) in [("panic", "panic"), ("stuck", "stuck")] {
        let run = host.start("odd", json!(input)).await;
        let ended = host.end(run).await;
        assert_eq!(ended.status, RunStatus::Failed);
        assert_eq!(ended.error.unwrap().code, code);
    }
    host.stop().await;
}

#[tokio::test]
async fn a_large_result_is_kept_as_a_blob_and_given_again_after_a_replay() {
    let host = Host::with(odd()).await;
    let run = host.start("odd", json!("large")).await;
    host.until_parked(run).await;
    assert!(words(&host.steps(run).await).contains(&"stored 0".to_owned()));
    host.runtime
        .send(run, "go", Value::Null, crate::support::user())
        .await
        .unwrap();
    let ended = host.end(run).await;
    assert_eq!(ended.status, RunStatus::Succeeded);
    assert_eq!(ended.output.unwrap()["bytes"], 100_002);
    assert_eq!(ended.stored["output"].bytes, 100_002);
    host.stop().await;
}
