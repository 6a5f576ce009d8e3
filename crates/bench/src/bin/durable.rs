//! Durable steps: how many a second, how soon a wait wakes, what a parked run costs, how long a long journal takes to open.
//!
//! Prints one JSON object a line: `{"row": …, "value": …, "unit": …}`. `bench/durable` runs it beside its peers.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use async_trait::async_trait;
use pentad_journal::{Journal, JournalOptions};
use pentad_model::event::{EventBody, NewEvent};
use pentad_model::run::{OnLoss, Run, RunStatus, Terms};
use pentad_model::step::Repeat;
use pentad_model::{Actor, GrantSet, Name, Outcome, RunId, ThreadId, Timestamp};
use pentad_program::{ActFailure, Attempt, Durability, Invoke, NewRun, NewThread, Store};
use pentad_run::{Invoker, Limits, Runtime, RuntimeParts, SystemClock, Takes, programs};
use serde_json::{Value, json};

/// Steps of one run in the rows about steps.
const STEPS: u64 = 5_000;
/// Runs at once in the row about many.
const PARALLEL: u64 = 16;
/// Events that a wait is woken by, one after another.
const WAKES: usize = 300;
/// Runs that are parked at once.
const PARKED: usize = 1_000;

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

struct Host {
    journal: Arc<Journal>,
    runtime: Arc<Runtime>,
    thread: ThreadId,
}

impl Host {
    async fn open(dir: &Path, limits: Limits) -> anyhow::Result<Self> {
        let journal = Arc::new(Journal::open(dir, JournalOptions::default())?);
        let runtime = Runtime::new(RuntimeParts {
            store: Arc::clone(&journal) as _,
            runs: Arc::clone(&journal) as _,
            invoker: Arc::new(NoVerbs),
            clock: Arc::new(SystemClock),
            programs: programs::all(),
            limits,
        });
        runtime.start(Takes::Queue).await?;
        let thread = journal
            .open_thread(NewThread {
                id: ThreadId::generate(),
                key: Some("bench".to_owned()),
                agent: Name::main(),
                opened_by: Actor::User,
                title: None,
                parent: None,
                cwd: None,
                at: Timestamp::now(),
            })
            .await?
            .id;
        Ok(Self {
            journal,
            runtime,
            thread,
        })
    }

    async fn start(&self, program: &str, input: Value) -> anyhow::Result<RunId> {
        let id = RunId::generate();
        let run = NewRun {
            id,
            parent: None,
            thread: self.thread,
            name: None,
            title: program.to_owned(),
            tool: None,
            tool_cid: None,
            caller: Actor::User.into(),
            grants: GrantSet::everything(),
            input,
            terms: Terms {
                program: program.to_owned(),
                on_loss: OnLoss::Resume,
                ..Terms::default()
            },
            status: RunStatus::Queued,
            at: Timestamp::now(),
        };
        self.runtime.submit(run, Vec::new()).await?;
        Ok(id)
    }

    async fn finish(&self, run: RunId) -> anyhow::Result<()> {
        let ended = self.runtime.ended(run).await?;
        anyhow::ensure!(ended.status == RunStatus::Succeeded, "{ended:?}");
        Ok(())
    }

    async fn close(self) -> anyhow::Result<()> {
        anyhow::ensure!(
            self.runtime.shutdown(Duration::from_secs(30)).await,
            "runs were left"
        );
        self.journal.close().await?;
        Ok(())
    }
}

fn say(row: &str, value: f64, unit: &str) {
    println!(
        "{}",
        json!({"row": row, "value": (value * 1000.0).round() / 1000.0, "unit": unit})
    );
}

/// Steps of `runs` runs at once, each of which is written and synced before it is done.
async fn steps(row: &str, runs: u64, repeat: &str) -> anyhow::Result<()> {
    let dir = tempfile::tempdir_in(".")?;
    let host = Host::open(dir.path(), Limits::default()).await?;
    let begun = Instant::now();
    let mut started = Vec::new();
    for _ in 0..runs {
        started.push(
            host.start("sequence", json!({"steps": STEPS, "repeat": repeat}))
                .await?,
        );
    }
    for run in started {
        host.finish(run).await?;
    }
    say(
        row,
        (runs * STEPS) as f64 / begun.elapsed().as_secs_f64(),
        "steps/s",
    );
    host.close().await
}

