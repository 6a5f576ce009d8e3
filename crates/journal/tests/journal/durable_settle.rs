//! The end of a run, and what it leads to.

use crate::durable::{
    AT, Two, WAITING, advance, child, conflict, ended, event, note, results, settle, step, timer, two, user,
};
use crate::fixtures::{T0, text_of};
use pentad_journal::Journal;
use pentad_model::run::{RunError, RunStatus, Terms, Usage};
use pentad_model::{EventBody, RunId, Timestamp};
use pentad_program::{
    Advance, Durability, EventRange, NewRun, RunStore, Settled, Settlement, Store, StoreError,
};
use serde_json::json;

/// A running parent and its claimed child.
async fn family(two: &Two, by: &Journal) -> (RunId, RunId) {
    let parent = two.claimed(by).await;
    let new = two.child_of(parent);
    let spawned = Advance {
        children: vec![new.clone()],
        ..advance(parent, 0)
    };
    step(by, spawned).await.unwrap();
    by.claim(10, AT).await.unwrap();
    (parent, new.id)
}

async fn notes(two: &Two) -> Vec<String> {
    let page = two
        .a
        .events(two.thread, EventRange::After(0), 1_000)
        .await
        .unwrap();
    let notes = page
        .events
        .iter()
        .filter(|event| matches!(event.body, EventBody::Note { .. }));
    notes.map(|event| text_of(event).to_owned()).collect()
}

#[tokio::test]
async fn the_end_of_a_child_answers_its_parent() {
    let two = two().await;
    let (parent, joined) = family(&two, &two.a).await;
    two.parked(&two.a, parent, 0, vec![child(0, joined)]).await;
    let end = Settlement {
        steps: vec![note("last")],
        output: Some(json!({"sum": 3})),
        usage: Some(Usage {
            tokens: 5,
            ..Usage::default()
        }),
        events: vec![crate::fixtures::note(two.thread, "done")],
        ..ended(joined, 0, RunStatus::Succeeded)
    };
    let settled = settle(&two.a, end.clone()).await.unwrap();
    let woken = Settled {
        woken: vec![parent],
        ..Settled::default()
    };
    assert_eq!(settled, woken);
    let record = two.run(joined).await;
    assert_eq!(
        (record.status, record.usage.tokens, record.output),
        (RunStatus::Succeeded, 5, Some(json!({"sum": 3})))
    );
    assert_eq!(notes(&two).await, ["done"]);
    let text = conflict(settle(&two.a, end).await);
    assert!(
        text.ends_with("has ended ('succeeded') and is not changed again"),
        "{text}"
    );
    conflict(step(&two.a, advance(joined, 1)).await);

    two.b.claim(1, AT).await.unwrap();
    // A second wait for it is answered at once.
    let again = Advance {
        waits: vec![child(1, joined)],
        ..advance(parent, 0)
    };
    assert!(step(&two.b, again).await.unwrap().answered);
    let taken = two.b.take(parent, 0, AT).await.unwrap();
    let end = json!({"run": joined.to_string(), "status": "succeeded", "output": {"sum": 3}});
    assert_eq!(results(&taken), [(0, end.clone()), (1, end)]);
    let unknown = Advance {
        waits: vec![child(2, RunId::generate())],
        ..advance(parent, 2)
    };
    let refused = step(&two.b, unknown).await;
    assert!(matches!(refused, Err(StoreError::NotFound(_))), "{refused:?}");
}

#[tokio::test]
async fn a_run_that_is_changed_to_its_end_answers_the_parent_too() {
    let two = two().await;
    let (parent, joined) = family(&two, &two.a).await;
    two.parked(&two.a, parent, 0, vec![child(0, joined)]).await;
    let error = RunError {
        code: "exit".to_owned(),
        message: "It exited with 1.".to_owned(),
    };
    let change = pentad_program::RunChange {
        error: Some(error),
        ..crate::fixtures::settled(joined, RunStatus::Failed)
    };
    let elsewhere = two.b.change_run(change.clone(), Vec::new(), Durability::Crash);
    conflict(elsewhere.await);
    two.a
        .change_run(change, Vec::new(), Durability::Crash)
        .await
        .unwrap();
    two.b.claim(1, AT).await.unwrap();
    let taken = two.b.take(parent, 0, AT).await.unwrap();
    let end = json!({
        "run": joined.to_string(), "status": "failed",
        "error": {"code": "exit", "message": "It exited with 1."},
    });
    assert_eq!(results(&taken), [(0, end)]);
}

