//! The verbs over a real journal.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod support;

use std::time::Duration;

use pentad_engine::Limits;
use pentad_model::approval::Scope;
use pentad_model::run::RunStatus;
use pentad_model::{Actor, EventBody, RefusalKind, Status, Verb};
use pentad_program::{ActivityFilter, Attendance, EventRange, RunFilter, Verbs as _};
use serde_json::json;
use support::{Setup, bench, bench_with};

const CLIENT: &str = "client:tester";

#[tokio::test]
async fn an_unseen_tool_shows_its_contract_then_asks_then_runs_once() {
    let bench = bench();
    let call = json!({"tool": "change", "input": {"text": "x"}});

    let first = bench.act(CLIENT, Verb::Call, call.clone()).await;
    assert_eq!(first.status, Status::Ok);
    assert!(first.text.starts_with("Not called yet"), "{}", first.text);
    assert_eq!(bench.tools.count(), 0);

    let second = bench.act(CLIENT, Verb::Call, call.clone()).await;
    assert_eq!(second.status, Status::Waiting);
    let refusal = second.refusal.unwrap();
    assert_eq!(refusal.kind, RefusalKind::ApprovalRequired);
    assert!(refusal.to_text().contains("approval:"), "{}", refusal.to_text());
    assert_eq!(bench.tools.count(), 0);

    bench.approve(Scope::Once).await;
    let third = bench.act(CLIENT, Verb::Call, call.clone()).await;
    assert_eq!((third.status, third.text.as_str()), (Status::Ok, "did x"));
    assert_eq!(bench.tools.count(), 1);

    let fourth = bench.act(CLIENT, Verb::Call, call).await;
    assert_eq!(fourth.status, Status::Waiting, "a grant for once is used up");
    assert_eq!(bench.tools.count(), 1);
}

#[tokio::test]
async fn an_approval_is_void_when_the_tool_changed() {
    let bench = bench();
    let call = json!({"tool": "change", "input": {"text": "x"}});
    for _ in 0..2 {
        bench.act(CLIENT, Verb::Call, call.clone()).await;
    }
    bench.approve(Scope::Always).await;
    assert_eq!(bench.act(CLIENT, Verb::Call, call.clone()).await.text, "did x");

    bench.tools.version.store(1, std::sync::atomic::Ordering::SeqCst);
    let changed = bench.act(CLIENT, Verb::Call, call.clone()).await;
    assert!(
        changed.text.starts_with("Not called yet"),
        "a changed tool is unseen: {}",
        changed.text
    );
    let asked = bench.act(CLIENT, Verb::Call, call).await;
    assert_eq!(asked.status, Status::Waiting);
    assert_eq!(bench.tools.count(), 1);
}

#[tokio::test]
async fn a_trusted_read_only_tool_runs_at_first_touch_unless_strict() {
    let call = json!({"tool": "fake/look", "input": {"text": "x"}});
    let lenient = bench();
    assert_eq!(lenient.act(CLIENT, Verb::Call, call.clone()).await.text, "did x");

    let strict = bench_with(Setup {
        strict_touch: true,
        ..Setup::default()
    });
    assert!(
        strict
            .act(CLIENT, Verb::Call, call.clone())
            .await
            .text
            .starts_with("Not called yet")
    );
    assert_eq!(strict.act(CLIENT, Verb::Call, call).await.text, "did x");
}

#[tokio::test]
async fn input_that_does_not_fit_brings_the_contract_to_a_model_and_a_refusal_to_a_person() {
    let bench = bench();
    let call = json!({"tool": "look", "input": {"txt": "x"}});
    let model = bench.act(CLIENT, Verb::Call, call.clone()).await;
    assert_eq!(model.status, Status::Ok);
    assert!(
        model.text.starts_with("Not called: the input does not fit"),
        "{}",
        model.text
    );
    let person = bench.act("user", Verb::Call, call).await;
    assert_eq!(person.status, Status::Refused);
    assert_eq!(person.refusal.unwrap().kind, RefusalKind::Invalid);
    assert_eq!(bench.tools.count(), 0);
}

#[tokio::test]
async fn a_persons_valid_call_runs_and_promotes_nothing() {
    let bench = bench();
    let outcome = bench
        .act(
            "user",
            Verb::Call,
            json!({"tool": "change", "input": {"text": "x"}}),
        )
        .await;
    assert_eq!(outcome.text, "did x");
    assert!(bench.store.promoted(outcome.thread).await.unwrap().is_empty());
}

