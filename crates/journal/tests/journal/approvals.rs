//! Approvals: asked once, answered once, used as far as they reach.

use crate::fixtures::{T0, asked, home, note, subject};
use pentad_model::approval::{Approval, ApprovalState, Scope, Subject};
use pentad_model::{Actor, ApprovalId, EventBody, Timestamp};
use pentad_program::{ApprovalFilter, EventRange, Store, StoreError};
use proptest::prelude::*;

#[tokio::test]
async fn a_subject_has_one_open_approval() {
    let home = home();
    let (a, b) = (home.thread().await, home.thread().await);
    let first = home
        .journal
        .ask(asked(a, subject()), vec![note(a, "asked")])
        .await
        .unwrap();
    let second = home
        .journal
        .ask(asked(b, subject()), vec![note(b, "asked")])
        .await
        .unwrap();
    assert_eq!(second, first);
    assert_eq!(
        home.journal.head().await.unwrap(),
        1,
        "the second question was noted"
    );
    let other = Subject {
        input_hash: "i2".to_owned(),
        ..subject()
    };
    let third = home.journal.ask(asked(a, other), Vec::new()).await.unwrap();
    assert_ne!(third.id, first.id);

    let answer = async |id, state| {
        home.journal
            .answer(id, state, Actor::User.into(), Timestamp(T0 + 1))
            .await
    };
    let denied = answer(first.id, ApprovalState::Denied).await.unwrap();
    assert_eq!(
        (denied.state, denied.answered_by),
        (ApprovalState::Denied, Some(Actor::User))
    );
    let Err(StoreError::Conflict(text)) = answer(first.id, ApprovalState::Granted(Scope::Once)).await else {
        panic!("answered twice");
    };
    assert!(text.ends_with("is 'denied' and is not answered again"), "{text}");
    let page = home.journal.events(a, EventRange::After(1), 5).await.unwrap();
    let [event] = &page.events[..] else {
        panic!("{page:?}")
    };
    let body = EventBody::Approval {
        approval: first.id,
        state: ApprovalState::Denied,
        act: subject().act,
    };
    assert_eq!(event.body, body);

    let fourth = home.journal.ask(asked(b, subject()), Vec::new()).await.unwrap();
    assert_ne!(fourth.id, first.id, "a denied approval was given again");
    let list = async |state: Option<&str>| {
        let state = state.map(str::to_owned);
        let found = home
            .journal
            .approvals(ApprovalFilter { state, limit: 9 })
            .await
            .unwrap();
        found.iter().map(|a| a.id).collect::<Vec<_>>()
    };
    assert_eq!(list(None).await, [fourth.id, third.id, first.id]);
    assert_eq!(list(Some("open")).await, [fourth.id, third.id]);
    let ending = pentad_model::text::suffix(&third.id.to_string(), 8)
        .parse()
        .unwrap();
    assert_eq!(home.journal.find_approval(&ending).await.unwrap().id, third.id);
}

#[tokio::test]
async fn what_lasts_for_one_run_is_not_granted_for_ever() {
    let home = home();
    let thread = home.thread().await;
    let question = Approval {
        run_at_most: true,
        ..asked(thread, subject())
    };
    let id = home.journal.ask(question, Vec::new()).await.unwrap().id;
    for state in [
        ApprovalState::Granted(Scope::Always),
        ApprovalState::Open,
        ApprovalState::Used,
    ] {
        let answer = home
            .journal
            .answer(id, state, Actor::User.into(), Timestamp(T0))
            .await;
        assert!(matches!(answer, Err(StoreError::Conflict(_))), "{answer:?}");
    }
    let run = ApprovalState::Granted(Scope::Run);
    home.journal
        .answer(id, run, Actor::User.into(), Timestamp(T0))
        .await
        .unwrap();
    let missing = home
        .journal
        .answer(ApprovalId::generate(), run, Actor::User.into(), Timestamp(T0))
        .await;
    assert!(matches!(missing, Err(StoreError::NotFound(_))));
}

#[tokio::test]
async fn a_grant_for_once_is_used_by_one_of_many() {
    let home = home();
    let thread = home.thread().await;
    let id = home
        .journal
        .ask(asked(thread, subject()), Vec::new())
        .await
        .unwrap()
        .id;
    let once = ApprovalState::Granted(Scope::Once);
    home.journal
        .answer(id, once, Actor::User.into(), Timestamp(T0))
        .await
        .unwrap();
    let uses: Vec<_> = (0..16)
        .map(|_| {
            let journal = home.journal.clone();
            tokio::spawn(async move { journal.use_approval(&subject(), thread).await.unwrap() })
        })
        .collect();
    let mut used = Vec::new();
    for one in uses {
        used.extend(one.await.unwrap());
    }
    assert_eq!(
        used.iter().map(|a| (a.id, a.state)).collect::<Vec<_>>(),
        [(id, ApprovalState::Used)]
    );
}

/// What a grant must match, said a second time without a database.
fn permits(grant: &Approval, wanted: &Subject, thread: pentad_model::ThreadId) -> bool {
    let same = |a: &Subject, b: &Subject| {
        a.actor == b.actor && a.agent == b.agent && a.act == b.act && a.closure_hash == b.closure_hash
    };
    match grant.state {
        ApprovalState::Granted(Scope::Always) => same(&grant.subject, wanted),
        ApprovalState::Granted(Scope::Run) => same(&grant.subject, wanted) && grant.thread == thread,
        ApprovalState::Granted(Scope::Once) => grant.subject == *wanted,
        _ => false,
    }
}

fn subjects() -> impl Strategy<Value = Subject> {
    (0..2, 0..2, 0..2, 0..2).prop_map(|(actor, act, input, closure)| Subject {
        actor: format!("client:c{actor}").parse().unwrap(),
        agent: "main".parse().unwrap(),
        act: format!("call:github/t{act}"),
        input_hash: format!("i{input}"),
        closure_hash: format!("c{closure}"),
    })
}

fn answers() -> impl Strategy<Value = ApprovalState> {
    prop_oneof![
        Just(ApprovalState::Granted(Scope::Once)),
        Just(ApprovalState::Granted(Scope::Run)),
        Just(ApprovalState::Granted(Scope::Always)),
        Just(ApprovalState::Denied),
        Just(ApprovalState::Expired),
        Just(ApprovalState::Void),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn a_use_is_permitted_exactly_when_a_grant_says_so(
        steps in proptest::collection::vec((subjects(), 0..2_usize, proptest::option::of(answers())), 1..24)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let home = home();
            let threads = [home.thread().await, home.thread().await];
            let mut model: Vec<Approval> = Vec::new();
            for (subject, thread, answer) in steps {
                let thread = threads[thread];
                if let Some(state) = answer {
                    let asked = home.journal.ask(asked(thread, subject), Vec::new()).await.unwrap();
                    let answered = home.journal.answer(asked.id, state, Actor::User.into(), Timestamp(T0)).await.unwrap();
                    assert_eq!(answered.state, state);
                    model.push(answered);
                    continue;
                }
                let expected = model.iter().any(|grant| permits(grant, &subject, thread));
                let used = home.journal.use_approval(&subject, thread).await.unwrap();
                assert_eq!(used.is_some(), expected);
                if let Some(used) = used {
                    let known = model.iter_mut().find(|a| a.id == used.id).unwrap();
                    assert!(permits(known, &subject, thread));
                    known.state = used.state;
                }
            }
        });
    }
}
