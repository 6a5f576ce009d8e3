//! Asking runs to end.

use crate::durable::{AT, Two, WAITING, advance, child, conflict, ended, event, settle, step, two, user};
use pentad_model::run::RunStatus;
use pentad_model::{EventBody, RunId};
use pentad_program::{Advance, Canceling, NewRun, RunStore, Store, StoreError};
use serde_json::json;

async fn cancel(two: &Two, run: RunId) -> Canceling {
    two.b.cancel(run, user(), "enough".to_owned(), AT).await.unwrap()
}

/// A queued child of a run that `a` has.
async fn spawn(two: &Two, parent: RunId) -> RunId {
    let new = two.child_of(parent);
    let id = new.id;
    let spawned = Advance {
        children: vec![new],
        ..advance(parent, 0)
    };
    step(&two.a, spawned).await.unwrap();
    id
}

/// A child that `a` has claimed.
async fn running_child(two: &Two, parent: RunId) -> RunId {
    let id = spawn(two, parent).await;
    two.a.claim(1, AT).await.unwrap();
    id
}

#[tokio::test]
async fn what_nobody_executes_is_canceled_at_once() {
    let two = two().await;
    let parked = two.claimed(&two.a).await;
    two.parked(&two.a, parked, 0, vec![event(0, "x")]).await;
    let held = two.claimed(&two.a).await;
    let waiting = Advance {
        status: Some(WAITING),
        waits: vec![event(0, "x")],
        ..advance(held, 0)
    };
    step(&two.a, waiting).await.unwrap();
    let queued = two.start(two.program()).await;
    for run in [parked, held, queued] {
        let asked = cancel(&two, run).await;
        assert_eq!((asked.canceled, asked.canceling), (vec![run], vec![]));
        let record = two.run(run).await;
        assert_eq!((record.status, record.canceling), (RunStatus::Canceled, false));
        let error = record.error.unwrap();
        assert_eq!(
            (error.code.as_str(), error.message.as_str()),
            ("canceled", "Canceled by user: enough")
        );
        let events = two.a.run_events(run, 0, 9).await.unwrap().events;
        assert_eq!((events.len(), &events[0].caller), (1, &user()));
        let status = RunStatus::Canceled;
        assert_eq!(
            events[0].body,
            EventBody::RunStatus {
                status,
                error: Some(error)
            }
        );
        let again = two.b.cancel(run, user(), String::new(), AT).await;
        let text = conflict(again);
        assert!(text.ends_with("there is nothing to cancel"), "{text}");
    }
    // Who had one in memory learns it at the next write.
    conflict(two.a.take(held, 0, AT).await);
    assert_eq!(two.a.claim(9, AT).await.unwrap(), []);
    let nobody = two.a.cancel(RunId::generate(), user(), String::new(), AT).await;
    assert!(matches!(nobody, Err(StoreError::NotFound(_))));
}

#[tokio::test]
async fn a_tree_ends_from_its_leaves() {
    let two = two().await;
    let root = two.claimed(&two.a).await;
    let middle = running_child(&two, root).await;
    let leaf = running_child(&two, middle).await;
    let idle = spawn(&two, middle).await;
    two.parked(&two.a, root, 0, vec![child(0, middle)]).await;
    two.parked(&two.a, middle, 0, vec![child(0, leaf), event(1, "x")])
        .await;

    let asked = cancel(&two, root).await;
    assert_eq!(asked.canceled, [idle]);
    assert_eq!(asked.canceling, [leaf, middle, root]);
    assert_eq!(two.a.mail(9).await.unwrap(), [leaf]);
    assert!(two.run(root).await.canceling);
    // An answer that comes now begins nothing again.
    two.b.send(middle, "x", json!(1), user(), AT).await.unwrap();
    assert_eq!(two.status(middle).await, WAITING);
    assert_eq!(two.a.claim(9, AT).await.unwrap(), []);
    let settled = settle(&two.a, ended(leaf, 0, RunStatus::Canceled)).await.unwrap();
    assert_eq!(settled.canceled, [middle, root]);
    assert_eq!(settled.woken, []);
    for run in [leaf, middle, root] {
        assert_eq!(two.status(run).await, RunStatus::Canceled);
    }
    let caller = |run| {
        let a = two.a.clone();
        async move { a.run_events(run, 0, 9).await.unwrap().events[0].caller.clone() }
    };
    assert_eq!(caller(root).await, user());
}