#[tokio::test]
async fn n03_a_name_that_nobody_has_brings_the_nearest() {
    let bench = bench();
    let outcome = bench
        .act(CLIENT, Verb::Call, json!({"tool": "lok", "input": {}}))
        .await;
    assert_eq!(outcome.status, Status::Refused);
    assert!(outcome.text.contains("fake/look"), "{}", outcome.text);
}

#[tokio::test]
async fn d06_every_invocation_is_called_and_returned_in_the_journal() {
    let bench = bench();
    let refused = bench.act(CLIENT, Verb::Read, json!({"address": "nowhere"})).await;
    assert_eq!(refused.status, Status::Refused);
    let done = bench
        .act(
            "user",
            Verb::Call,
            json!({"tool": "change", "input": {"text": "x"}}),
        )
        .await;

    let kinds =
        |page: pentad_program::EventPage| page.events.iter().map(|e| e.body.kind()).collect::<Vec<_>>();
    let first = bench
        .store
        .events(refused.thread, EventRange::After(0), 100)
        .await
        .unwrap();
    assert_eq!(kinds(first), ["called", "returned"]);
    let second = bench
        .store
        .events(done.thread, EventRange::After(0), 100)
        .await
        .unwrap();
    assert_eq!(
        kinds(second),
        ["called", "run_started", "intent", "run_status", "returned"]
    );
    assert_eq!(bench.store.verify(done.thread).await.unwrap(), None);

    let acted = ActivityFilter {
        actor: Some(Actor::User),
        limit: 100,
        ..ActivityFilter::default()
    };
    assert!(
        bench
            .store
            .activity(acted)
            .await
            .unwrap()
            .iter()
            .all(|e| e.caller.actor == Actor::User)
    );
}

#[tokio::test]
async fn o05_a_long_result_is_cut_and_the_rest_is_readable_by_its_address() {
    let bench = bench();
    let outcome = bench
        .act("user", Verb::Call, json!({"tool": "long", "input": {"text": ""}}))
        .await;
    assert!(outcome.omitted.is_none(), "a person's shell gets it whole");
    let mut invocation = bench.invocation("user", Verb::Call, json!({"tool": "long", "input": {"text": ""}}));
    invocation.view_bytes = Some(2048);
    let cut = bench.engine.invoke(invocation, Attendance::default()).await;
    let omitted = cut.omitted.unwrap();
    assert!(cut.text.len() <= 2048);
    assert_eq!(omitted.total_lines, 20_000);

    let rest = bench
        .act(
            "user",
            Verb::Read,
            json!({"address": omitted.address, "options": {"lines": "10000-10001"}}),
        )
        .await;
    assert_eq!(rest.text.trim_end(), "line 10000\nline 10001");
    let found = bench
        .act(
            "user",
            Verb::Read,
            json!({"address": omitted.address, "options": {"grep": "line 1999[89]"}}),
        )
        .await;
    assert!(
        found.text.contains("line 19998") && found.text.contains("line 19999"),
        "{}",
        found.text
    );
}

#[tokio::test]
async fn a_failed_tool_is_a_failed_outcome_with_a_settled_run() {
    let bench = bench();
    let outcome = bench
        .act(
            "user",
            Verb::Call,
            json!({"tool": "fail", "input": {"text": "broken pipe"}}),
        )
        .await;
    assert_eq!(
        (outcome.status, outcome.text.as_str()),
        (Status::Failed, "broken pipe")
    );
    let run = bench.store.run(outcome.run.unwrap()).await.unwrap();
    assert_eq!(run.status, RunStatus::Failed);
    assert_eq!(run.error.unwrap().message, "broken pipe");
}

#[tokio::test]
async fn an_image_is_an_attachment_and_a_part() {
    let bench = bench();
    let outcome = bench
        .act(
            "user",
            Verb::Call,
            json!({"tool": "picture", "input": {"text": ""}}),
        )
        .await;
    let pentad_model::Part::Image { cid, mime, data } = &outcome.parts[0] else {
        panic!("no image")
    };
    assert_eq!((mime.as_str(), data.as_deref()), ("image/png", Some("AQID")));
    assert_eq!(bench.store.attachment(cid).await.unwrap().bytes, 3);
}

#[tokio::test]
async fn canceling_a_call_settles_its_run_as_canceled() {
    let bench = bench();
    let attendance = Attendance::default();
    let cancel = attendance.cancel.clone();
    let invocation = bench.invocation("user", Verb::Call, json!({"tool": "wait", "input": {"text": ""}}));
    let head = bench.store.head().await.unwrap();
    let ((), outcome) = tokio::join!(
        async {
            // The intent is in the journal before the act; then there is something to cancel.
            while bench.tools.count() == 0 {
                bench.store.changed(head).await.unwrap();
                tokio::task::yield_now().await;
            }
            cancel.cancel();
        },
        bench.engine.invoke(invocation, attendance)
    );
    assert_eq!(outcome.status, Status::Failed);
    assert_eq!(
        bench.store.run(outcome.run.unwrap()).await.unwrap().status,
        RunStatus::Canceled
    );
}

