//! The process that is killed: it executes a scenario on a journal and tells what the journal says in the end.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pentad_journal::{Journal, JournalOptions};
use pentad_model::event::EventBody;
use pentad_model::run::{OnLoss, Run, RunStatus, Terms};
use pentad_model::step::Repeat;
use pentad_model::{Actor, GrantSet, Name, Outcome, RunId, ThreadId, Timestamp};
use pentad_program::{
    ActFailure, Attempt, Invoke, NewRun, NewThread, RunFilter, RunStore as _, Store as _, StoreError,
};
use pentad_run::{Invoker, Limits, Runtime, RuntimeParts, SystemClock, Takes, programs};
use serde_json::Value;

use crate::command::{Commands, MARK};
use crate::power;
use crate::scenario::{Scenario, Submission, Told, ToldRun};
use crate::talker::Talker;

/// Names the file into which everything is recorded that is done to the database.
pub const RECORD: &str = "PENTAD_TEST_RECORD";

const MANY: usize = 10_000;
/// How long all may take; a host that hangs says so itself.
const LIMIT: Duration = Duration::from_secs(45);
/// How long the end of everything may take.
const END: Duration = Duration::from_secs(30);

struct NoVerbs;

#[async_trait]
impl Invoker for NoVerbs {
    fn repeat(&self, _: &Run, _: &Invoke) -> Repeat {
        Repeat::Safe
    }

    async fn invoke(&self, _: &Run, _: Invoke, _: Attempt) -> Result<Outcome, ActFailure> {
        Err(ActFailure::Interrupted)
    }
}

/// Executes a scenario to its end and prints what came of it.
pub fn main(state: &Path, scenario_path: &Path) -> ExitCode {
    let scenario: Scenario = serde_json::from_slice(&std::fs::read(scenario_path).unwrap()).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    if let Some(log) = std::env::var_os(RECORD) {
        power::record(log.as_ref(), &scenario_path.with_file_name("witness"));
    }
    std::thread::spawn(|| {
        std::thread::sleep(LIMIT);
        eprintln!("The runs have not ended within {LIMIT:?}.");
        std::process::exit(3);
    });
    let told = runtime.block_on(execute(state, &scenario));
    pentad_fail::report().unwrap();
    println!("{}", serde_json::to_string(&told).unwrap());
    ExitCode::SUCCESS
}

async fn execute(state: &Path, scenario: &Scenario) -> Told {
    let mut programs = programs::all();
    programs.push(Arc::new(Talker));
    let mut spawner = None;
    if scenario.runs.iter().any(|run| run.program == "commands") {
        let commands = Commands::new(std::env::var(MARK).unwrap_or_default());
        spawner = Some(commands.spawner());
        programs.push(Arc::new(commands));
    }
    let options = JournalOptions {
        // Somebody outside is heard soon.
        poll: Duration::from_millis(2),
        ..JournalOptions::default()
    };
    let journal = Arc::new(Journal::open(state, options).unwrap());
    let runtime = Runtime::new(RuntimeParts {
        store: Arc::clone(&journal) as _,
        runs: Arc::clone(&journal) as _,
        invoker: Arc::new(NoVerbs),
        clock: Arc::new(SystemClock),
        programs,
        limits: Limits {
            linger: if scenario.lingers { LIMIT } else { Duration::ZERO },
            active: 4,
            inline_bytes: scenario.inline_bytes,
            ..Limits::default()
        },
    });
    runtime.start(Takes::Queue).await.unwrap();
    let thread = open_thread(&journal).await;
    for submission in &scenario.runs {
        submit(&journal, &runtime, thread, submission).await;
    }
    for submission in &scenario.runs {
        let mut ended = runtime.ended(submission.id).await.unwrap();
        while let Some(next) = result_of(&journal, &ended).await.get("continuedAs") {
            let next: RunId = serde_json::from_value(next.clone()).unwrap();
            power::said(&format!("ended {}", ended.id));
            ended = runtime.ended(next).await.unwrap();
        }
        power::said(&format!("ended {}", ended.id));
    }
    assert!(runtime.shutdown(END).await, "something did not end");
    let told = tell(&journal, thread).await;
    drop(runtime);
    journal.close().await.unwrap();
    if let Some(spawner) = spawner {
        spawner.shutdown(END).await;
    }
    told
}

async fn open_thread(journal: &Journal) -> ThreadId {
    let new = NewThread {
        id: ThreadId::generate(),
        key: Some("kills".to_owned()),
        agent: Name::main(),
        opened_by: Actor::User,
        title: None,
        parent: None,
        cwd: None,
        at: Timestamp::now(),
    };
    journal.open_thread(new).await.unwrap().id
}

/// Submits a run that is not there.
async fn submit(journal: &Journal, runtime: &Runtime, thread: ThreadId, wanted: &Submission) {
    match journal.run(wanted.id).await {
        Ok(_) => return,
        Err(StoreError::NotFound(_)) => {}
        Err(error) => panic!("{error}"),
    }
    let new = NewRun {
        id: wanted.id,
        parent: None,
        thread,
        name: None,
        title: wanted.program.clone(),
        tool: None,
        tool_cid: None,
        caller: Actor::User.into(),
        grants: GrantSet::everything(),
        input: wanted.input.clone(),
        terms: Terms {
            program: wanted.program.clone(),
            on_loss: OnLoss::Resume,
            ..Terms::default()
        },
        status: RunStatus::Queued,
        at: Timestamp::now(),
    };
    runtime.submit(new, Vec::new()).await.unwrap();
    power::said(&format!("submitted {}", wanted.id));
}

/// Returns a run's result, wherever it is kept.
async fn result_of(journal: &Journal, run: &Run) -> Value {
    match run.stored.get("output") {
        Some(stored) => {
            let bytes = journal.blob(&stored.blob, stored.bytes).await.unwrap();
            serde_json::from_slice(&bytes).unwrap()
        }
        None => run.output.clone().unwrap_or_default(),
    }
}

async fn tell(journal: &Journal, thread: ThreadId) -> Told {
    let filter = RunFilter {
        limit: MANY,
        ..RunFilter::default()
    };
    let mut runs = Vec::new();
    for run in journal.runs(filter).await.unwrap() {
        let events = journal.run_events(run.id, 0, MANY).await.unwrap().events;
        let settles =
            |body: &EventBody| matches!(body, EventBody::RunStatus { status, .. } if status.is_settled());
        runs.push(ToldRun {
            lines: events
                .iter()
                .filter(|event| matches!(event.body, EventBody::Log { .. }))
                .count(),
            output: result_of(journal, &run).await,
            steps: journal.steps(run.id, 0, MANY).await.unwrap().steps,
            settlements: events.iter().filter(|event| settles(&event.body)).count(),
            broken: journal.verify_run(run.id).await.unwrap(),
            run,
        });
    }
    let counts = journal.counts(None).await.unwrap();
    Told {
        runs,
        broken: journal.verify(thread).await.unwrap(),
        live: counts.running + counts.queued + counts.waiting,
    }
}