#[tokio::test]
async fn a_large_output_still_reaches_the_parent() {
    let two = two().await;
    let (parent, joined) = family(&two, &two.a).await;
    two.parked(&two.a, parent, 0, vec![child(0, joined)]).await;
    let end = Settlement {
        output: Some(json!("x".repeat(2 << 20))),
        ..ended(joined, 0, RunStatus::Succeeded)
    };
    settle(&two.a, end).await.unwrap();
    two.b.claim(1, AT).await.unwrap();
    assert_eq!(two.b.take(parent, 0, AT).await.unwrap().len(), 1);
    let large = Advance {
        steps: vec![note(&"x".repeat(1 << 20))],
        ..advance(parent, 1)
    };
    let text = conflict(step(&two.b, large).await);
    assert!(text.contains("a step 'note' of"), "{text}");
}

#[tokio::test]
async fn the_end_of_a_parent_ends_whom_it_alone_waited_for() {
    let two = two().await;
    let parent = two.claimed(&two.a).await;
    let children: Vec<NewRun> = (0..4).map(|_| two.child_of(parent)).collect();
    let ids: Vec<RunId> = children.iter().map(|new| new.id).collect();
    let detached = NewRun {
        terms: Terms {
            awaited: false,
            ..children[0].terms.clone()
        },
        ..two.child_of(parent)
    };
    let spawned = Advance {
        children: [children, vec![detached.clone()]].concat(),
        ..advance(parent, 0)
    };
    step(&two.a, spawned).await.unwrap();
    two.b.claim(2, AT).await.unwrap();
    two.parked(&two.b, ids[1], 0, vec![event(0, "go")]).await;
    settle(&two.b, ended(two.claimed(&two.b).await, 0, RunStatus::Succeeded))
        .await
        .unwrap();
    // The claim took what was queued besides: the third and the fourth run at `b`, and so does the detached one.
    let settled = settle(&two.a, ended(parent, 0, RunStatus::Failed)).await.unwrap();
    assert_eq!(settled.canceled, [ids[1]]);
    assert_eq!(settled.canceling, [ids[0], ids[2], ids[3]]);
    assert_eq!(settled.woken, []);
    assert_eq!(two.b.mail(9).await.unwrap(), [ids[0], ids[2], ids[3]]);
    let canceled = two.run(ids[1]).await;
    let message = canceled.error.unwrap().message;
    assert_eq!(
        message,
        format!("Canceled by system: its parent, run {parent}, has ended")
    );
    assert!(two.run(ids[0]).await.canceling && !two.run(detached.id).await.canceling);

    // A result that comes all the same is noted, one that was canceled is none, and the detached one was never asked for.
    let end = async |run, status| settle(&two.b, ended(run, 0, status)).await.unwrap();
    end(ids[0], RunStatus::Succeeded).await;
    end(ids[2], RunStatus::Canceled).await;
    end(ids[3], RunStatus::Failed).await;
    end(detached.id, RunStatus::Succeeded).await;
    let late = |run, word| format!("Run {run} ended after its parent {parent}: {word}.");
    assert_eq!(
        notes(&two).await,
        [late(ids[0], "succeeded"), late(ids[3], "failed")]
    );
    assert!(!two.run(ids[0]).await.canceling);
}

#[tokio::test]
async fn a_child_that_ends_before_its_parent_waits_tells_nobody() {
    let two = two().await;
    let (parent, joined) = family(&two, &two.a).await;
    let settled = settle(&two.a, ended(joined, 0, RunStatus::Succeeded))
        .await
        .unwrap();
    assert_eq!(settled, Settled::default());
    assert_eq!(notes(&two).await, Vec::<String>::new());
    let join = Advance {
        waits: vec![child(0, joined)],
        ..advance(parent, 0)
    };
    assert!(step(&two.a, join).await.unwrap().answered);
}

