//! Waits and their answers: each is delivered once, and none is lost.

use crate::durable::{AT, WAITING, advance, command, conflict, event, results, step, timer, two, user, wait};
use crate::fixtures::{T0, asked, subject};
use pentad_model::approval::{ApprovalState, Scope};
use pentad_model::run::RunStatus;
use pentad_model::step::{CommandKind, Completion};
use pentad_model::{Actor, Timestamp};
use pentad_program::{Advance, Delivery, Durability, RunStore, Store, StoreError, Wait, WaitFor};
use serde_json::{Value, json};

#[tokio::test]
async fn answers_become_steps_in_the_order_in_which_they_came() {
    let two = two().await;
    let run = two.claimed(&two.a).await;
    let waits = vec![
        event(0, "go"),
        timer(1, T0 + 500),
        wait(2, WaitFor::Budget),
        wait(
            3,
            WaitFor::Env {
                names: vec!["KEY".to_owned()],
            },
        ),
        event(4, "never"),
    ];
    let waiting = Advance {
        steps: (0..5).map(|n| command(n, CommandKind::Wait)).collect(),
        waits: waits.clone(),
        status: Some(WAITING),
        ..advance(run, 0)
    };
    let advanced = step(&two.a, waiting).await.unwrap();
    assert_eq!((advanced.last, advanced.answered), (5, false));
    assert_eq!(two.a.waits(run).await.unwrap(), waits);
    assert_eq!(two.a.take(run, 5, AT).await.unwrap(), []);
    assert_eq!(two.status(run).await, WAITING);

    let budget = Completion::Done(json!({"tokens": 9}));
    two.b
        .answer_wait(run, 2, budget.clone(), user(), AT)
        .await
        .unwrap();
    let text = conflict(two.b.answer_wait(run, 2, budget.clone(), user(), AT).await);
    assert!(text.ends_with("at place 2 is answered already"), "{text}");
    let text = conflict(two.b.answer_wait(run, 9, budget, user(), AT).await);
    assert!(
        text.contains("waits for nothing at place 9; read the run"),
        "{text}"
    );
    let sent = two.b.send(run, "go", json!([1]), user(), AT).await.unwrap();
    assert_eq!(sent, Delivery::Delivered);
    assert_eq!(two.b.fire(Timestamp(T0 + 500)).await.unwrap(), None);
    // It has an executor, so it stays and is mail.
    assert_eq!(two.status(run).await, WAITING);
    assert_eq!(two.b.mail(5).await.unwrap(), []);
    assert_eq!(two.a.mail(5).await.unwrap(), [run]);
    assert_eq!(two.a.waits(run).await.unwrap().len(), 2);
    assert!(!two.a.park(run, AT).await.unwrap());

    let taken = two.a.take(run, 5, AT).await.unwrap();
    assert_eq!(
        results(&taken),
        [
            (2, json!({"tokens": 9})),
            (0, json!({"event": [1]})),
            (1, Value::Null)
        ]
    );
    assert_eq!(taken.iter().map(|s| s.seq).collect::<Vec<_>>(), [6, 7, 8]);
    assert_eq!(taken[0].by, Some(user()));
    assert_eq!(taken[2].by, None);
    assert_eq!(two.status(run).await, RunStatus::Running);
    assert_eq!(two.a.take(run, 8, AT).await.unwrap(), []);
    assert_eq!(two.a.mail(5).await.unwrap(), []);
    assert_eq!(two.steps(run).await[5..], taken);
    // An answer while it runs is mail as well: something else may take long.
    two.b
        .answer_wait(run, 3, Completion::Interrupted, user(), AT)
        .await
        .unwrap();
    assert_eq!(two.a.mail(5).await.unwrap(), [run]);
    assert!(step(&two.a, advance(run, 8)).await.unwrap().answered);
}

#[tokio::test]
async fn an_answer_queues_a_run_that_nobody_has() {
    let two = two().await;
    let run = two.claimed(&two.a).await;
    two.parked(&two.a, run, 0, vec![event(0, "go"), event(1, "go")])
        .await;
    assert_eq!(two.b.claim(5, AT).await.unwrap(), []);
    let sent = two.b.send(run, "go", json!(1), user(), AT).await.unwrap();
    assert_eq!(sent, Delivery::Delivered);
    assert_eq!(two.status(run).await, RunStatus::Queued);
    // Before anybody takes the first, a second comes for the second wait, and a third is kept.
    two.a.send(run, "go", json!(2), user(), AT).await.unwrap();
    let third = two.a.send(run, "go", json!(3), user(), AT).await.unwrap();
    assert_eq!(third, Delivery::Kept);
    assert_eq!(two.b.claim(5, AT).await.unwrap().len(), 1);
    let taken = two.b.take(run, 0, AT).await.unwrap();
    assert_eq!(
        results(&taken),
        [(0, json!({"event": 1})), (1, json!({"event": 2}))]
    );
}

