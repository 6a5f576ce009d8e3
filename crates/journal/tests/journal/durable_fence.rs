//! Who may write to a run: its executor, who must know its last step.

use crate::durable::{AT, WAITING, advance, command, conflict, ended, note, settle, step, two, user};
use crate::fixtures::{T0, new_run};
use pentad_journal::{Journal, JournalOptions};
use pentad_model::Timestamp;
use pentad_model::run::{RunStatus, Usage};
use pentad_model::step::CommandKind;
use pentad_program::{Advance, Durability, NewRun, RunChange, RunStore, Store, StoreError};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

#[tokio::test]
async fn only_the_executor_that_has_a_run_and_knows_its_last_step_writes() {
    let two = two().await;
    let run = two.claimed(&two.a).await;
    let with = |after, text| Advance {
        steps: vec![note(text)],
        ..advance(run, after)
    };
    assert_eq!(step(&two.a, with(0, "1")).await.unwrap().last, 1);
    insta::assert_snapshot!(
        conflict(step(&two.a, with(0, "2")).await).replace(&run.to_string(), "RUN"),
        @"the last step of run RUN is 1, not 0; read its steps again before it goes on"
    );
    let elsewhere = conflict(step(&two.b, with(1, "2")).await).replace(&run.to_string(), "RUN");
    insta::assert_snapshot!(elsewhere, @"run RUN is not this executor's any more; drop what is in memory of it");
    conflict(two.b.take(run, 1, AT).await);
    conflict(two.b.park(run, AT).await);
    conflict(settle(&two.b, ended(run, 1, RunStatus::Succeeded)).await);
    // What was refused left nothing, and the next step fits.
    assert_eq!(step(&two.a, with(1, "2")).await.unwrap().last, 2);
    let usage = Usage {
        tokens: 7,
        ..Usage::default()
    };
    let waiting = Advance {
        status: Some(WAITING),
        usage: Some(usage),
        ..advance(run, 2)
    };
    step(&two.a, waiting).await.unwrap();
    let found = two.run(run).await;
    assert_eq!((found.status, found.usage), (WAITING, usage));
    // Parked it is nobody's.
    assert!(two.a.park(run, AT).await.unwrap());
    conflict(step(&two.a, with(2, "3")).await);
    conflict(two.a.park(run, AT).await);
    assert_eq!(two.a.verify_run(run).await.unwrap(), None);
    let missing = pentad_model::RunId::generate();
    let refused = step(&two.a, advance(missing, 0)).await;
    assert!(matches!(refused, Err(StoreError::NotFound(_))), "{refused:?}");
}

#[tokio::test]
async fn a_status_is_entered_where_it_may_be() {
    let two = two().await;
    let run = two.claimed(&two.a).await;
    let to = |status| Advance {
        status: Some(status),
        ..advance(run, 0)
    };
    let text = conflict(step(&two.a, to(RunStatus::Succeeded)).await);
    assert!(text.contains("settle it instead"), "{text}");
    let text = conflict(settle(&two.a, ended(run, 0, WAITING)).await);
    assert!(text.contains("settle it as succeeded"), "{text}");
    let text = conflict(two.a.park(run, AT).await);
    assert!(text.contains("only a run that waits"), "{text}");
    // An executor that ends gives back what it has begun.
    step(&two.a, to(RunStatus::Queued)).await.unwrap();
    conflict(step(&two.a, advance(run, 0)).await);
    let claimed = two.b.claim(5, AT).await.unwrap();
    assert_eq!(claimed.iter().map(|run| run.id).collect::<Vec<_>>(), [run]);
}

