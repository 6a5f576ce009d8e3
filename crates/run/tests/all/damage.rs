//! Programs that changed, journals that were changed, disks that are full, and executors that fight.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pentad_journal::{JournalOptions, Owner};
use pentad_model::run::{RunError, RunStatus};
use pentad_model::step::Repeat;
use pentad_program::{
    Context, Durability, Ending, Failure, Pending, Program, RunStore, StepSpec, Store as _,
};
use pentad_run::{Clock as _, Limits};
use serde_json::{Value, json};

use crate::support::{Host, Setup, Turned, limits, user};

/// Asks for something else when it was changed.
struct Fickle(Arc<AtomicBool>);

impl Program for Fickle {
    fn kind(&self) -> &'static str {
        "fickle"
    }

    fn execute(&self, context: Arc<dyn Context>, _: Value) -> Pending<Result<Ending, RunError>> {
        let changed = self.0.load(Ordering::SeqCst);
        Box::pin(async move {
            let spec = StepSpec {
                name: if changed { "second" } else { "first" }.to_owned(),
                input: json!({"n": 1}),
                label: String::new(),
                repeat: Repeat::Never,
            };
            let act =
                |_| -> pentad_program::ActFuture { Box::pin(async { Ok(json!("secret of the first")) }) };
            let got = context
                .step(spec, Box::new(act))
                .await
                .map_err(Failure::into_error)?;
            context.wait("go", None).await;
            Ok(Ending::done(got))
        })
    }
}

#[tokio::test]
async fn d10_a_program_that_asks_for_something_else_is_stopped_and_given_nothing() {
    let changed = Arc::new(AtomicBool::new(false));
    let host = Host::with(Setup {
        programs: vec![Arc::new(Fickle(Arc::clone(&changed)))],
        ..Setup::default()
    })
    .await;
    let run = host.start("fickle", Value::Null).await;
    host.until_parked(run).await;
    changed.store(true, Ordering::SeqCst);
    host.runtime.send(run, "go", Value::Null, user()).await.unwrap();
    let ended = host.end(run).await;
    assert_eq!((ended.status, ended.output), (RunStatus::Failed, None));
    let error = ended.error.unwrap();
    assert_eq!(error.code, "nondeterministic");
    // Recorded against attempted.
    assert!(
        error.message.contains("first") && error.message.contains("second"),
        "{}",
        error.message
    );
    host.stop().await;
}

#[tokio::test]
async fn d05_a_journal_that_cannot_be_followed_fails_its_run_once() {
    let host = Host::new().await;
    let run = host.start("waiter", json!({"event": "go"})).await;
    host.until_parked(run).await;
    let database = host.journal.database().to_owned();
    let edit = rusqlite::Connection::open(database).unwrap();
    edit.execute("UPDATE step SET body = x'a1' WHERE seq = 2", [])
        .unwrap();
    assert_eq!(
        host.journal.verify_run(run).await.unwrap(),
        Some(2),
        "the chain says where"
    );
    host.runtime.send(run, "go", Value::Null, user()).await.unwrap();
    let ended = host.end(run).await;
    assert_eq!(ended.status, RunStatus::Failed);
    assert_eq!(ended.error.unwrap().code, "corrupt");
    host.stop().await;
}

#[tokio::test]
async fn a_full_disk_stops_a_run_and_space_lets_it_go_on() {
    let dir = Arc::new(tempfile::tempdir().unwrap());
    let host = Host::at(
        dir,
        Setup {
            journal: JournalOptions {
                max_database_bytes: Some(1 << 20),
                ..gone()
            },
            ..Setup::default()
        },
        Turned::new(),
    )
    .await;
    let input = json!({"steps": 4000, "witness": host.witness(), "repeat": "keyed"});
    let run = host.start("sequence", input).await;
    host.until(run, |_| !host.witnessed().is_empty()).await;
    // Others write as well, until nobody can.
    let note = || pentad_model::event::NewEvent {
        thread: host.thread,
        at: host.clock.now(),
        caller: user(),
        call: None,
        run: None,
        body: pentad_model::EventBody::Note {
            text: "x".repeat(4000),
        },
    };
    while host.journal.append(vec![note()], Durability::Crash).await.is_ok() {}
    assert!(!host.run(run).await.status.is_settled());
    host.stop().await;
    host.journal.close().await.unwrap();
    let after = Host::at(Arc::clone(&host.dir), Setup::default(), Turned::new()).await;
    let ended = after.end(run).await;
    assert_eq!(ended.output.unwrap(), json!({"steps": 4000, "interrupted": 0}));
    assert_eq!(after.witnessed().len(), 4000);
    after.stop().await;
}

/// A process that is gone as soon as somebody looks.
fn gone() -> JournalOptions {
    JournalOptions {
        owner: Owner {
            boot: "another".to_owned(),
            ..Owner::current()
        },
        ..JournalOptions::default()
    }
}

/// Another process, as far as the journal can tell.
fn other(pid: u32) -> JournalOptions {
    JournalOptions {
        owner: Owner {
            pid,
            ..Owner::current()
        },
        ..JournalOptions::default()
    }
}

#[tokio::test]
async fn g04_the_runs_of_an_executor_that_falls_silent_go_on_elsewhere_and_it_is_fenced() {
    let first = Host::with(Setup {
        limits: Limits {
            // It says once that it lives, and then nothing for as long as the test takes.
            beat: Duration::from_secs(3600),
            ..limits()
        },
        ..Setup::default()
    })
    .await;
    let run = first.start("waiter", json!({"event": "go"})).await;
    first.until_parked(run).await;
    let held = first.start("sleeper", json!({"ms": 1000})).await;
    first.until_parked(held).await;
    first.journal.beat().await.unwrap();

    let second = Host::at(
        Arc::clone(&first.dir),
        Setup {
            limits: Limits {
                beat: Duration::from_millis(20),
                lapse: Duration::from_millis(200),
                ..limits()
            },
            journal: other(std::process::id() + 1),
            ..Setup::default()
        },
        Arc::clone(&first.clock),
    )
    .await;
    // The first one is silent: its lease lapses by the second one's own clock, whatever the wall says.
    while second.journal.executors().await.unwrap().iter().any(|e| !e.own) {
        first.clock.turn(-1000);
        tokio::task::yield_now().await;
    }
    assert!(crate::support::is_conflict(&first.journal.beat().await));
    second.runtime.send(run, "go", json!(1), user()).await.unwrap();
    assert_eq!(second.end(run).await.status, RunStatus::Succeeded);
    second.stop().await;
    first.stop().await;
}

#[tokio::test]
async fn a_thousand_parked_runs_leave_nothing_in_memory_and_all_wake() {
    let host = Host::new().await;
    let mut runs = Vec::new();
    for _ in 0..1000 {
        runs.push(host.start("sleeper", json!({"ms": 60_000})).await);
    }
    loop {
        let counts = host.runtime.counts().await.unwrap();
        if counts.waiting == 1000 && host.runtime.in_memory() == 0 {
            break;
        }
        tokio::task::yield_now().await;
    }
    host.clock.turn(60_000);
    for run in runs {
        assert_eq!(host.end(run).await.status, RunStatus::Succeeded);
    }
    host.stop().await;
}