#[tokio::test]
async fn delegate_runs_a_tool_as_a_child_awaited_or_detached() {
    let bench = bench();
    bench.engine.0.start().await.unwrap();
    let awaited = bench
        .act(
            "user",
            Verb::Delegate,
            json!({"recipe": "change", "input": {"text": "x"}, "title": "T"}),
        )
        .await;
    let value = awaited.value.unwrap();
    assert_eq!(
        (value["status"].as_str(), value["output"]["text"].as_str()),
        (Some("succeeded"), Some("did x"))
    );

    let detached = bench
        .act(
            "user",
            Verb::Delegate,
            json!({"recipe": "wait", "input": {"text": ""}, "await": false}),
        )
        .await;
    let value = detached.value.unwrap();
    assert_eq!(value["status"], "detached");
    while bench.tools.count() < 2 {
        tokio::task::yield_now().await;
    }
    let running = RunFilter {
        status: Some("running".to_owned()),
        limit: 10,
        ..RunFilter::default()
    };
    assert_eq!(bench.store.runs(running).await.unwrap().len(), 1);
    assert!(
        bench.engine.0.shutdown(Duration::from_secs(30)).await,
        "a detached run ends with its engine"
    );
    assert_eq!(
        bench.store.run(detached.run.unwrap()).await.unwrap().status,
        RunStatus::Canceled
    );
}

#[tokio::test]
async fn delegate_checks_the_owed_output_and_refuses_what_is_not_there() {
    let bench = bench();
    let owed =
        json!({"recipe": "change", "input": {"text": "x"}, "output": {"type": "object", "required": ["n"]}});
    let outcome = bench.act("user", Verb::Delegate, owed).await;
    assert_eq!(outcome.status, Status::Failed);
    assert_eq!(outcome.value.unwrap()["error"]["code"], "output-schema");
    for what in ["brief", "script"] {
        let refused = bench.act("user", Verb::Delegate, json!({what: "do it"})).await;
        assert_eq!(refused.refusal.unwrap().kind, RefusalKind::NotAvailable);
    }
}

#[tokio::test]
async fn g05_a_refused_detached_run_says_the_limit() {
    let limits = Limits {
        detached: 1,
        ..Limits::default()
    };
    let bench = bench_with(Setup {
        limits,
        ..Setup::default()
    });
    let job = json!({"recipe": "wait", "input": {"text": ""}, "await": false});
    assert_eq!(
        bench.act("user", Verb::Delegate, job.clone()).await.status,
        Status::Ok
    );
    let refused = bench.act("user", Verb::Delegate, job).await;
    assert_eq!(refused.refusal.unwrap().kind, RefusalKind::TooMany);
    assert!(bench.engine.0.shutdown(Duration::from_secs(30)).await);
}

#[tokio::test]
async fn a_plan_of_another_title_begins_another_thread() {
    let bench = bench();
    let plan =
        |title: &str| json!({"title": title, "steps": [{"id": "a", "label": "A", "status": "running"}]});
    let first = bench.act(CLIENT, Verb::Plan, plan("one")).await;
    let again = bench.act(CLIENT, Verb::Plan, plan("one")).await;
    let other = bench.act(CLIENT, Verb::Plan, plan("two")).await;
    assert_eq!(first.thread, again.thread);
    assert_ne!(first.thread, other.thread);
    let handle = first.value.unwrap()["thread"].clone();
    let back = bench
        .act(
            CLIENT,
            Verb::Plan,
            json!({"steps": [{"id": "a", "label": "A", "status": "done"}], "thread": handle}),
        )
        .await;
    assert_eq!(back.thread, first.thread);
    assert_eq!(
        bench.store.plan(first.thread).await.unwrap().unwrap().steps.len(),
        1
    );
}

