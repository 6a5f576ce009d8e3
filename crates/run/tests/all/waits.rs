//! Timers, events, and runs that are parked.

use pentad_model::run::{RunStatus, WaitReason};
use pentad_program::Delivery;
use serde_json::{Value, json};

use crate::support::{Host, user};

#[tokio::test]
async fn a_timer_of_days_wakes_when_the_clock_gets_there_and_not_before() {
    const DAY: i64 = 86_400_000;
    let host = Host::new().await;
    let run = host
        .start(
            "sleeper",
            json!({"ms": 2 * DAY, "times": 2, "witness": host.witness()}),
        )
        .await;
    let parked = host.until_parked(run).await;
    assert_eq!(parked.status, RunStatus::Waiting(WaitReason::Timer));
    // A clock that is set back delays nothing twice and fires nothing early.
    host.clock.turn(-3 * DAY);
    host.clock.turn(4 * DAY);
    assert!(matches!(host.run(run).await.status, RunStatus::Waiting(_)));
    host.clock.turn(DAY);
    host.until(run, |_| host.witnessed().len() == 1).await;
    host.until_parked(run).await;
    host.clock.turn(2 * DAY);
    let ended = host.end(run).await;
    assert_eq!(ended.status, RunStatus::Succeeded);
    assert_eq!(ended.output.unwrap(), json!({"times": 2, "ms": 4 * DAY}));
    host.stop().await;
}

#[tokio::test]
async fn an_event_is_delivered_once_whether_it_comes_before_or_after_the_wait() {
    let host = Host::new().await;
    let run = host.start("waiter", json!({"event": "go", "count": 3})).await;
    host.until_parked(run).await;
    let send = |n: u64| host.runtime.send(run, "go", json!(n), user());
    assert_eq!(send(1).await.unwrap(), Delivery::Delivered);
    // The next ones may come before the program asks again.
    send(2).await.unwrap();
    send(3).await.unwrap();
    let ended = host.end(run).await;
    assert_eq!(ended.output.unwrap(), json!({"events": [1, 2, 3]}));
    assert!(crate::support::is_conflict(
        &host.runtime.send(run, "go", Value::Null, user()).await
    ));
    host.stop().await;
}

#[tokio::test]
async fn an_event_that_does_not_come_is_waited_for_no_longer_than_was_said() {
    let host = Host::new().await;
    let run = host
        .start("waiter", json!({"event": "go", "limit_ms": 1000, "count": 2}))
        .await;
    host.until_parked(run).await;
    host.clock.turn(1000);
    while host.steps(run).await.len() < 4 {
        tokio::task::yield_now().await;
    }
    host.runtime.send(run, "go", json!("late"), user()).await.unwrap();
    assert_eq!(
        host.end(run).await.output.unwrap(),
        json!({"events": [null, "late"]})
    );
    host.stop().await;
}
