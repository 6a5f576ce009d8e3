use std::collections::BTreeMap;

use pentad_model::approval::{Approval, ApprovalState, Scope, Subject};
use pentad_model::event::EventBody;
use pentad_model::outcome::Status;
use pentad_model::run::{Run, RunError, RunStatus, Stored, Terms, Usage, WaitReason};
use pentad_model::thread::Thread;
use pentad_model::{Actor, ApprovalId, Grant, GrantSet, Name, RefusalKind, RunId, ThreadId, Verb};
use pentad_program::Store as _;
use serde_json::json;

use crate::support::{Home, NOW, PNG, home, id};

fn thread(last: u8, title: Option<&str>, agent: &str) -> Thread {
    Thread {
        id: ThreadId(id(last)),
        agent: agent.parse().unwrap(),
        opened_by: Actor::Client("claude-code".parse().unwrap()),
        title: title.map(str::to_owned),
        parent: None,
        cwd: None,
        created_at: NOW,
        updated_at: NOW.plus_millis(60_000),
        events: 6,
    }
}

fn run(last: u8, name: Option<&str>, status: RunStatus) -> Run {
    Run {
        id: RunId(id(last)),
        parent: None,
        thread: ThreadId(id(1)),
        name: name.map(|name| name.parse().unwrap()),
        title: "transcribe talk.mp3".to_owned(),
        tool: Some("recipes/transcribe".to_owned()),
        tool_cid: Some("bafy1".to_owned()),
        caller: Actor::User.into(),
        status,
        grants: GrantSet::new(["call:recipes/".parse::<Grant>().unwrap()]),
        input: json!({"file": "talk.mp3"}),
        terms: Terms::default(),
        usage: Usage::default(),
        canceling: false,
        output: None,
        error: None,
        stored: BTreeMap::new(),
        created_at: NOW,
        updated_at: NOW.plus_millis(5000),
    }
}

fn called(verb: Verb, arguments: serde_json::Value) -> EventBody {
    EventBody::Called {
        verb,
        arguments,
        cwd: "/work".to_owned(),
    }
}

fn returned(status: Status, text: &str) -> EventBody {
    EventBody::Returned {
        status,
        text: text.to_owned(),
        bytes: text.len() as u64,
        blob: None,
        value: None,
    }
}

fn talk(home: &Home) {
    let mut state = home.store.state.lock().unwrap();
    state.threads = vec![
        thread(1, Some("Harbour\u{202e} notes"), "main"),
        thread(2, None, "main"),
        thread(3, Some("Elsewhere"), "critic"),
    ];
    drop(state);
    let (one, work) = (ThreadId(id(1)), Some(RunId(id(9))));
    let event = |run, actor: &str, body| home.store.event(one, run, actor, body);
    event(
        None,
        "user",
        called(Verb::Read, json!({"address": "~/memory/harbour.md"})),
    );
    event(None, "user", returned(Status::Ok, "# Harbour\nlight ``` fence\n"));
    event(
        work,
        "client:claude-code",
        called(
            Verb::Call,
            json!({"tool": "transcribe", "input": {"file": "talk.mp3"}}),
        ),
    );
    event(
        work,
        "system",
        EventBody::RunStarted {
            title: "transcribe talk.mp3".to_owned(),
        },
    );
    event(
        work,
        "client:claude-code",
        returned(Status::Failed, "exit 1: no such file"),
    );
    event(
        None,
        "agent:main",
        EventBody::Note {
            text: "kept going".to_owned(),
        },
    );
}

#[tokio::test]
async fn threads_are_listed_page_by_page() {
    let home = home();
    talk(&home);
    insta::assert_snapshot!(home.text("thread:").await);
    let page = home
        .read(json!({"address": "thread:", "options": {"limit": 1, "agent": "*"}}))
        .await
        .unwrap();
    insta::assert_snapshot!("first_page", page.text);
    let next = page.value.unwrap()["next"].clone();
    let rest = home
        .read(json!({"address": "thread:", "options": {"agent": "*", "after": next}}))
        .await
        .unwrap();
    assert_eq!(rest.value.unwrap()["threads"].as_array().unwrap().len(), 2);
    let found = home
        .read(json!({"address": "thread:", "options": {"query": "Harbour"}}))
        .await
        .unwrap();
    insta::assert_snapshot!("found", found.text);
}

