//! Child runs through `delegate`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod support;

use pentad_engine::Limits;
use pentad_model::event::EventBody;
use pentad_model::plan::StepStatus;
use pentad_model::run::RunStatus;
use pentad_model::{Status, Verb};
use pentad_program::{Attendance, EventRange, Verbs as _};
use serde_json::json;
use support::{Bench, Setup, bench, bench_with};

async fn started(bench: &Bench) {
    bench.engine.0.start().await.unwrap();
}

/// Waits until the tools were called so many times.
async fn called(bench: &Bench, times: usize) {
    while bench.tools.count() < times {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn d03_what_is_canceled_half_way_has_its_answer_behind_it_and_the_thread_goes_on() {
    let bench = bench();
    started(&bench).await;
    for (verb, arguments) in [
        (Verb::Call, json!({"tool": "wait", "input": {"text": ""}})),
        (Verb::Delegate, json!({"recipe": "wait", "input": {"text": ""}})),
    ] {
        let before = bench.tools.count();
        let attendance = Attendance::default();
        let cancel = attendance.cancel.clone();
        let invocation = bench.invocation("user", verb, arguments);
        let (outcome, ()) = tokio::join!(bench.engine.invoke(invocation, attendance), async {
            called(&bench, before + 1).await;
            cancel.cancel();
        });
        assert_eq!(outcome.status, Status::Failed);
        assert_eq!(
            bench.store.run(outcome.run.unwrap()).await.unwrap().status,
            RunStatus::Canceled
        );
        let events = bench
            .store
            .events(outcome.thread, EventRange::After(0), 1000)
            .await
            .unwrap()
            .events;
        let of_call: Vec<&EventBody> = events
            .iter()
            .filter(|event| event.call == Some(outcome.call))
            .map(|event| &event.body)
            .collect();
        assert!(
            matches!(of_call.first(), Some(EventBody::Called { .. })),
            "{of_call:?}"
        );
        assert!(
            matches!(of_call.last(), Some(EventBody::Returned { .. })),
            "{of_call:?}"
        );
    }
    let next = bench
        .act(
            "user",
            Verb::Call,
            json!({"tool": "change", "input": {"text": "x"}}),
        )
        .await;
    assert_eq!(next.status, Status::Ok);
}

#[tokio::test]
async fn g01_a_detached_child_is_known_by_its_id_before_it_is_done() {
    let bench = bench();
    started(&bench).await;
    let job = json!({"recipe": "wait", "input": {"text": ""}, "await": false});
    let outcome = bench.act("user", Verb::Delegate, job).await;
    let value = outcome.value.unwrap();
    assert_eq!(value["status"], "detached");
    let run = outcome.run.unwrap();
    assert_eq!(value["runId"], run.to_string());
    let record = bench.store.run(run).await.unwrap();
    assert!(!record.status.is_settled());
    // What a resume needs stands in the record before anything begins.
    assert_eq!(record.input["tool"], "fake/wait");
    assert_eq!(record.input["cid"], record.tool_cid.unwrap());
    assert!(bench.engine.0.shutdown(std::time::Duration::from_secs(30)).await);
}

#[tokio::test]
async fn g02_a_child_without_the_result_it_owes_fails_and_frees_its_place() {
    let bench = bench_with(Setup {
        limits: Limits {
            active: 1,
            ..Limits::default()
        },
        ..Setup::default()
    });
    started(&bench).await;
    let owed =
        json!({"recipe": "change", "input": {"text": "x"}, "output": {"type": "object", "required": ["n"]}});
    for _ in 0..3 {
        let outcome = bench.act("user", Verb::Delegate, owed.clone()).await;
        assert_eq!(outcome.value.unwrap()["error"]["code"], "output-schema");
        let record = bench.store.run(outcome.run.unwrap()).await.unwrap();
        assert_eq!(record.status, RunStatus::Failed);
    }
    let plain = json!({"recipe": "change", "input": {"text": "x"}});
    let outcome = bench.act("user", Verb::Delegate, plain).await;
    assert_eq!(outcome.value.unwrap()["status"], "succeeded");
}

#[tokio::test]
async fn a_step_of_the_plan_is_done_when_every_child_that_worked_on_it_has_succeeded() {
    let bench = bench();
    started(&bench).await;
    let steps = json!([{"id": "a", "label": "First", "status": "running"}, {"id": "b", "label": "Second"}]);
    let planned = bench.act("user", Verb::Plan, json!({"steps": steps})).await;
    let fail = json!({"recipe": "fail", "input": {"text": "no"}});
    bench.act("user", Verb::Delegate, fail).await;
    let plan = bench.store.plan(planned.thread).await.unwrap().unwrap();
    assert_eq!(
        plan.steps[0].status,
        StepStatus::Running,
        "a failure settles nothing"
    );

    // Another conversation, whose children all succeed.
    let thread = json!({"steps": steps, "title": "Again"});
    let planned = bench.act("client:other", Verb::Plan, thread).await;
    let done = bench
        .act(
            "client:other",
            Verb::Delegate,
            json!({"recipe": "look", "input": {"text": "x"}}),
        )
        .await;
    let plan = bench.store.plan(planned.thread).await.unwrap().unwrap();
    assert_eq!(plan.steps[0].status, StepStatus::Done, "{done:?}");
    assert_eq!(plan.steps[0].evidence, [done.run.unwrap()]);
    assert_eq!(plan.steps[1].status, StepStatus::Pending);
}

#[tokio::test]
async fn a_child_may_do_what_its_parent_may_and_no_more_than_was_asked() {
    let bench = bench();
    started(&bench).await;
    let run = |outcome: pentad_model::Outcome| outcome.run.unwrap();
    let asked = json!({"recipe": "change", "input": {"text": "x"}, "tools": ["look", "other/"]});
    let narrow = bench
        .store
        .run(run(bench.act("user", Verb::Delegate, asked).await))
        .await
        .unwrap();
    assert_eq!(narrow.status, RunStatus::Succeeded);
    let words: Vec<String> = narrow.grants.iter().map(ToString::to_string).collect();
    assert!(words.contains(&"call:fake/look".to_owned()), "{words:?}");
    assert!(
        words.contains(&"call:fake/change".to_owned()),
        "its own tool: {words:?}"
    );
    assert!(!words.contains(&"call:".to_owned()), "{words:?}");

    // What this run starts has at most as much, whatever it asks for.
    let mut wider = bench.invocation(
        "user",
        Verb::Delegate,
        json!({"recipe": "look", "input": {"text": "x"}}),
    );
    wider.run = Some(narrow.id);
    let child = bench.engine.invoke(wider, Attendance::default()).await;
    let child = bench.store.run(run(child)).await.unwrap();
    assert_eq!(
        (child.grants, child.parent, child.terms.depth),
        (narrow.grants, Some(narrow.id), 1)
    );
    let mut forbidden = bench.invocation(
        "user",
        Verb::Delegate,
        json!({"recipe": "fail", "input": {"text": "x"}}),
    );
    forbidden.run = Some(narrow.id);
    let refused = bench.engine.invoke(forbidden, Attendance::default()).await;
    assert_eq!(refused.status, Status::Refused);

    let unknown = json!({"recipe": "change", "input": {"text": "x"}, "tools": ["nothing-of-the-kind"]});
    assert_eq!(
        bench.act("user", Verb::Delegate, unknown).await.status,
        Status::Refused
    );
}