#[tokio::test]
async fn an_event_that_comes_first_is_kept_and_taken_oldest_first() {
    let two = two().await;
    let run = two.claimed(&two.a).await;
    for (name, n) in [("x", 1), ("y", 2), ("x", 3)] {
        let sent = two.b.send(run, name, json!(n), user(), AT).await.unwrap();
        assert_eq!(sent, Delivery::Kept);
    }
    let two_waits = Advance {
        waits: vec![event(0, "x"), event(1, "y"), event(2, "z")],
        ..advance(run, 0)
    };
    assert!(step(&two.a, two_waits).await.unwrap().answered);
    let taken = two.a.take(run, 0, AT).await.unwrap();
    assert_eq!(
        results(&taken),
        [(0, json!({"event": 1})), (1, json!({"event": 2}))]
    );
    // One that is given up before its answer is taken gives the event back, to its old place.
    let again = Advance {
        waits: vec![event(3, "x")],
        ..advance(run, 2)
    };
    assert!(step(&two.a, again).await.unwrap().answered);
    two.b.send(run, "x", json!(4), user(), AT).await.unwrap();
    let dropped = Advance {
        dropped: vec![3, 2, 77],
        waits: vec![event(4, "x"), event(5, "x")],
        ..advance(run, 2)
    };
    assert!(step(&two.a, dropped).await.unwrap().answered);
    let taken = two.a.take(run, 2, AT).await.unwrap();
    assert_eq!(
        results(&taken),
        [(4, json!({"event": 3})), (5, json!({"event": 4}))]
    );
    assert_eq!(two.a.waits(run).await.unwrap(), []);
}

#[tokio::test]
async fn the_first_of_timer_and_event_wins_and_the_event_is_not_lost() {
    let two = two().await;
    let run = two.claimed(&two.a).await;
    let limited = |position| Wait {
        due: Some(Timestamp(T0 + 500)),
        ..event(position, "go")
    };
    let both = Advance {
        waits: vec![limited(0)],
        ..advance(run, 0)
    };
    step(&two.a, both).await.unwrap();
    two.b.fire(Timestamp(T0 + 501)).await.unwrap();
    let late = two.b.send(run, "go", json!("late"), user(), AT).await.unwrap();
    assert_eq!(late, Delivery::Kept);
    assert_eq!(two.b.fire(Timestamp(T0 + 502)).await.unwrap(), None);
    let taken = two.a.take(run, 0, AT).await.unwrap();
    assert_eq!(results(&taken), [(0, Value::Null)]);
    let next = Advance {
        waits: vec![limited(1)],
        ..advance(run, 1)
    };
    assert!(step(&two.a, next).await.unwrap().answered);
    two.b.fire(Timestamp(T0 + 999)).await.unwrap();
    let taken = two.a.take(run, 1, AT).await.unwrap();
    assert_eq!(results(&taken), [(1, json!({"event": "late"}))]);
}

#[tokio::test]
async fn timers_fire_by_their_time_then_by_their_age() {
    let two = two().await;
    let (first, second) = (two.claimed(&two.a).await, two.claimed(&two.a).await);
    let dues = |run, dues: &[i64]| Advance {
        waits: (0..).zip(dues).map(|(n, due)| timer(n, T0 + due)).collect(),
        ..advance(run, 0)
    };
    step(&two.a, dues(first, &[300, 100, 100, 900])).await.unwrap();
    step(&two.a, dues(second, &[200])).await.unwrap();
    assert_eq!(
        two.a.fire(Timestamp(T0)).await.unwrap(),
        Some(Timestamp(T0 + 100))
    );
    let next = two.a.fire(Timestamp(T0 + 400)).await.unwrap();
    assert_eq!(next, Some(Timestamp(T0 + 900)));
    let taken = two.a.take(first, 0, AT).await.unwrap();
    assert_eq!(
        results(&taken),
        [(1, Value::Null), (2, Value::Null), (0, Value::Null)]
    );
    let text = conflict(
        step(
            &two.a,
            Advance {
                waits: vec![wait(9, WaitFor::Timer)],
                ..advance(second, 0)
            },
        )
        .await,
    );
    assert!(text.contains("has no time; say when it is due"), "{text}");
}