#[tokio::test]
async fn what_is_executed_is_marked_and_settled_by_its_executor() {
    let two = two().await;
    let root = two.claimed(&two.a).await;
    let below = running_child(&two, root).await;
    let asked = cancel(&two, root).await;
    assert_eq!((asked.canceled, asked.canceling), (vec![], vec![below, root]));
    assert_eq!(two.a.mail(9).await.unwrap(), [root, below]);
    assert_eq!(two.a.mail(1).await.unwrap(), [root]);
    // To ask again changes nothing.
    assert_eq!(cancel(&two, root).await.canceling, [below, root]);
    let text = conflict(
        step(
            &two.a,
            Advance {
                status: Some(RunStatus::Queued),
                ..advance(root, 0)
            },
        )
        .await,
    );
    assert!(text.contains("settle it as canceled"), "{text}");
    let waiting = Advance {
        status: Some(WAITING),
        ..advance(root, 0)
    };
    step(&two.a, waiting).await.unwrap();
    assert!(!two.a.park(root, AT).await.unwrap());
    // It waits now, and the end of what is below it is its own.
    let settled = settle(&two.a, ended(below, 0, RunStatus::Canceled))
        .await
        .unwrap();
    assert_eq!(settled.canceled, [root]);
    assert_eq!(two.a.mail(9).await.unwrap(), []);
}

#[tokio::test]
async fn a_run_that_is_executed_is_not_ended_from_below() {
    let two = two().await;
    let root = two.claimed(&two.a).await;
    let below = running_child(&two, root).await;
    cancel(&two, root).await;
    let settled = settle(&two.a, ended(below, 0, RunStatus::Canceled))
        .await
        .unwrap();
    assert_eq!(settled.canceled, []);
    assert_eq!(two.status(root).await, RunStatus::Running);
    settle(&two.a, ended(root, 0, RunStatus::Canceled)).await.unwrap();
}

#[tokio::test]
async fn what_lives_below_an_ended_run_is_still_reached() {
    let two = two().await;
    let root = two.claimed(&two.a).await;
    let middle = running_child(&two, root).await;
    let new = two.child_of(middle);
    let detached = NewRun {
        terms: pentad_model::run::Terms {
            awaited: false,
            ..new.terms.clone()
        },
        ..new
    };
    let spawned = Advance {
        children: vec![detached.clone()],
        ..advance(middle, 0)
    };
    step(&two.a, spawned).await.unwrap();
    two.a.claim(1, AT).await.unwrap();
    settle(&two.a, ended(middle, 0, RunStatus::Succeeded))
        .await
        .unwrap();
    two.parked(&two.a, root, 0, vec![event(0, "x")]).await;
    let asked = cancel(&two, root).await;
    assert_eq!(asked.canceling, [detached.id, root]);
    // Its end passes the settled one on the way up.
    let settled = settle(&two.a, ended(detached.id, 0, RunStatus::Succeeded))
        .await
        .unwrap();
    assert_eq!(settled.canceled, [root]);
    assert_eq!(two.status(middle).await, RunStatus::Succeeded);
    conflict(two.b.cancel(middle, user(), String::new(), AT).await);
}

#[tokio::test]
async fn a_canceled_child_answers_a_parent_that_goes_on() {
    let two = two().await;
    let root = two.claimed(&two.a).await;
    let below = spawn(&two, root).await;
    two.parked(&two.a, root, 0, vec![child(0, below)]).await;
    let asked = cancel(&two, below).await;
    assert_eq!(asked.canceled, [below]);
    assert_eq!(two.status(root).await, RunStatus::Queued);
    two.b.claim(1, AT).await.unwrap();
    let taken = crate::durable::results(&two.b.take(root, 0, AT).await.unwrap());
    assert_eq!(taken[0].1["status"], json!("canceled"));
}

#[tokio::test]
async fn a_run_that_waits_in_memory_is_taken_from_there_and_ends_with_the_last_below_it() {
    let two = two().await;
    let root = two.claimed(&two.a).await;
    let below = running_child(&two, root).await;
    let join = Advance {
        waits: vec![child(0, below)],
        status: Some(WAITING),
        ..advance(root, 0)
    };
    step(&two.a, join).await.unwrap();
    assert_eq!(cancel(&two, root).await.canceling, [below, root]);
    assert_eq!(two.a.mail(9).await.unwrap(), [below]);
    conflict(two.a.take(root, 0, AT).await);
    conflict(two.a.park(root, AT).await);
    conflict(settle(&two.a, ended(root, 0, RunStatus::Canceled)).await);
    assert_eq!(two.status(root).await, WAITING);
    let settled = settle(&two.a, ended(below, 0, RunStatus::Canceled))
        .await
        .unwrap();
    assert_eq!((settled.canceled, settled.woken), (vec![root], vec![]));
}