/// From the sending of an event to the next wait of the run that waited for it.
async fn wakes(row: &str, linger: Duration) -> anyhow::Result<()> {
    let dir = tempfile::tempdir_in(".")?;
    let host = Host::open(
        dir.path(),
        Limits {
            linger,
            ..Limits::default()
        },
    )
    .await?;
    let run = host
        .start("waiter", json!({"event": "go", "count": WAKES + 1}))
        .await?;
    let mut times = Vec::new();
    for number in 0..WAKES {
        waiting(&host, run, number as u32).await?;
        let begun = Instant::now();
        host.runtime
            .send(run, "go", json!(number), Actor::User.into())
            .await?;
        waiting(&host, run, number as u32 + 1).await?;
        times.push(begun.elapsed());
    }
    times.sort();
    say(&format!("{row}, p50"), times[WAKES / 2].as_secs_f64() * 1e3, "ms");
    say(
        &format!("{row}, p99"),
        times[WAKES * 99 / 100].as_secs_f64() * 1e3,
        "ms",
    );
    host.runtime
        .cancel(run, Actor::User.into(), String::new())
        .await?;
    host.close().await
}

/// Waits until a run waits at the command `position`.
async fn waiting(host: &Host, run: RunId, position: u32) -> anyhow::Result<()> {
    use pentad_program::RunStore as _;
    loop {
        let waits = host.journal.waits(run).await?;
        if waits.iter().any(|wait| wait.position == position) {
            return Ok(());
        }
        tokio::task::yield_now().await;
    }
}

async fn parked() -> anyhow::Result<()> {
    let dir = tempfile::tempdir_in(".")?;
    let limits = Limits {
        linger: Duration::ZERO,
        ..Limits::default()
    };
    let host = Host::open(dir.path(), limits).await?;
    host.finish(host.start("sequence", json!({"steps": 10})).await?)
        .await?;
    let before = resident_kib()?;
    let disk = size(dir.path())?;
    for _ in 0..PARKED {
        host.start("sleeper", json!({"ms": 3_600_000})).await?;
    }
    while host.runtime.counts().await?.waiting < PARKED as u64 || host.runtime.in_memory() > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let memory = resident_kib()?.saturating_sub(before) as f64 / PARKED as f64;
    say(
        "a parked run, memory (growth of the process over 1,000)",
        memory,
        "KiB",
    );
    say(
        "a parked run, on disk (log included)",
        size(dir.path())?.saturating_sub(disk) as f64 / 1024.0 / PARKED as f64,
        "KiB",
    );
    host.close().await
}

/// Opening a journal of many events until a run is claimed and has begun.
async fn resume(events: u64) -> anyhow::Result<()> {
    let dir = tempfile::tempdir_in(".")?;
    let host = Host::open(dir.path(), Limits::default()).await?;
    let event = |text: String| NewEvent {
        thread: host.thread,
        at: Timestamp::now(),
        caller: Actor::User.into(),
        call: None,
        run: None,
        body: EventBody::Note { text },
    };
    for start in (0..events).step_by(1_000) {
        let stretch = (start..start + 1_000)
            .map(|n| event(format!("event {n}")))
            .collect();
        host.journal.append(stretch, Durability::Crash).await?;
    }
    let run = host.start("waiter", json!({"event": "go"})).await?;
    waiting(&host, run, 0).await?;
    host.close().await?;
    let mut times = BTreeMap::new();
    for _ in 0..5 {
        let begun = Instant::now();
        let host = Host::open(dir.path(), Limits::default()).await?;
        let first = host.start("sequence", json!({"steps": 0})).await?;
        while host.journal.run(first).await?.status == RunStatus::Queued {
            tokio::task::yield_now().await;
        }
        times.insert(begun.elapsed(), ());
        host.close().await?;
    }
    let median = times.keys().nth(2).copied().unwrap_or_default();
    say(
        &format!("opening a journal of {events} events until a run is claimed"),
        median.as_secs_f64() * 1e3,
        "ms",
    );
    Ok(())
}

fn resident_kib() -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .context("VmRSS in /proc/self/status")?;
    Ok(line.trim().trim_end_matches(" kB").trim().parse()?)
}

fn size(dir: &Path) -> anyhow::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        bytes += if entry.file_type()?.is_dir() {
            size(&entry.path())?
        } else {
            entry.metadata()?.len()
        };
    }
    Ok(bytes)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let only: Option<String> = std::env::args().nth(1);
    let wanted = |group: &str| only.as_deref().is_none_or(|only| only == group);
    if wanted("steps") {
        steps("durable steps, one run, intent synced before each", 1, "never").await?;
        steps("durable steps, 16 runs at once", PARALLEL, "never").await?;
        steps("steps that change nothing, one run, not synced", 1, "safe").await?;
    }
    if wanted("wakes") {
        wakes(
            "an event to the next wait, run in memory",
            Duration::from_secs(60),
        )
        .await?;
        wakes("an event to the next wait, run parked", Duration::ZERO).await?;
    }
    if wanted("parked") {
        parked().await?;
    }
    if wanted("resume") {
        resume(1_000_000).await?;
    }
    Ok(())
}
