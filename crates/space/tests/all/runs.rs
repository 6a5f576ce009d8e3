//! Durable runs: what is seen of them, and how they are steered.

use std::collections::BTreeMap;
use std::sync::Arc;

use pentad_model::event::EventBody;
use pentad_model::run::{OnLoss, Run, RunError, RunStatus, Terms, Usage, WaitReason};
use pentad_model::step::{CommandKind, Completion, StepBody};
use pentad_model::verb::Budget;
use pentad_model::{ApprovalId, GrantSet, RefusalKind, RunId, ThreadId};
use pentad_program::{RunControl, RunStore, Store as _, Wait, WaitFor};
use serde_json::{Value, json};

use crate::runs_support::{MemoryRuns, Told, command, done};
use crate::support::{Home, NOW, home, id};

const ROOT: u8 = 20;

fn run(last: u8, title: &str, program: &str, status: RunStatus) -> Run {
    Run {
        id: RunId(id(last)),
        parent: None,
        thread: ThreadId(id(1)),
        name: None,
        title: title.to_owned(),
        tool: None,
        tool_cid: None,
        caller: "client:claude-code"
            .parse::<pentad_model::Actor>()
            .unwrap()
            .into(),
        status,
        grants: GrantSet::everything(),
        input: json!({"n": last}),
        terms: Terms {
            program: program.to_owned(),
            on_loss: OnLoss::Resume,
            ..Terms::default()
        },
        usage: Usage::default(),
        canceling: false,
        output: None,
        error: None,
        stored: BTreeMap::new(),
        created_at: NOW.plus_millis(-90_000),
        updated_at: NOW.plus_millis(-30_000),
    }
}

fn child(last: u8, title: &str, status: RunStatus) -> Run {
    let mut child = run(last, title, "script", status);
    child.parent = Some(RunId(id(ROOT)));
    child.terms.root = Some(RunId(id(ROOT)));
    child.terms.depth = 1;
    child.terms.awaited = true;
    child
}

fn error(code: &str, message: &str) -> Option<RunError> {
    Some(RunError {
        code: code.to_owned(),
        message: message.to_owned(),
    })
}

const MISMATCH: &str = "This run cannot be resumed: command 1 is recorded as step {\"name\":\"count\"} (00aa), and the \
                        program now asks for sleep {\"due\":5} (00bb). The program is not the one that ran before, or it \
                        depends on something else than what it was given; read run:<id>/journal, and start it again.";

