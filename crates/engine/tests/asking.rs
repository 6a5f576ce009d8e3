//! Approvals that are put to the person behind a client while the call waits.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use pentad_catalog::Policy;
use pentad_engine::Limits;
use pentad_model::approval::{Approval, ApprovalState, Scope};
use pentad_model::{Actor, Caller, EventBody, Outcome, RefusalKind, Status, Verb};
use pentad_program::{Answer, ApprovalFilter, Asker, Attendance, EventRange, Verbs as _};
use serde_json::{Value, json};
use support::{Bench, Setup, bench, bench_with};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

const CLIENT: &str = "client:tester";

/// A person who says the same every time, once the test lets them.
#[derive(Debug)]
struct Person {
    answer: Option<Answer>,
    asked: AtomicUsize,
    is_asked: Notify,
    speak: Notify,
    reached: bool,
}

impl Person {
    /// Answers at once.
    fn saying(answer: Answer) -> Arc<Self> {
        let person = Self::waiting(Some(answer), true);
        person.speak.notify_one();
        person
    }

    /// Answers when told, or never.
    fn waiting(answer: Option<Answer>, reached: bool) -> Arc<Self> {
        Arc::new(Self {
            answer,
            asked: AtomicUsize::new(0),
            is_asked: Notify::new(),
            speak: Notify::new(),
            reached,
        })
    }