#[tokio::test]
async fn who_is_retired_learns_it_from_every_write() {
    let two = two().await;
    let run = two.claimed(&two.a).await;
    step(&two.a, advance(run, 0)).await.unwrap();
    two.a.beat().await.unwrap();
    let epoch = two.epoch_of(&two.a).await;
    let own = two.a.retire(vec![epoch], AT).await.unwrap();
    assert_eq!(own, pentad_program::Retired::default());
    let retired = two.b.retire(vec![epoch, epoch, 99], AT).await.unwrap();
    assert_eq!(retired.queued, [run]);

    conflict(step(&two.a, advance(run, 0)).await);
    conflict(two.a.take(run, 0, AT).await);
    conflict(settle(&two.a, ended(run, 0, RunStatus::Succeeded)).await);
    conflict(two.a.claim(1, AT).await);
    insta::assert_snapshot!(conflict(two.a.beat().await), @"others have taken over the runs of this process, which they believed to be gone; drop what it has in memory, then claim again");
    // From then on it is another executor.
    two.a.beat().await.unwrap();
    assert_eq!(two.a.claim(1, AT).await.unwrap().len(), 1);
    assert!(two.epoch_of(&two.a).await > epoch);
    assert_eq!(two.status(run).await, RunStatus::Running);
}

#[tokio::test]
async fn a_verb_of_a_process_that_was_retired_still_has_its_run() {
    let two = two().await;
    let run = two.claimed(&two.a).await;
    let epoch = two.epoch_of(&two.a).await;
    two.b.retire(vec![epoch], AT).await.unwrap();
    let new = new_run(two.thread, None);
    two.a
        .start_run(new.clone(), Vec::new(), Durability::Crash)
        .await
        .unwrap();
    // Its old runs are lost to it, and it is told once.
    conflict(step(&two.a, advance(run, 0)).await);
    conflict(two.a.claim(1, AT).await);
    conflict(two.a.beat().await);
    two.a.beat().await.unwrap();
    let change = RunChange {
        id: new.id,
        status: RunStatus::Succeeded,
        output: None,
        error: None,
        stored: BTreeMap::new(),
        at: AT,
    };
    two.a
        .change_run(change, Vec::new(), Durability::Crash)
        .await
        .unwrap();
}

#[tokio::test]
async fn queued_runs_are_claimed_once_and_oldest_first() {
    let two = two().await;
    let mut runs = Vec::new();
    for _ in 0..40 {
        runs.push(two.start(two.program()).await);
    }
    let first = two.a.claim(3, AT).await.unwrap();
    assert_eq!(first.iter().map(|run| run.id).collect::<Vec<_>>(), runs[..3]);
    assert!(first.iter().all(|run| run.status == RunStatus::Running));
    assert_eq!(two.a.claim(0, AT).await.unwrap(), []);
    let claims = (0..20).map(|n| {
        let journal = if n % 2 == 0 { two.a.clone() } else { two.b.clone() };
        tokio::spawn(async move { journal.claim(2, AT).await.unwrap() })
    });
    let mut claimed = Vec::new();
    for claim in claims.collect::<Vec<_>>() {
        claimed.extend(claim.await.unwrap().into_iter().map(|run| run.id));
    }
    let distinct: BTreeSet<_> = claimed.iter().copied().collect();
    assert_eq!((claimed.len(), distinct.len()), (37, 37));
    assert_eq!(two.b.claim(9, AT).await.unwrap(), []);
    assert_eq!(two.a.counts(None).await.unwrap().running, 40);
}

