//! Budgets that park, and how far a tree may grow.

use pentad_model::run::{RunStatus, WaitReason};
use pentad_model::verb::Budget;
use pentad_run::Limits;
use serde_json::json;

use crate::support::{Host, Setup, limits, user, words};

#[tokio::test]
async fn a_reached_budget_parks_and_more_of_it_goes_on() {
    let host = Host::new().await;
    let fan = json!({"children": 3, "program": "sequence", "input": {"steps": 1}});
    let mut new = host.new_run("fan-out", fan);
    new.terms.budget = Budget {
        children: Some(2),
        ..Budget::default()
    };
    let run = host.submit(new).await;
    let parked = host
        .until(run, |run| run.status == RunStatus::Waiting(WaitReason::Budget))
        .await;
    assert_eq!(parked.usage.children, 2);
    let waits = host.waits(run).await;
    let budget = waits
        .iter()
        .find(|wait| wait.what == pentad_program::WaitFor::Budget)
        .unwrap();
    let more = json!(Budget {
        children: Some(3),
        ..Budget::default()
    });
    host.runtime
        .answer(run, budget.position, more, user())
        .await
        .unwrap();
    let ended = host.end(run).await;
    assert_eq!(ended.output.unwrap()["ends"], json!({"succeeded": 3}));
    assert_eq!(ended.usage.children, 3);
    host.stop().await;
}

#[tokio::test]
async fn a_wall_budget_counts_from_the_beginning_and_survives_a_replay() {
    let host = Host::new().await;
    let mut new = host.new_run("sleeper", json!({"ms": 1000, "times": 2}));
    new.terms.budget.wall_ms = Some(1500);
    let run = host.submit(new).await;
    host.until_parked(run).await;
    host.clock.turn(1000);
    while host.steps(run).await.len() < 6 {
        tokio::task::yield_now().await;
    }
    host.clock.turn(1000);
    host.until(run, |run| run.status == RunStatus::Waiting(WaitReason::Budget))
        .await;
    let position = host.waits(run).await[0].position;
    host.runtime
        .answer(run, position, json!({"wall_ms": 10_000}), user())
        .await
        .unwrap();
    assert_eq!(host.end(run).await.status, RunStatus::Succeeded);
    host.stop().await;
}

#[tokio::test]
async fn g06_nesting_and_breadth_have_limits_that_say_what_is_in_use() {
    let host = Host::with(Setup {
        limits: Limits {
            depth: 2,
            children: 5,
            tree: 4,
            ..limits()
        },
        ..Setup::default()
    })
    .await;
    // Each generation starts one child of its own kind; the third has no room.
    let mut input = json!({"steps": 0});
    let mut program = "sequence";
    for _ in 0..3 {
        input = json!({"children": 1, "program": program, "input": input});
        program = "fan-out";
    }
    let run = host.start(program, input).await;
    host.end(run).await;
    let deepest = host
        .all()
        .await
        .into_iter()
        .find(|run| run.terms.depth == 2)
        .unwrap();
    let steps = host.steps(deepest.id).await;
    assert_eq!(words(&steps)[..3], ["started", "spawn 0", "failed 0"]);
    let told = format!("{:?}", steps[2].body);
    assert!(
        told.contains("3 generations below") && told.contains("2 is the limit"),
        "{told}"
    );

    let wide = json!({"children": 6, "program": "waiter", "input": {"event": "never"}, "awaited": false});
    let run = host.start("fan-out", wide).await;
    let ended = host.end(run).await;
    assert_eq!(ended.output.unwrap()["ends"], json!({"detached": 3, "limit": 3}));
    let told = format!("{:?}", host.steps(run).await);
    assert!(
        told.contains("4 runs of this tree have not ended, and 4 is the limit"),
        "{told}"
    );
    host.stop().await;
}

#[tokio::test]
async fn a_childs_grants_are_never_wider_than_its_parents() {
    let host = Host::new().await;
    let mut new = host.new_run(
        "fan-out",
        json!({"children": 1, "program": "sequence", "input": {"steps": 0}}),
    );
    new.grants = pentad_model::GrantSet::new(["read:file:/src/".parse::<pentad_model::Grant>().unwrap()]);
    let run = host.submit(new.clone()).await;
    host.end(run).await;
    assert_eq!(host.children(run).await[0].grants, new.grants);
    host.stop().await;
}

#[tokio::test]
async fn a_name_that_a_live_run_has_is_refused_to_a_child_and_its_parent_goes_on() {
    let host = Host::new().await;
    let named = json!({"children": 2, "program": "waiter", "input": {"event": "never"}, "name": "only",
                       "awaited": false});
    for expected in [json!({"detached": 1, "name": 1}), json!({"name": 2})] {
        let run = host.start("fan-out", named.clone()).await;
        assert_eq!(host.end(run).await.output.unwrap()["ends"], expected);
    }
    host.stop().await;
}
