//! Runs: names, settlement and what a dead process left.

use crate::fixtures::{T0, home, home_with, new_run, new_thread, note, settled};
use pentad_journal::{Journal, JournalOptions, Owner};
use pentad_model::run::{RunError, RunStatus, Stored, WaitReason};
use pentad_model::{EventBody, RunId, Timestamp};
use pentad_program::{Durability, EventRange, NewRun, RunChange, RunFilter, Store, StoreError};
use serde_json::json;
use std::collections::BTreeMap;

#[tokio::test]
async fn a_run_is_recorded_changed_and_settled_once() {
    let home = home();
    let thread = home.thread().await;
    let new = new_run(thread, Some("report"));
    let id = new.id;
    let started = pentad_model::event::NewEvent {
        run: Some(id),
        ..note(thread, "started")
    };
    home.journal
        .start_run(new.clone(), vec![started.clone()], Durability::Power)
        .await
        .unwrap();
    let run = home.journal.run(id).await.unwrap();
    assert_eq!((run.status, &run.input), (RunStatus::Running, &new.input));
    assert_eq!((run.created_at, run.updated_at), (Timestamp(T0), Timestamp(T0)));

    let stored = |blob: &str| Stored {
        blob: blob.to_owned(),
        bytes: 3,
        lines: 1,
        mime: "text/plain".to_owned(),
        truncated: false,
    };
    let waiting = RunChange {
        output: Some(json!({"gain": 0.1})),
        stored: BTreeMap::from([("stdout".to_owned(), stored("a"))]),
        ..settled(id, RunStatus::Waiting(WaitReason::Approval))
    };
    home.journal
        .change_run(waiting, Vec::new(), Durability::Crash)
        .await
        .unwrap();
    let failed = RunChange {
        error: Some(RunError {
            code: "exit".to_owned(),
            message: "It exited with 1.".to_owned(),
        }),
        stored: BTreeMap::from([("stderr".to_owned(), stored("b"))]),
        ..settled(id, RunStatus::Failed)
    };
    home.journal
        .change_run(failed.clone(), vec![started], Durability::Power)
        .await
        .unwrap();
    let run = home.journal.run(id).await.unwrap();
    assert_eq!(run.status, RunStatus::Failed);
    assert_eq!(run.output, Some(json!({"gain": 0.1})));
    assert_eq!(run.stored.keys().collect::<Vec<_>>(), ["stderr", "stdout"]);
    assert_eq!(run.updated_at, Timestamp(T0 + 5));

    let again = home
        .journal
        .change_run(failed, vec![note(thread, "twice")], Durability::Power)
        .await;
    let Err(StoreError::Conflict(text)) = again else {
        panic!("{again:?}");
    };
    assert!(
        text.ends_with("has ended ('failed') and is not changed again"),
        "{text}"
    );
    let events = home.journal.run_events(id, 0, 10).await.unwrap();
    assert_eq!(events.events.iter().map(|e| e.seq).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(home.journal.run_events(id, 1, 10).await.unwrap().events.len(), 1);
    assert_eq!(home.journal.head().await.unwrap(), 2);
}

#[tokio::test]
async fn a_name_is_the_live_run_else_the_newest_else_an_ending() {
    let home = home();
    let thread = home.thread().await;
    let start = async |name| {
        let new = new_run(thread, name);
        home.journal
            .start_run(new.clone(), Vec::new(), Durability::Crash)
            .await
            .map(|()| new.id)
    };
    let end = async |id| {
        let change = settled(id, RunStatus::Succeeded);
        home.journal
            .change_run(change, Vec::new(), Durability::Crash)
            .await
            .unwrap();
    };
    let find = async |text: &str| home.journal.find_run(&text.parse().unwrap()).await.map(|r| r.id);

    let first = start(Some("build")).await.unwrap();
    let Err(StoreError::Conflict(text)) = start(Some("build")).await else {
        panic!("two live runs have one name");
    };
    assert!(
        text.contains(&format!("belongs to the live run {first}; take another name")),
        "{text}"
    );
    assert_eq!(find("build").await.unwrap(), first);
    end(first).await;
    let second = start(Some("build")).await.unwrap();
    assert_eq!(find("build").await.unwrap(), second);
    end(second).await;
    assert_eq!(find("build").await.unwrap(), second);

    let text = first.to_string();
    assert_eq!(find(&text).await.unwrap(), first);
    assert_eq!(find(pentad_model::text::suffix(&text, 9)).await.unwrap(), first);
    let Err(StoreError::NotFound(text)) = find("nothing").await else {
        panic!("found nothing");
    };
    insta::assert_snapshot!(text, @"there is no run named 'nothing', and an ending of an id has 8 characters or more");
}

#[tokio::test]
async fn an_ending_of_two_ids_is_ambiguous() {
    let home = home();
    let thread = home.thread().await;
    for first in [1_u8, 2] {
        let mut bytes = [7; 16];
        bytes[0] = first;
        let new = NewRun {
            id: RunId(pentad_model::Id::from_bytes(bytes)),
            ..new_run(thread, None)
        };
        home.journal
            .start_run(new, Vec::new(), Durability::Crash)
            .await
            .unwrap();
    }
    let id = pentad_model::Id::from_bytes([7; 16]).to_string();
    let found = home
        .journal
        .find_run(&pentad_model::text::suffix(&id, 10).parse().unwrap())
        .await;
    assert!(
        matches!(found, Err(StoreError::Ambiguous { count: 2, .. })),
        "{found:?}"
    );
}

#[tokio::test]
async fn runs_are_listed_by_status_thread_and_words() {
    let home = home();
    let (a, b) = (home.thread().await, home.thread().await);
    let mut ids = Vec::new();
    for n in 0..6 {
        let new = NewRun {
            title: format!("Job number {n}"),
            ..new_run(if n % 2 == 0 { a } else { b }, None)
        };
        ids.push(new.id);
        home.journal
            .start_run(new, Vec::new(), Durability::Crash)
            .await
            .unwrap();
    }
    let change = settled(ids[2], RunStatus::Failed);
    home.journal
        .change_run(change, Vec::new(), Durability::Crash)
        .await
        .unwrap();
    let list = async |filter: RunFilter| -> Vec<usize> {
        let runs = home
            .journal
            .runs(RunFilter { limit: 10, ..filter })
            .await
            .unwrap();
        runs.iter()
            .map(|r| ids.iter().position(|id| *id == r.id).unwrap())
            .collect()
    };
    let status = |word: &str| Some(word.to_owned());
    assert_eq!(list(RunFilter::default()).await, [5, 4, 3, 2, 1, 0]);
    let filter = RunFilter {
        before: Some(ids[3]),
        thread: Some(a),
        ..RunFilter::default()
    };
    assert_eq!(list(filter).await, [2, 0]);
    let filter = RunFilter {
        status: status("failed"),
        ..RunFilter::default()
    };
    assert_eq!(list(filter).await, [2]);
    let filter = RunFilter {
        query: Some("NUMBER meeting 4".to_owned()),
        ..RunFilter::default()
    };
    assert_eq!(list(filter).await, [4]);
    let filter = RunFilter {
        query: Some("job".to_owned()),
        status: status("running"),
        thread: Some(a),
        before: Some(ids[4]),
        ..RunFilter::default()
    };
    assert_eq!(list(filter).await, [0]);
    let filter = RunFilter {
        before: Some(RunId::generate()),
        limit: 1,
        ..RunFilter::default()
    };
    assert!(matches!(
        home.journal.runs(filter).await,
        Err(StoreError::NotFound(_))
    ));
}

fn owner(pid: u32) -> JournalOptions {
    JournalOptions {
        owner: Owner {
            pid,
            born: 1,
            boot: "b".to_owned(),
        },
        ..JournalOptions::default()
    }
}

#[tokio::test]
async fn d04_interrupted_runs_are_settled_and_noted_once() {
    let home = home_with(owner(1));
    let thread = home.thread().await;
    let start = async |journal: &Journal| {
        let new = new_run(thread, None);
        journal
            .start_run(new.clone(), Vec::new(), Durability::Crash)
            .await
            .unwrap();
        new.id
    };
    let dead = start(&home.journal).await;
    let parked = start(&home.journal).await;
    let change = settled(parked, RunStatus::Waiting(WaitReason::Approval));
    home.journal
        .change_run(change, Vec::new(), Durability::Crash)
        .await
        .unwrap();
    home.journal.close().await.unwrap();
    let alive = Journal::open(home.dir.path(), owner(2)).unwrap();
    let elsewhere = start(&alive).await;
    let own = Journal::open(home.dir.path(), owner(3)).unwrap();
    let mine = start(&own).await;

    let settle = async || {
        own.settle_interrupted(Timestamp(T0 + 9), |owner| owner.pid == 2)
            .await
            .unwrap()
    };
    assert_eq!(settle().await, [dead]);
    let head = own.head().await.unwrap();
    assert_eq!(settle().await, []);
    assert_eq!(own.head().await.unwrap(), head);

    let status = async |id| own.run(id).await.unwrap().status;
    assert_eq!(status(dead).await, RunStatus::Lost);
    assert_eq!(status(parked).await, RunStatus::Waiting(WaitReason::Approval));
    assert_eq!(status(elsewhere).await, RunStatus::Running);
    assert_eq!(status(mine).await, RunStatus::Running);
    let events = own.run_events(dead, 0, 10).await.unwrap().events;
    let bodies: Vec<_> = events.into_iter().map(|e| e.body).collect();
    assert!(
        matches!(
            &bodies[..],
            [
                EventBody::RunStatus {
                    status: RunStatus::Lost,
                    ..
                },
                EventBody::Note { .. }
            ]
        ),
        "{bodies:?}"
    );
}

#[tokio::test]
async fn a_run_belongs_to_the_process_that_changed_it_last() {
    let home = home_with(owner(1));
    let thread = home.thread().await;
    let new = new_run(thread, None);
    home.journal
        .start_run(new.clone(), Vec::new(), Durability::Crash)
        .await
        .unwrap();
    let resumed = Journal::open(home.dir.path(), owner(2)).unwrap();
    let change = settled(new.id, RunStatus::Running);
    resumed
        .change_run(change, Vec::new(), Durability::Crash)
        .await
        .unwrap();
    let lost = home
        .journal
        .settle_interrupted(Timestamp(T0), |owner| owner.pid == 2)
        .await
        .unwrap();
    assert_eq!(lost, []);
}

#[tokio::test]
async fn plans_and_threads_are_kept() {
    let home = home();
    let new = pentad_program::NewThread {
        key: Some("mcp:cursor".to_owned()),
        ..new_thread()
    };
    let thread = home.journal.open_thread(new.clone()).await.unwrap();
    let other = pentad_program::NewThread {
        id: pentad_model::ThreadId::generate(),
        ..new.clone()
    };
    assert_eq!(home.journal.open_thread(other).await.unwrap(), thread);
    let same_id = pentad_program::NewThread { key: None, ..new };
    assert!(matches!(
        home.journal.open_thread(same_id).await,
        Err(StoreError::Conflict(_))
    ));
    home.journal.title_thread(thread.id, "First").await.unwrap();
    home.journal.title_thread(thread.id, "Second").await.unwrap();
    let found = home
        .journal
        .find_thread(&thread.id.to_string().parse().unwrap())
        .await
        .unwrap();
    assert_eq!(found.title.as_deref(), Some("First"));

    assert_eq!(home.journal.plan(thread.id).await.unwrap(), None);
    let plan = |steps| pentad_model::plan::Plan::parse(Some("Ship"), &steps).unwrap();
    home.journal
        .set_plan(thread.id, plan(json!(["a"])), Vec::new())
        .await
        .unwrap();
    let second = plan(json!(["a", {"id": "b", "status": "done"}]));
    home.journal
        .set_plan(thread.id, second.clone(), vec![note(thread.id, "planned")])
        .await
        .unwrap();
    assert_eq!(home.journal.plan(thread.id).await.unwrap(), Some(second));
    let page = home
        .journal
        .events(thread.id, EventRange::After(0), 5)
        .await
        .unwrap();
    assert_eq!(page.events.len(), 1);
}