    fn count(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Asker for Person {
    async fn ask(&self, _approval: &Approval) -> Answer {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.is_asked.notify_one();
        match self.answer {
            None => std::future::pending().await,
            Some(answer) => {
                self.speak.notified().await;
                self.speak.notify_one();
                answer
            }
        }
    }

    fn reaches_a_person(&self) -> bool {
        self.reached
    }
}

fn attended(person: &Arc<Person>) -> Attendance {
    Attendance {
        asker: Some(Arc::clone(person) as Arc<dyn Asker>),
        ..Attendance::default()
    }
}

fn change() -> Value {
    json!({"tool": "change", "input": {"text": "x"}})
}

/// A bench whose client has the contract before it, so that the next call is judged.
async fn seen() -> Bench {
    let bench = bench();
    bench.act(CLIENT, Verb::Call, change()).await;
    bench
}

async fn ask(bench: &Bench, verb: Verb, arguments: Value, person: &Arc<Person>) -> Outcome {
    bench
        .engine
        .invoke(bench.invocation(CLIENT, verb, arguments), attended(person))
        .await
}

async fn approvals(bench: &Bench) -> Vec<ApprovalState> {
    let filter = ApprovalFilter {
        state: None,
        limit: 20,
    };
    let listed = bench.store.approvals(filter).await.unwrap();
    listed.into_iter().map(|approval| approval.state).collect()
}

#[tokio::test]
async fn the_same_call_goes_on_when_the_person_says_yes() {
    let bench = seen().await;
    let person = Person::saying(Answer::Granted(Scope::Once));
    let done = ask(&bench, Verb::Call, change(), &person).await;
    assert_eq!((done.status, done.text.as_str()), (Status::Ok, "did x"));
    assert_eq!(approvals(&bench).await, [ApprovalState::Used]);

    let events = bench
        .store
        .events(done.thread, EventRange::After(0), 100)
        .await
        .unwrap()
        .events;
    let answers: Vec<(Caller, ApprovalState)> = events
        .into_iter()
        .filter_map(|event| match event.body {
            EventBody::Approval { state, .. } => Some((event.caller, state)),
            _ => None,
        })
        .collect();
    let client: Actor = CLIENT.parse().unwrap();
    let for_the_person = Caller {
        actor: client.clone(),
        on_behalf_of: Some(Actor::User),
    };
    assert_eq!(
        answers,
        [
            (client.clone().into(), ApprovalState::Open),
            (for_the_person, ApprovalState::Granted(Scope::Once)),
            (client.into(), ApprovalState::Used),
        ]
    );

    ask(&bench, Verb::Call, change(), &person).await;
    assert_eq!(person.count(), 2, "once is once");
}

#[tokio::test]
async fn a_scope_lasts_as_far_as_the_person_said() {
    let bench = seen().await;
    let person = Person::saying(Answer::Granted(Scope::Always));
    for _ in 0..2 {
        assert_eq!(ask(&bench, Verb::Call, change(), &person).await.text, "did x");
    }
    assert_eq!(person.count(), 1);
    let nobody = bench.act(CLIENT, Verb::Call, change()).await;
    assert_eq!(
        nobody.text, "did x",
        "the grant is the home's, not the connection's"
    );
}

#[tokio::test]
async fn a_no_is_a_refusal_and_is_not_asked_again() {
    let bench = seen().await;
    let person = Person::saying(Answer::Denied);
    for _ in 0..2 {
        let refused = ask(&bench, Verb::Call, change(), &person).await;
        assert_eq!(refused.status, Status::Refused);
        assert_eq!(refused.refusal.unwrap().kind, RefusalKind::Forbidden);
    }
    assert_eq!((person.count(), bench.tools.count()), (1, 0));
    assert_eq!(approvals(&bench).await, [ApprovalState::Denied]);
}

#[tokio::test]
async fn silence_leaves_the_refusal_with_the_approvals_address() {
    let bench = seen().await;
    let person = Person::saying(Answer::Unanswered);
    let waiting = ask(&bench, Verb::Call, change(), &person).await;
    assert_eq!(waiting.status, Status::Waiting);
    assert!(waiting.text.contains("approval:"), "{}", waiting.text);
    assert_eq!(approvals(&bench).await, [ApprovalState::Open]);
    bench.approve(Scope::Once).await;
    assert_eq!(ask(&bench, Verb::Call, change(), &person).await.text, "did x");
    assert_eq!(person.count(), 1);
}

#[tokio::test]
async fn addresses_ask_too_and_a_dry_run_asks_nobody() {
    let bench = bench();
    let person = Person::saying(Answer::Granted(Scope::Once));
    let write = |dry: bool| json!({"address": "file:note.txt", "content": "x", "dryRun": dry});
    let dry = ask(&bench, Verb::Write, write(true), &person).await;
    assert_eq!((dry.status, person.count()), (Status::Ok, 0), "{}", dry.text);
    let written = ask(&bench, Verb::Write, write(false), &person).await;
    assert_eq!(
        (written.status, person.count()),
        (Status::Ok, 1),
        "{}",
        written.text
    );
    let path = bench.dir.path().canonicalize().unwrap().join("work/note.txt");
    assert_eq!(std::fs::read_to_string(path).unwrap(), "x");
}

#[tokio::test]
async fn what_is_denied_or_allowed_asks_nobody() {
    let bench = bench_with(Setup {
        policy: Policy::parse("deny = [\"call:fake/fail\"]\nallow = [\"call:fake/change\"]").unwrap(),
        ..Setup::default()
    });
    let person = Person::saying(Answer::Granted(Scope::Always));
    let fail = json!({"tool": "fake/fail", "input": {"text": "x"}});
    for call in [change(), fail] {
        for _ in 0..2 {
            ask(&bench, Verb::Call, call.clone(), &person).await;
        }
    }
    assert_eq!((person.count(), bench.tools.count()), (0, 1));
}

#[tokio::test]
async fn a07_calls_that_wait_for_the_same_approval_ask_once() {
    for (answer, ran, kind) in [
        (Answer::Granted(Scope::Run), 4, None),
        (Answer::Denied, 0, Some(RefusalKind::Forbidden)),
        (Answer::Unanswered, 0, Some(RefusalKind::ApprovalRequired)),
    ] {
        let bench = seen().await;
        let person = Person::waiting(Some(answer), true);
        let calls = (0..4).map(|_| ask(&bench, Verb::Call, change(), &person));
        let let_speak = async {
            person.is_asked.notified().await;
            // The one that asks looked twice; the others stand behind it.
            bench.questions(5).await;
            person.speak.notify_one();
        };
        let (outcomes, ()) = tokio::join!(futures::future::join_all(calls), let_speak);
        assert_eq!((person.count(), bench.tools.count()), (1, ran), "{answer:?}");
        for outcome in outcomes {
            assert_eq!(outcome.refusal.map(|refusal| refusal.kind), kind, "{answer:?}");
        }
    }
}

#[tokio::test]
async fn once_lets_one_of_the_waiting_calls_go_and_asks_for_the_next() {
    let bench = seen().await;
    let person = Person::saying(Answer::Granted(Scope::Once));
    let calls = (0..3).map(|_| ask(&bench, Verb::Call, change(), &person));
    let outcomes = futures::future::join_all(calls).await;
    assert!(outcomes.iter().all(|outcome| outcome.text == "did x"));
    assert_eq!((person.count(), bench.tools.count()), (3, 3));
}

#[tokio::test]
async fn one_who_reaches_nobody_speaks_for_itself_only() {
    let bench = seen().await;
    let carrier = Person::waiting(Some(Answer::Unanswered), false);
    carrier.speak.notify_one();
    let calls = (0..3).map(|_| ask(&bench, Verb::Call, change(), &carrier));
    let outcomes = futures::future::join_all(calls).await;
    assert!(outcomes.iter().all(|outcome| outcome.status == Status::Waiting));
    assert_eq!(carrier.count(), 3);
    assert_eq!(approvals(&bench).await, [ApprovalState::Open]);
}

#[tokio::test]
async fn an_answer_from_elsewhere_stands() {
    let bench = seen().await;
    let person = Person::waiting(Some(Answer::Denied), true);
    let elsewhere = async {
        person.is_asked.notified().await;
        bench.approve(Scope::Once).await;
        person.speak.notify_one();
    };
    let (done, ()) = tokio::join!(ask(&bench, Verb::Call, change(), &person), elsewhere);
    assert_eq!(done.text, "did x");
}

#[tokio::test]
async fn d07_a_question_is_open_only_while_the_journal_says_so() {
    let bench = seen().await;
    let never = Person::waiting(None, true);
    let elsewhere = async {
        never.is_asked.notified().await;
        bench.approve(Scope::Once).await;
    };
    let (done, ()) = tokio::join!(ask(&bench, Verb::Call, change(), &never), elsewhere);
    assert_eq!(done.text, "did x");
    assert_eq!(never.count(), 1);
}

#[tokio::test]
async fn a_canceled_call_stops_asking_and_the_next_one_asks() {
    let bench = seen().await;
    let never = Person::waiting(None, true);
    let cancel = CancellationToken::new();
    let attendance = Attendance {
        cancel: cancel.clone(),
        ..attended(&never)
    };
    let first = bench
        .engine
        .invoke(bench.invocation(CLIENT, Verb::Call, change()), attendance);
    let second = Person::waiting(Some(Answer::Granted(Scope::Once)), true);
    second.speak.notify_one();
    let then = async {
        never.is_asked.notified().await;
        let behind = ask(&bench, Verb::Call, change(), &second);
        let stop = async {
            bench.questions(3).await;
            cancel.cancel();
        };
        tokio::join!(behind, stop).0
    };
    let (canceled, done) = tokio::join!(first, then);
    assert_eq!(canceled.refusal.unwrap().subject, "canceled");
    assert_eq!(done.text, "did x");
    assert_eq!((never.count(), second.count()), (1, 1));
}

#[tokio::test]
async fn a_call_waits_for_a_person_no_longer_than_its_time() {
    let bench = bench_with(Setup {
        limits: Limits {
            call: Duration::from_millis(100),
            ..Limits::default()
        },
        ..Setup::default()
    });
    bench.act(CLIENT, Verb::Call, change()).await;
    let never = Person::waiting(None, true);
    let waiting = ask(&bench, Verb::Call, change(), &never).await;
    assert_eq!(waiting.status, Status::Waiting);
    assert!(waiting.text.contains("approval:"), "{}", waiting.text);
}

#[tokio::test]
async fn agents_and_triggers_wait_for_a_person_elsewhere() {
    for actor in ["agent:main", "trigger:nightly"] {
        let bench = bench();
        bench.act(actor, Verb::Call, change()).await;
        let person = Person::saying(Answer::Granted(Scope::Once));
        let invocation = bench.invocation(actor, Verb::Call, change());
        let waiting = bench.engine.invoke(invocation, attended(&person)).await;
        assert_eq!((waiting.status, person.count()), (Status::Waiting, 0), "{actor}");
    }
}