#[tokio::test]
async fn files_outside_the_workspace_ask_and_secrets_of_the_home_never_show() {
    let bench = bench_with(Setup {
        secrets: vec!["canary-7f3a".to_owned()],
        ..Setup::default()
    });
    let outside = bench.dir.path().canonicalize().unwrap().join("outside.txt");
    std::fs::write(&outside, "the canary-7f3a sings").unwrap();
    let read = json!({"address": format!("file:{}", outside.display())});

    let asked = bench.act(CLIENT, Verb::Read, read.clone()).await;
    assert_eq!(asked.status, Status::Waiting, "{}", asked.text);
    let person = bench.act("user", Verb::Read, read).await;
    assert!(person.text.contains("the [secret] sings"), "{}", person.text);
    let state = format!(
        "file:{}",
        bench
            .dir
            .path()
            .canonicalize()
            .unwrap()
            .join("state/pentad.db")
            .display()
    );
    let refused = bench.act("user", Verb::Read, json!({"address": state})).await;
    assert_eq!(refused.status, Status::Refused, "{}", refused.text);
}

/// Returns the files below a folder that hold these bytes.
fn holders(folder: &std::path::Path, bytes: &[u8]) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(holders(&path, bytes));
        } else if std::fs::read(&path)
            .unwrap()
            .windows(bytes.len())
            .any(|w| w == bytes)
        {
            found.push(path);
        }
    }
    found
}

#[tokio::test]
async fn secret_values_stand_in_no_stream_that_became_a_blob() {
    let bench = bench_with(Setup {
        secrets: vec!["canary-7f3a".to_owned()],
        ..Setup::default()
    });
    let input = json!({"tool": "fake/spill", "input": {"text": "canary-7f3a"}});
    let outcome = bench.act("user", Verb::Call, input).await;
    assert_eq!(outcome.text.lines().next(), Some("[secret]"));
    let run = outcome.run.unwrap();
    let address = format!("run:{run}/output");
    let read = json!({"address": address, "options": {"bytes": "500000-500028"}});
    let part = bench.act("user", Verb::Read, read).await;
    assert!(part.text.contains("[secret], [secret]"), "{}", part.text);
    let home = bench.dir.path();
    assert_eq!(holders(home, b"canary-7f3a"), Vec::<std::path::PathBuf>::new());
    assert!(!home.join(format!("state/runs/{run}/stdout")).exists());
}

#[tokio::test]
async fn secret_values_stand_in_no_event() {
    let bench = bench_with(Setup {
        secrets: vec!["canary-7f3a".to_owned()],
        ..Setup::default()
    });
    let outcome = bench
        .act(
            "user",
            Verb::Call,
            json!({"tool": "change", "input": {"text": "canary-7f3a"}}),
        )
        .await;
    assert_eq!(outcome.text, "did [secret]");
    assert_eq!(
        bench.tools.last.lock().unwrap().as_ref().unwrap()["text"],
        "canary-7f3a",
        "the tool gets the value"
    );
    for event in bench.store.feed(0, 1000).await.unwrap() {
        assert!(
            !serde_json::to_string(&event).unwrap().contains("canary"),
            "{event:?}"
        );
    }
    let run = bench.store.run(outcome.run.unwrap()).await.unwrap();
    assert!(!serde_json::to_string(&run).unwrap().contains("canary"));
}

#[tokio::test]
async fn g07_what_a_run_does_is_journaled_before_it_starts() {
    let bench = bench();
    bench
        .act(
            "user",
            Verb::Call,
            json!({"tool": "change", "input": {"text": "x"}}),
        )
        .await;
    let events = bench.store.feed(0, 1000).await.unwrap();
    let at = |kind: &str| events.iter().position(|e| e.body.kind() == kind).unwrap();
    assert!(at("intent") < at("run_status"));
    let intent = events.iter().find_map(|e| match &e.body {
        EventBody::Intent { act, closure } => Some((act.clone(), closure.is_empty())),
        _ => None,
    });
    assert_eq!(intent, Some(("call:fake/change".to_owned(), false)));
}

#[tokio::test]
async fn search_finds_memory_threads_and_runs() {
    let bench = bench();
    bench
        .act(
            CLIENT,
            Verb::Write,
            json!({"address": "~/memory/notes/zebra.md", "content": "stripes"}),
        )
        .await;
    bench
        .act(
            "user",
            Verb::Call,
            json!({"tool": "change", "input": {"text": "zebra"}}),
        )
        .await;
    let found = bench
        .act(
            CLIENT,
            Verb::Call,
            json!({"tool": "search", "input": {"query": "zebra"}}),
        )
        .await;
    assert_eq!(found.status, Status::Ok, "{}", found.text);
    for address in ["~/memory/notes/zebra.md", "thread:", "run:"] {
        assert!(
            found.text.contains(address),
            "{address} missing in {}",
            found.text
        );
    }
}

#[tokio::test]
async fn verbs_deepen_on_demand() {
    let bench = bench();
    let page = bench
        .act(CLIENT, Verb::Read, json!({"address": "~/tools/write"}))
        .await;
    insta::assert_snapshot!(page.text);
}
