//! Executors that are killed while they write. The test binary starts itself as the others.

use crate::durable::{AT, advance, note, step, two};
use pentad_journal::{Journal, JournalOptions, Owner};
use pentad_model::RunId;
use pentad_model::run::RunStatus;
use pentad_model::step::StepBody;
use pentad_program::{Advance, RunStore};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// What the other process is told, in its environment.
const STATE: &str = "PENTAD_TEST_STEPS_STATE";
const ROUNDS: usize = 12;

fn spawn(state: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "durable_kill::another_executor_steps", "--nocapture"])
        .env(STATE, state)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

/// The other process's whole life: it claims the run and goes on where its journal ends. Started by the test runner
/// itself it has nothing to do.
#[tokio::test]
async fn another_executor_steps() {
    let Ok(state) = std::env::var(STATE) else { return };
    let journal = Journal::open(Path::new(&state), JournalOptions::default()).unwrap();
    let run: RunId = journal.claim(1, AT).await.unwrap()[0].id;
    let mut last = journal.steps(run, 0, 10_000).await.unwrap().steps.len() as u64;
    loop {
        let next = Advance {
            steps: vec![note(&(last + 1).to_string())],
            ..advance(run, last)
        };
        last = step(&journal, next).await.unwrap().last;
        // Straight to the pipe: what stands in a buffer was told to nobody.
        let mut out = std::io::stdout().lock();
        out.write_all(format!("ack {last}\n").as_bytes()).unwrap();
        out.flush().unwrap();
    }
}

#[tokio::test]
async fn p01_a_killed_executor_loses_no_acknowledged_step_and_another_goes_on() {
    let two = two().await;
    let run = two.start(two.program()).await;
    let mut told = 0;
    for round in 0..ROUNDS {
        let mut child = spawn(two.dir.path());
        let mut lines = BufReader::new(child.stdout.take().unwrap())
            .split(b'\n')
            .map_while(Result::ok)
            .filter_map(|line| {
                let line = String::from_utf8(line).ok()?;
                // The test runner's own line may stand before the first one.
                line.split_once("ack ")?.1.parse::<u64>().ok()
            });
        told = lines.by_ref().take(1 + (round * 37) % 60).last().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        told = lines.last().unwrap_or(told);
        let steps = two.steps(run).await;
        // One may be written that nobody was told of.
        let found = steps.len() as u64;
        assert!(found == told || found == told + 1, "{found} of {told}");
        for (n, step) in (1_u64..).zip(&steps) {
            let text = n.to_string();
            assert_eq!(step.body, StepBody::Note { text });
        }
        assert_eq!(two.a.verify_run(run).await.unwrap(), None);
        assert_eq!(two.status(run).await, RunStatus::Running);
        let lost = two.a.settle_interrupted(AT, Owner::is_alive).await.unwrap();
        assert_eq!(lost, []);
        assert_eq!(two.status(run).await, RunStatus::Queued);
    }
    assert!(told > 12 * 20);
    assert_eq!(two.a.executors().await.unwrap(), []);
}