/// A tree of all that runs can be, and a verb that a person invoked.
fn forest() -> (Home, Arc<MemoryRuns>, Arc<Told>) {
    let home = home();
    let mut root = run(
        ROOT,
        "Review the release",
        "agent",
        RunStatus::Waiting(WaitReason::Children),
    );
    root.name = Some("review".parse().unwrap());
    root.terms.budget = Budget {
        wall_ms: Some(1_200_000),
        tokens: Some(1000),
        cost_micros: Some(500_000),
        children: Some(10),
        depth: Some(2),
    };
    root.usage = Usage {
        tokens: 12,
        cost_micros: 20_000,
        children: 6,
    };
    root.terms.output = Some(json!({"type": "object", "required": ["verdict"]}));
    root.terms.plan_step = Some("check".to_owned());
    root.terms.continues = Some(RunId(id(19)));
    let mut failed = child(23, "Compare versions", RunStatus::Failed);
    failed.error = error("nondeterministic", MISMATCH);
    let mut ending = child(22, "Build", RunStatus::Running);
    ending.canceling = true;
    let mut lost = child(25, "Upload", RunStatus::Lost);
    lost.error = error("lost", "Its process is gone.");
    let mut canceled = child(26, "Announce", RunStatus::Canceled);
    canceled.error = error("canceled", "Canceled by user: not today");
    let mut verb = run(30, "write ~/memory/x", "", RunStatus::Succeeded);
    verb.output = Some(json!("done"));
    let mut call = run(31, "call line_count", "", RunStatus::Succeeded);
    call.tool = Some("recipes/line_count".to_owned());
    let mut grandchild = run(
        27,
        "Ask the owner",
        "script",
        RunStatus::Waiting(WaitReason::Approval),
    );
    grandchild.parent = Some(RunId(id(21)));
    grandchild.terms.root = Some(RunId(id(ROOT)));
    grandchild.terms.depth = 2;
    home.store.state.lock().unwrap().runs = vec![
        root,
        child(21, "Wait for approval", RunStatus::Waiting(WaitReason::Event)),
        ending,
        failed,
        child(24, "Sign", RunStatus::Queued),
        lost,
        canceled,
        grandchild,
        run(28, "Spend", "script", RunStatus::Waiting(WaitReason::Budget)),
        verb,
        call,
    ];
    let runs = MemoryRuns::new(&home.store);
    let wait = |run: u8, position, what, due: Option<i64>| {
        let due = due.map(|after| NOW.plus_millis(after));
        runs.wait(RunId(id(run)), Wait { position, what, due });
    };
    let event = |name: &str| WaitFor::Event {
        name: name.to_owned(),
    };
    wait(ROOT, 2, WaitFor::Child { run: RunId(id(21)) }, None);
    wait(21, 1, event("approve"), Some(3_600_000));
    wait(21, 3, WaitFor::Timer, Some(60_000));
    let approval = ApprovalId(id(70));
    wait(27, 0, WaitFor::Approval { approval }, None);
    wait(28, 4, WaitFor::Budget, None);
    let names = vec!["GITHUB_TOKEN".to_owned()];
    wait(28, 5, WaitFor::Env { names }, None);
    home.space
        .attach_run_store(Arc::clone(&runs) as Arc<dyn RunStore>);
    let told = Arc::new(Told::default());
    home.space
        .attach_run_control(&(Arc::clone(&told) as Arc<dyn RunControl>));
    history(&home, &runs);
    (home, runs, told)
}

/// What run 21 did, events and steps in turns.
fn history(home: &Home, runs: &MemoryRuns) {
    let (run, thread) = (RunId(id(21)), ThreadId(id(1)));
    let log = |at, text: &str| {
        let body = EventBody::Log {
            level: "info".to_owned(),
            source: format!("run:{run}"),
            text: text.to_owned(),
        };
        home.store
            .event_at(at, thread, Some(run), "client:claude-code", body);
    };
    let title = "Wait for approval".to_owned();
    let started = EventBody::RunStarted { title };
    home.store
        .event_at(1, thread, Some(run), "client:claude-code", started);
    let step = |at, by, body| runs.step(at, run, by, body);
    step(2, None, StepBody::Started);
    step(
        3,
        None,
        command(
            0,
            CommandKind::Step,
            "count",
            json!({"name": "count", "input": 0}),
        ),
    );
    log(4, "counting\u{202e}");
    step(5, None, done(0, json!({"rows": vec!["a rather long row"; 20]})));
    let what = json!({"what": {"for": "event", "name": "approve"}, "due": NOW.plus_millis(3_600_000)});
    step(6, None, command(1, CommandKind::Wait, "", what));
    let asked = json!({"verb": "read", "arguments": {"address": "~/self"}});
    step(7, None, command(2, CommandKind::Invoke, "", asked));
    let failed = Completion::Failed(RunError {
        code: "refused".to_owned(),
        message: "A person said no.".to_owned(),
    });
    step(
        8,
        None,
        StepBody::Completed {
            position: 2,
            completion: failed,
        },
    );
    log(9, "waiting");
    let due = json!({"what": {"for": "timer"}, "due": NOW.plus_millis(60_000)});
    step(10, None, command(3, CommandKind::Sleep, "", due));
    step(
        11,
        None,
        command(4, CommandKind::Step, "fetch", json!({"name": "fetch"})),
    );
    step(
        12,
        None,
        StepBody::Completed {
            position: 4,
            completion: Completion::Interrupted,
        },
    );
    step(13, None, StepBody::Again { position: 4 });
    let stored = Completion::Stored {
        blob: "ab".repeat(32),
        bytes: 1_400_000,
    };
    step(
        14,
        None,
        StepBody::Completed {
            position: 4,
            completion: stored,
        },
    );
    step(15, Some("user"), done(1, json!({"event": {"by": "ada"}})));
    let text = "looked at by hand".to_owned();
    step(16, Some("user"), StepBody::Note { text });
    // Another run of the same thread.
    runs.step(17, RunId(id(22)), None, StepBody::Started);
    let asked = json!({"name": "make", "input": null});
    runs.step(
        18,
        RunId(id(22)),
        None,
        command(0, CommandKind::Step, "make all", asked),
    );
}

