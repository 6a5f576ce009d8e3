//! What becomes of the runs of executors that are gone.

use crate::durable::{
    AT, Two, WAITING, advance, child, ended, event, owner, results, settle, step, two, user,
};
use crate::fixtures::{T0, new_run};
use pentad_journal::Journal;
use pentad_model::run::{OnLoss, RunStatus, Terms};
use pentad_model::{EventBody, RunId, Timestamp};
use pentad_program::{Advance, Durability, NewRun, Retired, RunStore, Store};
use serde_json::json;

async fn retire_a(two: &Two) -> Retired {
    let epoch = two.epoch_of(&two.a).await;
    two.b.retire(vec![epoch], AT).await.unwrap()
}

async fn bodies(two: &Two, run: RunId) -> Vec<EventBody> {
    let events = two.b.run_events(run, 0, 9).await.unwrap().events;
    events.into_iter().map(|event| event.body).collect()
}

#[tokio::test]
async fn d04_a_run_goes_on_elsewhere_or_is_lost_as_its_terms_say() {
    let two = two().await;
    let parent = two.claimed(&two.a).await;
    let new = two.child_of(parent);
    let lose = NewRun {
        terms: Terms {
            on_loss: OnLoss::Lose,
            ..new.terms.clone()
        },
        ..new
    };
    let spawned = Advance {
        children: vec![lose.clone()],
        steps: vec![crate::durable::note("1")],
        ..advance(parent, 0)
    };
    step(&two.a, spawned).await.unwrap();
    two.a.claim(1, AT).await.unwrap();
    let join = Advance {
        waits: vec![child(0, lose.id)],
        ..advance(parent, 1)
    };
    step(&two.a, join).await.unwrap();

    let retired = retire_a(&two).await;
    assert_eq!(
        (&retired.lost[..], &retired.queued[..]),
        (&[lose.id][..], &[parent][..])
    );
    assert!(matches!(
        &bodies(&two, lose.id).await[..],
        [
            EventBody::RunStatus {
                status: RunStatus::Lost,
                ..
            },
            EventBody::Note { .. }
        ]
    ));
    let [
        EventBody::RunStatus {
            status: RunStatus::Queued,
            ..
        },
        EventBody::Note { text },
    ] = &bodies(&two, parent).await[..]
    else {
        panic!("it is not noted");
    };
    insta::assert_snapshot!(
        text.replace(&parent.to_string(), "RUN"),
        @"Run RUN was interrupted: its process ended. It goes on where its journal ends."
    );
    two.b.claim(1, AT).await.unwrap();
    let taken = results(&two.b.take(parent, 1, AT).await.unwrap());
    assert_eq!(taken[0].1["status"], json!("lost"));
    assert_eq!(retire_a_again(&two).await, Retired::default());
}

async fn retire_a_again(two: &Two) -> Retired {
    two.b.retire(vec![1], AT).await.unwrap()
}

#[tokio::test]
async fn what_waited_in_a_lost_memory_is_queued_by_its_answer() {
    let two = two().await;
    let (idle, answered) = (two.claimed(&two.a).await, two.claimed(&two.a).await);
    for run in [idle, answered] {
        let waiting = Advance {
            waits: vec![event(0, "go")],
            status: Some(WAITING),
            ..advance(run, 0)
        };
        step(&two.a, waiting).await.unwrap();
    }
    two.b.send(answered, "go", json!(1), user(), AT).await.unwrap();
    let retired = retire_a(&two).await;
    assert_eq!(
        (&retired.lost[..], &retired.queued[..]),
        (&[][..], &[answered][..])
    );
    assert_eq!(two.status(idle).await, WAITING);
    two.b.send(idle, "go", json!(2), user(), AT).await.unwrap();
    let claimed = two.b.claim(9, AT).await.unwrap();
    assert_eq!(
        claimed.iter().map(|run| run.id).collect::<Vec<_>>(),
        [idle, answered]
    );
}

#[tokio::test]
async fn what_was_asked_to_end_is_not_begun_again() {
    let two = two().await;
    let (alone, parent) = (two.claimed(&two.a).await, two.claimed(&two.a).await);
    let new = two.child_of(parent);
    let below = new.id;
    let spawned = Advance {
        children: vec![new],
        ..advance(parent, 0)
    };
    step(&two.a, spawned).await.unwrap();
    two.b.claim(1, AT).await.unwrap();
    for run in [alone, parent] {
        two.b.cancel(run, user(), String::new(), AT).await.unwrap();
    }
    let waiting = two.claimed(&two.a).await;
    two.b.cancel(waiting, user(), String::new(), AT).await.unwrap();
    let to_wait = Advance {
        status: Some(WAITING),
        ..advance(waiting, 0)
    };
    step(&two.a, to_wait).await.unwrap();
    let retired = retire_a(&two).await;
    assert_eq!(retired.canceled, [alone, waiting]);
    assert_eq!(retired.queued, [parent]);
    assert_eq!(two.status(alone).await, RunStatus::Canceled);
    // What lives below the other keeps it, and ends it.
    assert_eq!(two.b.claim(9, AT).await.unwrap(), []);
    let settled = settle(&two.b, ended(below, 0, RunStatus::Canceled))
        .await
        .unwrap();
    assert_eq!(settled.canceled, [parent]);
    assert_eq!(two.status(parent).await, RunStatus::Canceled);
}

#[tokio::test]
async fn whoever_opens_a_home_settles_what_the_dead_left() {
    let two = two().await;
    let resumed = two.claimed(&two.a).await;
    let verb = new_run(two.thread, None);
    two.a
        .start_run(verb.clone(), Vec::new(), Durability::Crash)
        .await
        .unwrap();
    let c = Journal::open(two.dir.path(), owner(3)).unwrap();
    let settle = async || {
        c.settle_interrupted(Timestamp(T0), |owner| owner.pid == 2)
            .await
            .unwrap()
    };
    assert_eq!(settle().await, [verb.id]);
    assert_eq!(two.status(resumed).await, RunStatus::Queued);
    let head = c.head().await.unwrap();
    assert_eq!(settle().await, []);
    assert_eq!(c.head().await.unwrap(), head);
    // A journal of the same process is no other one.
    let own = two.claimed(&two.b).await;
    let again = Journal::open(two.dir.path(), owner(2)).unwrap();
    assert_eq!(again.settle_interrupted(AT, |_| false).await.unwrap(), []);
    assert_eq!(two.status(own).await, RunStatus::Running);
}