#[tokio::test]
async fn an_executor_is_listed_from_its_first_run_until_it_leaves_none_behind() {
    let two = two().await;
    assert_eq!(two.a.executors().await.unwrap(), []);
    two.a.beat().await.unwrap();
    assert_eq!(two.a.mail(9).await.unwrap(), []);
    let run = two.claimed(&two.a).await;
    two.a.beat().await.unwrap();
    two.a.beat().await.unwrap();
    let seen = two.b.executors().await.unwrap();
    assert_eq!(seen.len(), 1);
    assert_eq!(
        (seen[0].pid, seen[0].beats, seen[0].gone, seen[0].own),
        (1, 2, true, false)
    );
    let own = two.a.executors().await.unwrap();
    assert!(own[0].own && !own[0].gone);

    two.a.close().await.unwrap();
    assert_eq!(
        two.b.executors().await.unwrap().len(),
        1,
        "its run is still running"
    );
    two.b.retire(vec![seen[0].epoch], AT).await.unwrap();
    assert_eq!(two.b.executors().await.unwrap(), []);
    two.b.claim(1, AT).await.unwrap();
    settle(&two.b, ended(run, 0, RunStatus::Succeeded)).await.unwrap();
    two.b.close().await.unwrap();
    let last = Journal::open(two.dir.path(), JournalOptions::default()).unwrap();
    assert_eq!(last.executors().await.unwrap(), []);
    let new = NewRun {
        status: RunStatus::Running,
        ..two.program()
    };
    last.start_run(new, Vec::new(), Durability::Crash).await.unwrap();
    let listed = last.executors().await.unwrap();
    assert!(listed[0].epoch > seen[0].epoch + 1, "no epoch is given twice");
    assert!(!listed[0].gone);
}

#[tokio::test]
async fn a_transaction_that_is_refused_enlists_nobody() {
    let two = two().await;
    let new = NewRun {
        status: RunStatus::Running,
        thread: pentad_model::ThreadId::generate(),
        ..two.program()
    };
    let refused = two.a.start_run(new, Vec::new(), Durability::Crash).await;
    assert!(matches!(refused, Err(StoreError::NotFound(_))));
    let missing = vec![crate::fixtures::note(pentad_model::ThreadId::generate(), "x")];
    let new = NewRun {
        status: RunStatus::Running,
        ..two.program()
    };
    two.a
        .start_run(new.clone(), missing, Durability::Crash)
        .await
        .unwrap_err();
    assert_eq!(two.a.executors().await.unwrap(), []);
    two.a.start_run(new, Vec::new(), Durability::Crash).await.unwrap();
    assert_eq!(two.a.executors().await.unwrap().len(), 1);
}

#[tokio::test]
async fn whoever_waits_is_told_of_what_executors_can_do() {
    let two = two().await;
    let mark = two.b.stirred(0).await.unwrap();
    let idle = tokio::time::timeout(std::time::Duration::ZERO, two.b.stirred(mark)).await;
    assert!(idle.is_err(), "nothing has happened");
    // The other journal of the same home finds it by looking.
    let queued = two.start(two.program()).await;
    let mark = two.b.stirred(mark).await.unwrap();
    let own = two.a.stirred(mark - 1).await.unwrap();
    assert_eq!(own, mark);
    two.a.claim(1, AT).await.unwrap();
    let due = Advance {
        steps: vec![command(0, CommandKind::Sleep)],
        waits: vec![crate::durable::timer(0, T0 + 500)],
        ..advance(queued, 0)
    };
    step(&two.a, due).await.unwrap();
    let mark = two.b.stirred(mark).await.unwrap();
    assert_eq!(
        two.b.fire(Timestamp(T0 + 499)).await.unwrap(),
        Some(Timestamp(T0 + 500))
    );
    two.b.fire(Timestamp(T0 + 500)).await.unwrap();
    let mark = two.a.stirred(mark).await.unwrap();
    two.b
        .cancel(queued, user(), "enough".to_owned(), AT)
        .await
        .unwrap();
    let mark = two.a.stirred(mark).await.unwrap();
    let closed = two.a.clone();
    let waiting = tokio::spawn(async move { closed.stirred(mark).await });
    tokio::task::yield_now().await;
    two.a.close().await.unwrap();
    assert!(matches!(waiting.await.unwrap(), Err(StoreError::Closed)));
    // A plain verb's run stirs nobody.
    let before = two.b.stirred(0).await.unwrap();
    let new = NewRun {
        input: json!(1),
        ..new_run(two.thread, None)
    };
    two.b.start_run(new, Vec::new(), Durability::Crash).await.unwrap();
    assert_eq!(two.b.stirred(0).await.unwrap(), before);
}