async fn text(home: &Home, arguments: Value) -> String {
    home.read(arguments).await.unwrap().text
}

#[tokio::test]
async fn trees_show_who_started_whom_and_what_each_waits_for() {
    let (home, ..) = forest();
    let list = text(&home, json!({"address": "run:", "options": {"tree": true}})).await;
    insta::assert_snapshot!("trees", list);
    let one = home
        .read(json!({"address": "run:review", "options": {"tree": true}}))
        .await
        .unwrap();
    insta::assert_snapshot!("tree", one.text);
    let value = one.value.unwrap();
    assert_eq!(value["children"][0]["waits"].as_array().unwrap().len(), 2);
    assert_eq!(value["children"][0]["children"][0]["title"], "Ask the owner");
    let parts = home
        .read(json!({"address": "run:review/why", "options": {"tree": true}}))
        .await;
    assert_eq!(parts.unwrap_err().kind, RefusalKind::BadRequest);
}

#[tokio::test]
async fn a_tree_stands_once_over_all_pages() {
    let (home, ..) = forest();
    let mut seen = Vec::new();
    let mut options = json!({"tree": true, "limit": 1});
    loop {
        let page = home
            .read(json!({"address": "run:", "options": options}))
            .await
            .unwrap()
            .value
            .unwrap();
        for tree in page["trees"].as_array().unwrap() {
            seen.push(tree["title"].as_str().unwrap().to_owned());
        }
        match page.get("next") {
            Some(next) => options["after"] = next.clone(),
            None => break,
        }
    }
    assert_eq!(seen, ["call line_count", "Spend", "Review the release"]);
    let waiting = json!({"tree": true, "status": "failed"});
    let found = text(&home, json!({"address": "run:", "options": waiting})).await;
    assert!(found.contains("(review)") && !found.contains("Spend"), "{found}");
}

#[tokio::test]
async fn wide_trees_show_what_has_not_ended_and_count_the_rest() {
    let (home, ..) = forest();
    let more = (40..=255).map(|last| child(last, "One of many", RunStatus::Succeeded));
    home.store.state.lock().unwrap().runs.extend(more);
    let one = text(&home, json!({"address": "run:review", "options": {"tree": true}})).await;
    assert!(one.contains("Sign · queued"), "{one}");
    assert!(one.contains("  - 22 more: 22 succeeded\n"), "{one}");
    let record = home.text("run:review").await;
    assert!(record.contains("- 202 more: 202 succeeded\n"), "{record}");
}

#[tokio::test]
async fn verbs_that_succeeded_are_listed_when_asked_for() {
    let (home, ..) = forest();
    let list = home.text("run:").await;
    assert!(list.contains("call line_count") && !list.contains("write ~/memory/x"));
    let all = text(
        &home,
        json!({"address": "run:", "options": {"all": true, "limit": 3}}),
    )
    .await;
    assert!(all.contains("write ~/memory/x"), "{all}");
    assert!(all.contains("\"all\":true"), "{all}");
}

#[tokio::test]
async fn a_record_shows_terms_waits_and_children() {
    let (home, ..) = forest();
    insta::assert_snapshot!("durable_record", home.text("run:review").await);
    insta::assert_snapshot!("waiting_record", home.text(&format!("run:{}", id(21))).await);
    insta::assert_snapshot!("stopped_record", home.text(&format!("run:{}", id(23))).await);
    let value = home
        .read(json!({"address": "run:review"}))
        .await
        .unwrap()
        .value
        .unwrap();
    assert_eq!(value["waits"][0]["for"], "child");
    assert_eq!(value["children"].as_array().unwrap().len(), 6);
}

