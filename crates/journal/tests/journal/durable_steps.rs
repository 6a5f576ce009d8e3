//! Steps: their chain, and their places among all that is journaled.

use crate::durable::{AT, Two, advance, command, ended, note, settle, step, two};
use crate::fixtures;
use pentad_model::RunId;
use pentad_model::run::RunStatus;
use pentad_model::step::{CommandKind, Step};
use pentad_program::{Advance, Durability, RunStore, Store, StoreError};
use std::collections::BTreeSet;

async fn write(two: &Two, run: RunId, after: u64, count: u64) {
    let advance = Advance {
        steps: (after + 1..=after + count)
            .map(|n| note(&n.to_string()))
            .collect(),
        ..advance(run, after)
    };
    assert_eq!(step(&two.a, advance).await.unwrap().last, after + count);
}

fn tamper(two: &Two, sql: &str) {
    let connection = rusqlite::Connection::open(two.a.database()).unwrap();
    connection.execute_batch(sql).unwrap();
}

#[tokio::test]
async fn steps_are_chained_in_pages_and_read_as_written() {
    let two = two().await;
    let run = two.claimed(&two.a).await;
    let first = Advance {
        steps: vec![command(0, CommandKind::Step), note("x")],
        ..advance(run, 0)
    };
    step(&two.a, first).await.unwrap();
    write(&two, run, 2, 3).await;
    let steps = two.steps(run).await;
    assert_eq!(steps.iter().map(|s| s.seq).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    assert_eq!(steps[0].prev, [0; 32]);
    for pair in steps.windows(2) {
        assert_eq!(pair[1].prev, Step::hash(&pair[0].encode().unwrap()));
    }
    assert_eq!(steps[0].body, command(0, CommandKind::Step).body);
    let page = two.b.steps(run, 1, 2).await.unwrap();
    assert_eq!((&page.steps[..], page.more), (&steps[1..3], true));
    let page = two.b.steps(run, 3, 2).await.unwrap();
    assert_eq!((&page.steps[..], page.more), (&steps[3..], false));
    let nobody = two.b.steps(RunId::generate(), 0, 1).await;
    assert!(matches!(nobody, Err(StoreError::NotFound(_))));
}

#[tokio::test]
async fn events_and_steps_share_one_count() {
    let two = two().await;
    let (one, other) = (two.claimed(&two.a).await, two.claimed(&two.b).await);
    let head = two.a.head().await.unwrap();
    let waiting = {
        let b = two.b.clone();
        tokio::spawn(async move { b.changed(head).await })
    };
    write(&two, one, 0, 1).await;
    assert_eq!(waiting.await.unwrap().unwrap(), head + 1, "a step is a change");
    let mixed = Advance {
        steps: vec![note("2"), note("3")],
        events: vec![
            fixtures::note(two.thread, "seen"),
            fixtures::note(two.thread, "again"),
        ],
        ..advance(one, 1)
    };
    step(&two.a, mixed).await.unwrap();
    let mut tasks = Vec::new();
    for n in 0..40_u64 {
        let (a, b, thread) = (two.a.clone(), two.b.clone(), two.thread);
        let journal = if n % 2 == 0 { a.clone() } else { b };
        tasks.push(tokio::spawn(async move {
            // Every third has a member that fails beside it.
            if n % 3 == 0 {
                let nowhere = fixtures::note(pentad_model::ThreadId::generate(), "x");
                let both = vec![fixtures::note(thread, "lost"), nowhere];
                a.append(both, Durability::Crash).await.unwrap_err();
            }
            let new = vec![fixtures::note(thread, "x")];
            journal.append(new, Durability::Crash).await.unwrap();
        }));
    }
    for n in 0..20 {
        write(&two, one, 3 + n, 1).await;
        let advance = Advance {
            steps: vec![note("y")],
            ..advance(other, n)
        };
        step(&two.b, advance).await.unwrap();
    }
    for task in tasks {
        task.await.unwrap();
    }
    let steps = two.a.step_feed(0, 1_000).await.unwrap();
    let events = two.a.feed(0, 1_000).await.unwrap();
    assert_eq!((steps.len(), events.len()), (43, 42));
    let positions: Vec<u64> = steps
        .iter()
        .map(|s| s.journal)
        .chain(events.iter().map(|e| e.position))
        .collect();
    let distinct: BTreeSet<u64> = positions.iter().copied().collect();
    assert_eq!(distinct.len(), positions.len());
    assert_eq!(distinct.last(), Some(&two.b.head().await.unwrap()));
    assert!(steps.is_sorted_by_key(|step| step.journal));
    let after = steps[39].journal;
    assert_eq!(two.b.step_feed(after, 9).await.unwrap(), steps[40..]);
    assert_eq!(two.b.step_feed(0, 2).await.unwrap(), steps[..2]);
    assert_eq!(two.a.verify(two.thread).await.unwrap(), None);
    assert_eq!(two.a.verify_run(one).await.unwrap(), None);
}

#[tokio::test]
async fn a_chain_that_was_changed_or_cut_is_found() {
    let two = two().await;
    let run = two.claimed(&two.a).await;
    write(&two, run, 0, 2_000).await;
    write(&two, run, 2_000, 100).await;
    assert_eq!(two.b.verify_run(run).await.unwrap(), None);
    settle(&two.a, ended(run, 2_100, RunStatus::Succeeded))
        .await
        .unwrap();
    assert_eq!(two.b.verify_run(run).await.unwrap(), None);
    // A hole, a changed step, a cut tail, an invented one; each is put right again.
    tamper(&two, "CREATE TABLE saved AS SELECT * FROM step");
    let restore = "DELETE FROM step; INSERT INTO step SELECT * FROM saved";
    for (sql, found) in [
        ("DELETE FROM step WHERE seq = 2050", 2050),
        (
            "UPDATE step SET body = (SELECT body FROM step WHERE seq = 6) WHERE seq = 7",
            7,
        ),
        ("UPDATE step SET body = x'a0' WHERE seq = 3", 3),
        ("DELETE FROM step WHERE seq > 2090", 2091),
        ("DELETE FROM step", 1),
        (
            "INSERT INTO step SELECT position + 1, run, seq + 1, body FROM step WHERE seq = 2100",
            2101,
        ),
    ] {
        tamper(&two, sql);
        assert_eq!(two.b.verify_run(run).await.unwrap(), Some(found), "{sql}");
        tamper(&two, restore);
        assert_eq!(two.b.verify_run(run).await.unwrap(), None, "{sql}");
    }
    let nobody = two.b.verify_run(RunId::generate()).await;
    assert!(matches!(nobody, Err(StoreError::NotFound(_))));
}

#[tokio::test]
async fn a_step_of_a_newer_format_is_named() {
    let two = two().await;
    let run = two.claimed(&two.a).await;
    write(&two, run, 0, 1).await;
    // `v` is the second key of the map, and its value one byte.
    tamper(
        &two,
        "UPDATE step SET body = unhex(replace(hex(body), '617601', '617609'))",
    );
    let Err(StoreError::Corrupt(text)) = two.b.steps(run, 0, 9).await else {
        panic!("it was read");
    };
    insta::assert_snapshot!(text, @"step 1 of the journal has format 9, and this build reads up to 1; use a newer pentad");
}

#[tokio::test]
async fn a_thousand_parked_runs_cost_nothing_until_their_answers_come() {
    let two = two().await;
    let runs: Vec<RunId> = {
        let mut runs = Vec::new();
        for _ in 0..1_000 {
            runs.push(two.start(two.program()).await);
        }
        runs
    };
    assert_eq!(two.a.claim(1_000, AT).await.unwrap().len(), 1_000);
    for (n, run) in runs.iter().enumerate() {
        let due = crate::fixtures::T0 + i64::try_from(n).unwrap();
        let limited = pentad_program::Wait {
            due: Some(pentad_model::Timestamp(due)),
            ..crate::durable::event(0, "go")
        };
        two.parked(&two.a, *run, 0, vec![limited]).await;
    }
    assert_eq!(two.a.mail(1_000).await.unwrap(), []);
    assert_eq!(two.b.counts(None).await.unwrap().waiting, 1_000);
    two.a.close().await.unwrap();
    assert_eq!(
        two.b.executors().await.unwrap(),
        [],
        "who gave up all its runs leaves none"
    );
    let at = pentad_model::Timestamp(crate::fixtures::T0 + 499);
    two.b.fire(at).await.unwrap();
    let claimed = two.b.claim(1_000, AT).await.unwrap();
    assert_eq!(claimed.iter().map(|run| run.id).collect::<Vec<_>>(), runs[..500]);
}