#[tokio::test]
async fn a_thread_is_read_from_either_end() {
    let home = home();
    talk(&home);
    let address = format!("thread:{}", id(1));
    insta::assert_snapshot!("names", home.text(&address).await);
    let full = home
        .read(json!({"address": address, "options": {"tools": "full"}}))
        .await
        .unwrap();
    insta::assert_snapshot!("full", full.text);

    let read = async |options: serde_json::Value| {
        let product = home
            .read(json!({"address": address, "options": options}))
            .await
            .unwrap();
        let value = product.value.unwrap();
        let seqs: Vec<u64> = value["events"]
            .as_array()
            .unwrap()
            .iter()
            .map(|e| e["seq"].as_u64().unwrap())
            .collect();
        (seqs, value["next"].clone())
    };
    let (seqs, next) = read(json!({"limit": 4})).await;
    assert_eq!(
        (seqs, &next),
        (vec![3, 4, 5, 6], &json!({"limit": 4, "before": "3"}))
    );
    assert_eq!(read(next).await, (vec![1, 2], json!(null)));
    let (seqs, next) = read(json!({"limit": 4, "after": "1"})).await;
    assert_eq!(
        (seqs, &next),
        (vec![2, 3, 4, 5], &json!({"limit": 4, "after": "5"}))
    );
    assert_eq!(read(next).await, (vec![6], json!(null)));
    // A query keeps what has all its words, and goes on where it stopped.
    assert_eq!(
        read(json!({"query": "TALK.mp3"})).await,
        (vec![3, 4], json!(null))
    );
    let (seqs, next) = read(json!({"query": "talk.mp3", "limit": 1})).await;
    assert_eq!((seqs, &next["before"]), (vec![4], &json!("4")));
    assert_eq!(read(next).await.0, [3]);
    let (seqs, next) = read(json!({"query": "talk.mp3", "limit": 1, "after": "0"})).await;
    assert_eq!((seqs, &next["after"]), (vec![3], &json!("3")));

    for options in [json!({"before": "x"}), json!({"before": "1", "after": "2"})] {
        let refusal = home
            .read(json!({"address": address, "options": options}))
            .await
            .unwrap_err();
        assert_eq!(refusal.kind, RefusalKind::BadRequest);
    }
    insta::assert_snapshot!("missing", home.refused("thread:zzzzzzzz").await.to_text());
}

async fn ran(home: &Home) {
    let store = &home.store;
    let mut stored = BTreeMap::new();
    for (name, mime, bytes) in [
        ("stdout", "text/plain", b"line 1\nline 2\nline 3\n".as_slice()),
        ("stderr", "text/plain", b"warning\n"),
        ("chart", "image/png", PNG),
        ("model", "application/octet-stream", b"\0\0"),
    ] {
        let blob = store.put_blob(bytes.to_vec().into()).await.unwrap();
        let one = Stored {
            blob: blob.hash,
            bytes: blob.bytes,
            lines: 0,
            mime: mime.to_owned(),
            truncated: name == "stderr",
        };
        stored.insert(name.to_owned(), one);
    }
    let mut done = run(9, Some("talk"), RunStatus::Failed);
    done.stored = stored;
    done.error = Some(RunError {
        code: "exit".to_owned(),
        message: "exit status 1".to_owned(),
    });
    let mut typed = run(8, None, RunStatus::Succeeded);
    typed.output = Some(json!({"words": 12}));
    let waiting = run(10, None, RunStatus::Waiting(WaitReason::Approval));
    store.state.lock().unwrap().runs = vec![typed, done, waiting];
}

#[tokio::test]
async fn runs_are_listed_and_their_parts_are_read() {
    let home = home();
    talk(&home);
    ran(&home).await;
    insta::assert_snapshot!("runs", home.text("run:").await);
    insta::assert_snapshot!("record", home.text("run:talk").await);
    insta::assert_snapshot!("run_journal", home.text("run:talk/journal").await);
    insta::assert_snapshot!("artifacts", home.text("run:talk/artifacts").await);
    assert_eq!(home.text("run:talk/output").await, "line 1\nline 2\nline 3\n");
    let read = |address: &'static str, options| home.read(json!({"address": address, "options": options}));
    let stderr = read("run:talk/output", json!({"stream": "stderr"}))
        .await
        .unwrap();
    assert_eq!(stderr.text, "warning\n");
    let part = read("run:talk/output", json!({"lines": "2"})).await.unwrap();
    assert_eq!((part.text.as_str(), part.total), ("line 2\n", Some((21, 3))));
    assert_eq!(part.address, format!("run:{}/output", id(9)));
    assert_eq!(
        read("run:talk/artifacts/chart", json!({}))
            .await
            .unwrap()
            .parts
            .len(),
        1
    );
    assert!(home.text("run:talk/artifacts/model").await.contains("not text"));
    insta::assert_snapshot!(
        "no_artifact",
        home.refused("run:talk/artifacts/none").await.to_text()
    );

    let typed = format!("run:{}/output", id(8));
    assert_eq!(home.text(&typed).await, "{\n  \"words\": 12\n}");
    let early = home.refused(&format!("run:{}/output", id(10))).await;
    insta::assert_snapshot!("no_output_yet", early.to_text());

    let page = read("run:", json!({"limit": 2})).await.unwrap().value.unwrap();
    let rest = read("run:", json!({"after": page["next"]}))
        .await
        .unwrap()
        .value
        .unwrap();
    assert_eq!(rest["runs"].as_array().unwrap().len(), 1);
    let failed = read("run:", json!({"status": "failed"}))
        .await
        .unwrap()
        .value
        .unwrap();
    assert_eq!(failed["runs"].as_array().unwrap().len(), 1);
    insta::assert_snapshot!(
        "no_status",
        read("run:", json!({"status": "broken"}))
            .await
            .unwrap_err()
            .to_text()
    );
}