#[tokio::test]
async fn a_journal_has_events_and_steps_in_one_order_page_by_page() {
    let (home, ..) = forest();
    let address = format!("run:{}/journal", id(21));
    let whole = home.text(&address).await;
    insta::assert_snapshot!("durable_journal", whole);
    let numbers = |text: &str| -> Vec<u64> {
        text.lines()
            .filter_map(|line| line.strip_prefix('[')?.split(']').next()?.parse().ok())
            .collect()
    };
    assert_eq!(numbers(&whole), (1..=16).collect::<Vec<_>>());
    for limit in 1..=6 {
        let mut options = json!({"limit": limit});
        let mut found = Vec::new();
        loop {
            let page = home
                .read(json!({"address": address, "options": options}))
                .await
                .unwrap();
            found.extend(numbers(&page.text));
            match page.value.unwrap().get("next") {
                Some(next) => options = next.clone(),
                None => break,
            }
        }
        assert_eq!(found, (1..=16).collect::<Vec<_>>(), "pages of {limit}");
    }
    let late = text(&home, json!({"address": address, "options": {"after": "15"}})).await;
    assert_eq!(numbers(&late), [16]);
}

#[tokio::test]
async fn a_long_journal_is_entered_anywhere() {
    let (home, runs, _) = forest();
    let (run, thread) = (RunId(id(22)), ThreadId(id(1)));
    for at in 0..2500_u64 {
        let text = format!("line {at}");
        let position = 100 + 3 * at;
        home.store.event_at(
            position,
            thread,
            Some(run),
            "system",
            EventBody::Note { text: text.clone() },
        );
        runs.step(position + 1, run, None, StepBody::Note { text });
    }
    assert!(home.store.run_events(run, 0, 1000).await.unwrap().more);
    let address = format!("run:{run}/journal");
    for after in [99_u64, 100, 101, 102, 3000, 3001, 7598] {
        let page = text(
            &home,
            json!({"address": address, "options": {"after": after.to_string(), "limit": 3}}),
        )
        .await;
        let all = (0..2500_u64).flat_map(|at| [100 + 3 * at, 101 + 3 * at]);
        let expected: Vec<String> = all
            .filter(|p| *p > after)
            .take(3)
            .map(|p| format!("[{p}]"))
            .collect();
        let found: Vec<&str> = page.lines().filter_map(|line| line.split(' ').next()).collect();
        let found: Vec<&str> = found.into_iter().filter(|word| word.starts_with('[')).collect();
        assert_eq!(found, expected, "after {after}");
    }
}

#[tokio::test]
async fn why_says_in_each_status_what_is_missing() {
    let (home, ..) = forest();
    let mut all = String::new();
    for last in [ROOT, 21, 22, 23, 24, 25, 26, 27, 28, 30] {
        all.push_str(&home.text(&format!("run:{}/why", id(last))).await);
        all.push_str("\n=====\n\n");
    }
    insta::assert_snapshot!("why", all);
}

#[tokio::test]
async fn activity_has_steps_when_asked_for() {
    let (home, ..) = forest();
    let plain = home.text("activity:").await;
    assert!(!plain.contains("asked #"), "{plain}");
    let page = home
        .read(json!({"address": "activity:", "options": {"steps": true, "limit": 4, "after": "19"}}))
        .await
        .unwrap();
    insta::assert_snapshot!("activity_with_steps", page.text);
    let mut options = json!({"steps": true, "limit": 4, "after": "19"});
    let mut found = 0;
    loop {
        let page = home
            .read(json!({"address": "activity:", "options": options}))
            .await
            .unwrap()
            .value
            .unwrap();
        found += page["events"].as_array().unwrap().len() + page["steps"].as_array().unwrap().len();
        match page.get("next") {
            Some(next) => options["after"] = next.clone(),
            None => break,
        }
    }
    assert_eq!(found, 18);
    let reads = json!({"steps": true, "verb": "read", "after": "19"});
    let found = text(&home, json!({"address": "activity:", "options": reads})).await;
    assert!(
        found.contains("asked #2 invoke") && !found.contains("asked #0"),
        "{found}"
    );
    let by_user = json!({"steps": true, "actor": "user", "after": "19"});
    let found = text(&home, json!({"address": "activity:", "options": by_user})).await;
    assert!(
        found.contains("looked at by hand") && !found.contains("asked"),
        "{found}"
    );
}