#[tokio::test]
async fn an_answer_to_an_approval_answers_its_waits() {
    let two = two().await;
    let run = two.claimed(&two.a).await;
    let approval = two.a.ask(asked(two.thread, subject()), Vec::new()).await.unwrap();
    let approval = approval.id;
    two.parked(&two.a, run, 0, vec![wait(0, WaitFor::Approval { approval })])
        .await;
    let granted = ApprovalState::Granted(Scope::Once);
    two.b.answer(approval, granted, user(), AT).await.unwrap();
    assert_eq!(two.status(run).await, RunStatus::Queued);
    two.b.claim(1, AT).await.unwrap();
    // One that is answered already answers at once.
    let late = Advance {
        waits: vec![wait(1, WaitFor::Approval { approval })],
        ..advance(run, 0)
    };
    assert!(step(&two.b, late).await.unwrap().answered);
    let taken = two.b.take(run, 0, AT).await.unwrap();
    let granted = json!({"state": "granted"});
    assert_eq!(results(&taken), [(0, granted.clone()), (1, granted)]);
    assert!(taken.iter().all(|step| step.by == Some(Actor::User.into())));
    let unknown = Advance {
        waits: vec![wait(
            2,
            WaitFor::Approval {
                approval: pentad_model::ApprovalId::generate(),
            },
        )],
        ..advance(run, 2)
    };
    let refused = step(&two.b, unknown).await;
    assert!(matches!(refused, Err(StoreError::NotFound(_))), "{refused:?}");
}

#[tokio::test]
async fn a_run_keeps_so_many_events_and_refuses_more() {
    let two = two().await;
    let run = two.claimed(&two.a).await;
    for n in 0..1_000 {
        let journal = two.a.clone();
        // Many at once share a transaction.
        let sent = tokio::spawn(async move { journal.send(run, "x", json!(n), user(), AT).await });
        if n % 100 == 99 {
            assert_eq!(sent.await.unwrap().unwrap(), Delivery::Kept);
        }
    }
    let text = conflict(two.a.send(run, "y", json!(0), user(), AT).await).replace(&run.to_string(), "RUN");
    insta::assert_snapshot!(text, @"run RUN keeps 1000 events that it has not waited for, and takes no more; send 'y' again when it has taken some, or cancel it if it never will");
    let text = conflict(two.a.send(run, "", json!(0), user(), AT).await);
    assert!(text.contains("has 1 to 200 bytes; this one has 0"), "{text}");
    let large = json!("x".repeat(1 << 20));
    let text = conflict(two.a.send(run, "x", large.clone(), user(), AT).await);
    assert!(text.contains("put its payload into an attachment"), "{text}");
    let text = conflict(
        two.a
            .answer_wait(run, 0, Completion::Done(large), user(), AT)
            .await,
    );
    assert!(text.contains("put its payload into a blob"), "{text}");
    let ended = crate::durable::ended(run, 0, RunStatus::Failed);
    two.a.settle(ended, Durability::Crash).await.unwrap();
    let text = conflict(two.a.send(run, "x", json!(0), user(), AT).await);
    assert!(
        text.ends_with("has ended ('failed') and takes no more events"),
        "{text}"
    );
    let nobody = pentad_model::RunId::generate();
    let refused = two.a.send(nobody, "x", json!(0), user(), AT).await;
    assert!(matches!(refused, Err(StoreError::NotFound(_))));
}

#[tokio::test]
async fn a_place_waits_once() {
    let two = two().await;
    let run = two.claimed(&two.a).await;
    let twice = Advance {
        steps: vec![command(0, CommandKind::Wait)],
        waits: vec![event(0, "x"), event(0, "y")],
        ..advance(run, 0)
    };
    let text = conflict(step(&two.a, twice).await);
    assert!(text.ends_with("waits at place 0 already"), "{text}");
    assert_eq!(two.steps(run).await, []);
    let new = two.program();
    let taken = Advance {
        children: vec![new.clone(), new],
        ..advance(run, 0)
    };
    conflict(step(&two.a, taken).await);
    assert_eq!(two.a.children(run, 5).await.unwrap(), []);
}