#[tokio::test]
async fn activity_is_newest_first() {
    let home = home();
    talk(&home);
    insta::assert_snapshot!(home.text("activity:").await);
    let read = |options| home.read(json!({"address": "activity:", "options": options}));
    let page = read(json!({"limit": 4})).await.unwrap().value.unwrap();
    let rest = read(json!({"after": page["next"]})).await.unwrap().value.unwrap();
    assert_eq!(rest["events"].as_array().unwrap().len(), 2);
    let user = read(json!({"actor": "user"})).await.unwrap().value.unwrap();
    assert_eq!(user["events"].as_array().unwrap().len(), 2);
    for options in [
        json!({"actor": "root"}),
        json!({"since": "yesterday"}),
        json!({"after": "x"}),
    ] {
        assert_eq!(read(options).await.unwrap_err().kind, RefusalKind::BadRequest);
    }
}

#[tokio::test]
async fn approvals_are_listed_and_read() {
    let home = home();
    let approval = |last: u8, state| Approval {
        id: ApprovalId(id(last)),
        thread: ThreadId(id(1)),
        run: None,
        subject: Subject {
            actor: Actor::Client("cursor".parse().unwrap()),
            agent: Name::main(),
            act: "call:github/create_issue".to_owned(),
            input_hash: "00".to_owned(),
            closure_hash: "11".to_owned(),
        },
        question: "Create an issue \u{202e}in acme/app?".to_owned(),
        run_at_most: true,
        state,
        answered_by: None,
        created_at: NOW,
        answered_at: None,
    };
    let states = vec![
        approval(4, ApprovalState::Granted(Scope::Run)),
        approval(5, ApprovalState::Open),
    ];
    home.store.state.lock().unwrap().approvals = states;
    insta::assert_snapshot!("approvals", home.text("approval:").await);
    insta::assert_snapshot!("approval", home.text(&format!("approval:{}", id(5))).await);
    let open = home
        .read(json!({"address": "approval:", "options": {"state": "open"}}))
        .await
        .unwrap();
    assert_eq!(open.value.unwrap()["approvals"].as_array().unwrap().len(), 1);
    let refusal = home
        .read(json!({"address": "approval:", "options": {"state": "ajar"}}))
        .await;
    assert_eq!(refusal.unwrap_err().kind, RefusalKind::BadRequest);
}

#[tokio::test]
async fn oneself_and_other_agents_are_shown() {
    let mut home = home();
    home.scene.grants = GrantSet::new(["read:file:/src".parse::<Grant>().unwrap()]);
    home.write(json!({"address": "~/memory/a", "content": "12345"}))
        .await
        .unwrap();
    insta::assert_snapshot!("self", home.stable(&home.text("~/self").await));
    let agents = home.root.join("home/agents");
    insta::assert_snapshot!("no_agents", home.text("agent:").await);
    std::fs::create_dir_all(&agents).unwrap();
    std::fs::write(
        agents.join("critic.md"),
        "---\ndescription: Reads with care.\nmodel: x\n---\n\nFind faults.\n",
    )
    .unwrap();
    std::os::unix::fs::symlink("/etc/passwd", agents.join("evil.md")).unwrap();
    insta::assert_snapshot!("agents", home.text("agent:").await);
    insta::assert_snapshot!("agent", home.text("agent:critic").await);
    assert_eq!(home.refused("agent:evil").await.kind, RefusalKind::Forbidden);
    insta::assert_snapshot!("no_agent", home.refused("agent:nobody").await.to_text());
}

#[tokio::test]
async fn what_is_not_built_in_says_so() {
    let home = home();
    for address in [
        "~/triggers/",
        "~/channels/",
        "hm://a/b",
        "ipfs://bafy",
        "~/tools/",
        "mcp:github/x",
    ] {
        assert_eq!(
            home.refused(address).await.kind,
            RefusalKind::NotAvailable,
            "{address}"
        );
    }
    insta::assert_snapshot!(home.refused("hm://a/b").await.to_text());
    let trigger = home
        .write(json!({"address": "~/triggers/x", "content": "{}"}))
        .await
        .unwrap_err();
    assert_eq!(trigger.kind, RefusalKind::NotAvailable);
    let agent = home
        .write(json!({"address": "agent:x", "content": "y"}))
        .await
        .unwrap_err();
    assert_eq!(agent.kind, RefusalKind::NotSupported);
}