fn write(last: u8, options: &Value, content: Option<&str>, dry: bool) -> Value {
    let mut arguments = json!({"address": format!("run:{}", id(last)), "options": options, "dryRun": dry});
    if let Some(content) = content {
        arguments["content"] = json!(content);
    }
    arguments
}

#[tokio::test]
async fn each_way_of_steering_acts_and_says_the_next_step() {
    let (home, _, told) = forest();
    let cases = [
        (21, json!({"signal": "approve"}), Some("{\"by\": \"ada\"}")),
        (21, json!({"signal": "other"}), Some("plain text")),
        (21, json!({"signal": "other"}), None),
        (21, json!({"answer": 1}), Some("42")),
        (
            28,
            json!({"answer": 4}),
            Some("{\"tokens\": 2000, \"wallSeconds\": 1.5}"),
        ),
        (28, json!({"answer": 5}), None),
        (ROOT, json!({"cancel": true}), Some("not today")),
        (23, json!({"retry": true}), None),
    ];
    let mut said = String::new();
    for (last, options, content) in &cases {
        let dry = home.write(write(*last, options, *content, true)).await.unwrap();
        said.push_str(&dry.text);
    }
    assert_eq!(told.0.lock().unwrap().len(), 0, "a dry run does nothing");
    for (last, options, content) in cases {
        let done = home.write(write(last, &options, content, false)).await.unwrap();
        said.push_str(&done.text);
    }
    let told = told.0.lock().unwrap();
    for told in told.iter() {
        said.push_str(&format!("{told}\n"));
    }
    insta::assert_snapshot!("steered", said);
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_before_anything_happens() {
    let (home, _, told) = forest();
    let cases = [
        (21, json!({}), None),
        (21, json!({"cancel": false}), None),
        (21, json!({"cancel": true, "retry": true}), None),
        (21, json!({"stop": true}), None),
        (21, json!({"signal": "x"}), Some("{broken")),
        (23, json!({"signal": "x"}), None),
        (21, json!({"answer": 9}), Some("1")),
        (21, json!({"answer": 3}), Some("1")),
        (27, json!({"answer": 0}), Some("1")),
        (ROOT, json!({"answer": 2}), Some("1")),
        (28, json!({"answer": 4}), None),
        (28, json!({"answer": 4}), Some("{\"token\": 5}")),
        (28, json!({"answer": 4}), Some("{}")),
        (28, json!({"answer": 5}), Some("{\"GITHUB_TOKEN\": \"secret\"}")),
        (23, json!({"cancel": true}), None),
        (21, json!({"retry": true}), None),
        (30, json!({"retry": true}), None),
        (23, json!({"retry": true}), Some("x")),
    ];
    let mut said = String::new();
    for dry in [true, false] {
        for (last, options, content) in &cases {
            let refusal = home
                .write(write(*last, options, *content, dry))
                .await
                .unwrap_err();
            if dry {
                said.push_str(&format!("{} {}\n\n", refusal.kind.status(), refusal.to_text()));
            }
        }
    }
    insta::assert_snapshot!("not_steered", said);
    assert_eq!(told.0.lock().unwrap().len(), 0);
    let journal = json!({"address": "run:review/journal", "options": {"cancel": true}});
    assert_eq!(
        home.write(journal).await.unwrap_err().kind,
        RefusalKind::NotSupported
    );
    let why = json!({"address": "run:review/why", "options": {"cancel": true}});
    assert_eq!(home.write(why).await.unwrap_err().kind, RefusalKind::NotSupported);
}

#[tokio::test]
async fn without_an_executor_runs_are_read_and_not_steered() {
    let (home, _, told) = forest();
    drop(told);
    let refusal = home
        .write(write(21, &json!({"cancel": true}), None, false))
        .await
        .unwrap_err();
    assert_eq!(refusal.kind, RefusalKind::NotAvailable);
    insta::assert_snapshot!("no_executor", refusal.to_text());
}