#[tokio::test]
async fn a_run_that_goes_on_as_another_keeps_name_place_and_who_waits() {
    let two = two().await;
    let parent = two.claimed(&two.a).await;
    let first = NewRun {
        name: Some("loop".parse().unwrap()),
        ..two.child_of(parent)
    };
    let spawned = Advance {
        children: vec![first.clone()],
        ..advance(parent, 0)
    };
    step(&two.a, spawned).await.unwrap();
    two.a.claim(1, AT).await.unwrap();
    two.parked(&two.a, parent, 0, vec![child(0, first.id)]).await;
    two.b.send(first.id, "old", json!(1), user(), AT).await.unwrap();
    let second = NewRun {
        name: Some("other".parse().unwrap()),
        parent: None,
        ..two.child_of(parent)
    };
    let end = Settlement {
        continued: Some(second.clone()),
        ..ended(first.id, 0, RunStatus::Succeeded)
    };
    assert_eq!(settle(&two.a, end).await.unwrap(), Settled::default());
    let found = two.a.find_run(&"loop".parse().unwrap()).await.unwrap();
    assert_eq!(
        (found.id, found.status, found.name.as_ref()),
        (second.id, RunStatus::Queued, first.name.as_ref())
    );
    assert_eq!(two.a.waits(parent).await.unwrap(), [child(0, second.id)]);
    let ids: Vec<_> = two
        .a
        .children(parent, 9)
        .await
        .unwrap()
        .iter()
        .map(|r| r.id)
        .collect();
    assert_eq!(ids, [first.id, second.id]);
    two.a.claim(1, AT).await.unwrap();
    let end = Settlement {
        output: Some(json!("end")),
        ..ended(second.id, 0, RunStatus::Succeeded)
    };
    assert_eq!(settle(&two.a, end).await.unwrap().woken, [parent]);
    two.a.claim(1, AT).await.unwrap();
    // Whoever waits for the first later is told of the last.
    let late = Advance {
        waits: vec![child(1, first.id)],
        ..advance(parent, 0)
    };
    assert!(step(&two.a, late).await.unwrap().answered);
    let taken = results(&two.a.take(parent, 0, AT).await.unwrap());
    assert_eq!(taken[0].1, taken[1].1);
    assert_eq!(taken[1].1["run"], json!(second.id.to_string()));
}

#[tokio::test]
async fn a_run_that_was_asked_to_end_does_not_go_on_as_another() {
    let two = two().await;
    let run = two.claimed(&two.a).await;
    two.b.cancel(run, user(), "enough".to_owned(), AT).await.unwrap();
    let next = two.program();
    let end = Settlement {
        continued: Some(next.clone()),
        ..ended(run, 0, RunStatus::Succeeded)
    };
    assert_eq!(settle(&two.a, end).await.unwrap().canceled, [run]);
    let found = two.run(run).await;
    assert_eq!(
        (found.status, found.error.unwrap().message.as_str()),
        (RunStatus::Canceled, "Canceled by user: enough")
    );
    assert!(matches!(two.a.run(next.id).await, Err(StoreError::NotFound(_))));
}

#[tokio::test]
async fn waits_and_kept_events_go_with_their_run() {
    let two = two().await;
    let run = two.claimed(&two.a).await;
    two.a.send(run, "x", json!(1), user(), AT).await.unwrap();
    let waiting = Advance {
        waits: vec![event(0, "y"), timer(1, T0 + 500)],
        ..advance(run, 0)
    };
    step(&two.a, waiting).await.unwrap();
    settle(&two.a, ended(run, 0, RunStatus::Failed)).await.unwrap();
    assert_eq!(two.a.waits(run).await.unwrap(), []);
    assert_eq!(two.a.fire(Timestamp(T0 + 900)).await.unwrap(), None);
    let look = rusqlite::Connection::open(two.a.database()).unwrap();
    let left: i64 = look
        .query_one(
            "SELECT (SELECT count(*) FROM wait) + (SELECT count(*) FROM kept)",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(left, 0);
}

#[tokio::test]
async fn live_runs_are_counted_of_all_and_of_one_tree() {
    let two = two().await;
    let (parent, first) = family(&two, &two.a).await;
    let alone = two.claimed(&two.a).await;
    let second = two.child_of(parent);
    let spawned = Advance {
        children: vec![second],
        status: Some(WAITING),
        ..advance(parent, 0)
    };
    step(&two.a, spawned).await.unwrap();
    let counts = async |root| {
        let counts = two.b.counts(root).await.unwrap();
        (counts.running, counts.queued, counts.waiting)
    };
    assert_eq!(counts(None).await, (2, 1, 1));
    assert_eq!(counts(Some(parent)).await, (1, 1, 1));
    assert_eq!(counts(Some(alone)).await, (1, 0, 0));
    settle(&two.a, ended(first, 0, RunStatus::Succeeded))
        .await
        .unwrap();
    assert_eq!(counts(Some(parent)).await, (0, 1, 1));
    let nobody = two.b.counts(Some(RunId::generate())).await;
    assert!(matches!(nobody, Err(StoreError::NotFound(_))));
    assert_eq!(two.b.children(parent, 1).await.unwrap().len(), 1);
}
