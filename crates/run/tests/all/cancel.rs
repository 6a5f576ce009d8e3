//! Ending runs and whatever is below them.

use std::sync::Arc;

use pentad_model::run::{RunError, RunStatus};
use pentad_model::step::Repeat;
use pentad_program::{ActFailure, Context, Ending, Failure, Pending, Program, StepSpec};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::support::{Host, Setup, user};

/// Does one act that ends only when it is cancelled, and then not before it may.
struct Holding {
    begun: Arc<Semaphore>,
    may_end: Arc<Semaphore>,
}

impl Program for Holding {
    fn kind(&self) -> &'static str {
        "holding"
    }

    fn execute(&self, context: Arc<dyn Context>, _: Value) -> Pending<Result<Ending, RunError>> {
        let (begun, may_end) = (Arc::clone(&self.begun), Arc::clone(&self.may_end));
        Box::pin(async move {
            let spec = StepSpec {
                name: "hold".to_owned(),
                input: Value::Null,
                label: String::new(),
                repeat: Repeat::Never,
            };
            let act = move |attempt: pentad_program::Attempt| -> pentad_program::ActFuture {
                let (begun, may_end) = (Arc::clone(&begun), Arc::clone(&may_end));
                Box::pin(async move {
                    begun.add_permits(1);
                    attempt.attendance.cancel.cancelled().await;
                    may_end.acquire().await.unwrap().forget();
                    Err(ActFailure::Failed(RunError {
                        code: "canceled".to_owned(),
                        message: "as it was asked to".to_owned(),
                    }))
                })
            };
            context
                .step(spec, Box::new(act))
                .await
                .map(Ending::done)
                .map_err(Failure::into_error)
        })
    }
}

#[tokio::test]
async fn a_canceled_tree_ends_from_the_leaves_when_what_they_do_has_ended() {
    let (begun, may_end) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let mut setup = Setup::default();
    setup.programs.push(Arc::new(Holding {
        begun: Arc::clone(&begun),
        may_end: Arc::clone(&may_end),
    }));
    let host = Host::with(setup).await;
    let root = host
        .start(
            "fan-out",
            json!({"children": 3, "program": "fan-out",
               "input": {"children": 2, "program": "holding"}}),
        )
        .await;
    begun.acquire_many(6).await.unwrap().forget();
    let asked = host
        .runtime
        .cancel(root, user(), "the test is over".to_owned())
        .await
        .unwrap();
    assert!(asked.canceled.is_empty(), "nothing has ended yet: {asked:?}");
    assert!(host.run(root).await.canceling);
    assert!(!host.run(root).await.status.is_settled());
    may_end.add_permits(6);
    let ended = host.end(root).await;
    assert_eq!(ended.status, RunStatus::Canceled);
    assert_eq!(ended.error.unwrap().message, "Canceled by user: the test is over");
    let all = host.all().await;
    assert_eq!(all.len(), 10);
    assert!(all.iter().all(|run| run.status == RunStatus::Canceled));
    // Each ended after everything below it.
    for run in &all {
        let parent = run.parent.map(|id| all.iter().find(|p| p.id == id).unwrap());
        assert!(parent.is_none_or(|parent| parent.updated_at >= run.updated_at));
    }
    host.stop().await;
}

#[tokio::test]
async fn what_only_waits_is_canceled_at_once_and_stays_so() {
    let host = Host::new().await;
    let run = host.start("waiter", json!({"event": "never"})).await;
    host.until_parked(run).await;
    let asked = host.runtime.cancel(run, user(), String::new()).await.unwrap();
    assert_eq!(asked.canceled, [run]);
    assert_eq!(host.end(run).await.status, RunStatus::Canceled);
    assert!(crate::support::is_conflict(
        &host.runtime.cancel(run, user(), String::new()).await
    ));
    assert!(crate::support::is_conflict(
        &host.runtime.send(run, "never", Value::Null, user()).await
    ));
    host.stop().await;
}

#[tokio::test]
async fn children_that_are_waited_for_end_with_their_parent_and_detached_ones_do_not() {
    let host = Host::new().await;
    let fan =
        |awaited| json!({"children": 2, "program": "waiter", "input": {"event": "go"}, "awaited": awaited});
    let detaching = host.start("fan-out", fan(false)).await;
    assert_eq!(
        host.end(detaching).await.output.unwrap()["ends"],
        json!({"detached": 2})
    );
    for child in host.children(detaching).await {
        host.until_parked(child.id).await;
        host.runtime.send(child.id, "go", json!(1), user()).await.unwrap();
        assert_eq!(host.end(child.id).await.status, RunStatus::Succeeded);
    }
    host.stop().await;
}
