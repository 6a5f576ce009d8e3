//! Evidence for steps of plans.

use crate::durable::{AT, ended, settle, two};
use crate::fixtures::new_run;
use pentad_model::EventBody;
use pentad_model::plan::{Plan, StepStatus};
use pentad_model::run::{RunStatus, Terms};
use pentad_program::{Durability, EventRange, NewRun, RunStore, Store};
use serde_json::json;

#[tokio::test]
async fn a_step_of_a_plan_is_done_when_all_runs_on_it_have_succeeded() {
    let two = two().await;
    let plan = Plan::parse(
        Some("Ship"),
        &json!([{"id": "a", "status": "running"}, {"id": "b"}, {"id": "c", "status": "skipped"}]),
    )
    .unwrap();
    two.a.set_plan(two.thread, plan, Vec::new()).await.unwrap();
    let on = |step: &str| {
        let new = two.program();
        NewRun {
            terms: Terms {
                plan_step: Some(step.to_owned()),
                ..new.terms
            },
            ..new
        }
    };
    let mut runs = Vec::new();
    for step in ["a", "a", "b", "b", "c", "none"] {
        runs.push(two.start(on(step)).await);
    }
    two.a.claim(9, AT).await.unwrap();
    let statuses = async || {
        let plan = two.a.plan(two.thread).await.unwrap().unwrap();
        let steps = plan.steps.into_iter();
        steps.map(|step| (step.status, step.evidence)).collect::<Vec<_>>()
    };
    let end = async |run, status| {
        settle(&two.a, ended(run, 0, status)).await.unwrap();
    };
    let (pending, running, skipped) = (StepStatus::Pending, StepStatus::Running, StepStatus::Skipped);
    let before = [(running, vec![]), (pending, vec![]), (skipped, vec![])];
    end(runs[0], RunStatus::Succeeded).await;
    end(runs[2], RunStatus::Failed).await;
    end(runs[3], RunStatus::Succeeded).await;
    end(runs[4], RunStatus::Succeeded).await;
    end(runs[5], RunStatus::Succeeded).await;
    assert_eq!(statuses().await, before);
    assert_eq!(two.a.head().await.unwrap(), 0);
    end(runs[1], RunStatus::Succeeded).await;
    let done = (StepStatus::Done, vec![runs[0], runs[1]]);
    assert_eq!(statuses().await, [done, (pending, vec![]), (skipped, vec![])]);
    let page = two.a.events(two.thread, EventRange::After(0), 9).await.unwrap();
    let [told] = &page.events[..] else {
        panic!("{page:?}");
    };
    let EventBody::PlanSet { plan } = &told.body else {
        panic!("{told:?}");
    };
    assert_eq!(
        (plan.steps[0].status, told.run),
        (StepStatus::Done, Some(runs[1]))
    );

    // A verb's run is evidence as well.
    let plan = Plan::parse(None, &json!([{"id": "d"}])).unwrap();
    two.a.set_plan(two.thread, plan, Vec::new()).await.unwrap();
    let new = NewRun {
        terms: Terms {
            plan_step: Some("d".to_owned()),
            ..Terms::default()
        },
        ..new_run(two.thread, None)
    };
    two.start(new.clone()).await;
    let change = crate::fixtures::settled(new.id, RunStatus::Succeeded);
    two.a
        .change_run(change, Vec::new(), Durability::Crash)
        .await
        .unwrap();
    assert_eq!(statuses().await, [(StepStatus::Done, vec![new.id])]);
}
