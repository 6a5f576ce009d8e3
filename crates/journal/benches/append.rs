//! What an append costs in each class of durability, alone and in company, and what opening costs with many events.
#![allow(clippy::unwrap_used, missing_docs)]

use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pentad_journal::{Journal, JournalOptions};
use pentad_model::event::NewEvent;
use pentad_model::{Actor, EventBody, ThreadId, Timestamp, Verb};
use pentad_program::{Durability, NewThread, Store};
use tokio::runtime::Runtime;

const CALLERS: usize = 16;

fn called(thread: ThreadId) -> NewEvent {
    NewEvent {
        thread,
        at: Timestamp::now(),
        caller: Actor::User.into(),
        call: None,
        run: None,
        body: EventBody::Called {
            verb: Verb::Call,
            arguments: serde_json::json!({"tool": "github/create_issue", "input": {"title": "It breaks", "n": 1}}),
            cwd: "/home/user/project".to_owned(),
        },
    }
}

async fn open_thread(journal: &Journal) -> ThreadId {
    let new = NewThread {
        id: ThreadId::generate(),
        key: None,
        agent: "main".parse().unwrap(),
        opened_by: Actor::User,
        title: None,
        parent: None,
        cwd: None,
        at: Timestamp::now(),
    };
    journal.open_thread(new).await.unwrap().id
}

/// Returns how long `callers` take to append `count` events together, each awaiting its own before the next.
async fn appends(journal: &Journal, callers: usize, count: u64, durability: Durability) -> Duration {
    let mut threads = Vec::new();
    for _ in 0..callers {
        threads.push(open_thread(journal).await);
    }
    let each = count.div_ceil(callers as u64);
    let since = Instant::now();
    let tasks: Vec<_> = threads
        .into_iter()
        .map(|thread| {
            let journal = journal.clone();
            tokio::spawn(async move {
                for _ in 0..each {
                    journal.append(vec![called(thread)], durability).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    since.elapsed()
}

fn append(criterion: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let journal = Journal::open(dir.path(), JournalOptions::default()).unwrap();
    let mut group = criterion.benchmark_group("append");
    group.throughput(Throughput::Elements(1)).sample_size(20);
    for (name, callers, durability) in [
        ("crash", 1, Durability::Crash),
        ("power", 1, Durability::Power),
        ("crash, 16 callers", CALLERS, Durability::Crash),
        ("power, 16 callers", CALLERS, Durability::Power),
    ] {
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|count| runtime.block_on(appends(&journal, callers, count, durability)));
        });
    }
    group.finish();
    runtime.block_on(journal.close()).unwrap();
}

fn open(criterion: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let journal = Journal::open(dir.path(), JournalOptions::default()).unwrap();
    runtime.block_on(async {
        let thread = open_thread(&journal).await;
        for _ in 0..1_000 {
            let events = std::iter::repeat_with(|| called(thread)).take(1_000);
            journal.append(events.collect(), Durability::Crash).await.unwrap();
        }
        journal.close().await.unwrap();
    });
    let mut group = criterion.benchmark_group("open");
    group.sample_size(20);
    group.bench_function("a million events", |bencher| {
        bencher.iter_custom(|count| {
            let mut total = Duration::ZERO;
            for _ in 0..count {
                let since = Instant::now();
                let journal = Journal::open(dir.path(), JournalOptions::default()).unwrap();
                total += since.elapsed();
                runtime.block_on(journal.close()).unwrap();
            }
            total
        });
    });
    group.finish();
}

criterion_group!(benches, append, open);
criterion_main!(benches);
