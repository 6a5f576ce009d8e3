//! Several processes on one journal, and processes that are killed. The test binary starts itself as the others.

use crate::fixtures::{home, note, text_of};
use pentad_journal::{Journal, JournalOptions};
use pentad_model::ThreadId;
use pentad_program::{Durability, EventRange, Store};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// What a child process is told, in its environment.
const STATE: &str = "PENTAD_TEST_STATE";
const THREAD: &str = "PENTAD_TEST_THREAD";
const NAME: &str = "PENTAD_TEST_NAME";
const WRITES: &str = "PENTAD_TEST_WRITES";

fn spawn(state: &Path, thread: ThreadId, name: &str, writes: usize) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "processes::another_process_writes", "--nocapture"])
        .env(STATE, state)
        .env(THREAD, thread.to_string())
        .env(NAME, name)
        .env(WRITES, writes.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

/// The other process's whole life. Started by the test runner itself it has nothing to do.
#[tokio::test]
async fn another_process_writes() {
    let Ok(state) = std::env::var(STATE) else { return };
    let setting = |name| std::env::var(name).unwrap();
    let thread: ThreadId = setting(THREAD).parse().unwrap();
    let (name, writes) = (setting(NAME), setting(WRITES).parse::<usize>().unwrap());
    let journal = Journal::open(Path::new(&state), JournalOptions::default()).unwrap();
    let tasks: Vec<_> = (0..4)
        .map(|task| {
            let (journal, name) = (journal.clone(), name.clone());
            tokio::spawn(async move {
                for n in (task..writes).step_by(4) {
                    let text = format!("{name}/{n}");
                    let durability = if n % 5 == 0 {
                        Durability::Power
                    } else {
                        Durability::Crash
                    };
                    journal
                        .append(vec![note(thread, &text)], durability)
                        .await
                        .unwrap();
                    // Straight to the pipe: what stands in a buffer was told to nobody.
                    let mut out = std::io::stdout().lock();
                    out.write_all(format!("ack {text}\n").as_bytes()).unwrap();
                    out.flush().unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    journal.close().await.unwrap();
}

fn acknowledged(child: &mut Child) -> impl Iterator<Item = String> + use<> {
    BufReader::new(child.stdout.take().unwrap())
        .split(b'\n')
        .map_while(Result::ok)
        .filter_map(|line| {
            let line = String::from_utf8(line).ok()?;
            // The test runner's own line may stand before the first one.
            line.split_once("ack ").map(|(_, text)| text.to_owned())
        })
}

async fn texts(journal: &Journal, thread: ThreadId) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    let mut after = 0;
    loop {
        let page = journal
            .events(thread, EventRange::After(after), 1_000)
            .await
            .unwrap();
        for event in &page.events {
            *found.entry(text_of(event).to_owned()).or_insert(0) += 1;
            after = event.seq;
        }
        if !page.more {
            return found;
        }
    }
}

#[tokio::test]
async fn p10_eight_processes_write_a_thousand_events_each() {
    let home = home();
    let thread = home.thread().await;
    let mut children: Vec<Child> = (0..8)
        .map(|n| spawn(home.dir.path(), thread, &format!("p{n}"), 1_000))
        .collect();
    let readers: Vec<_> = children
        .iter_mut()
        .map(|child| {
            let lines = acknowledged(child);
            std::thread::spawn(move || lines.count())
        })
        .collect();
    for reader in readers {
        assert_eq!(reader.join().unwrap(), 1_000);
    }
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let found = texts(&home.journal, thread).await;
    assert_eq!(found.len(), 8_000);
    assert!(found.values().all(|count| *count == 1));
    assert_eq!(home.journal.verify(thread).await.unwrap(), None);
}

#[tokio::test]
async fn p01_a_killed_process_loses_no_acknowledged_event() {
    let dir = tempfile::tempdir().unwrap();
    let thread = {
        let journal = Journal::open(dir.path(), JournalOptions::default()).unwrap();
        let new = crate::fixtures::new_thread();
        let thread = journal.open_thread(new).await.unwrap().id;
        journal.close().await.unwrap();
        thread
    };
    let mut told: Vec<String> = Vec::new();
    for round in 0..60_usize {
        let mut child = spawn(dir.path(), thread, &format!("r{round}"), 100_000);
        // Where it dies differs from round to round: after so many answers, in the middle of the next writes.
        let answers = 1 + (round * 37) % 90;
        let mut lines = acknowledged(&mut child);
        told.extend(lines.by_ref().take(answers));
        child.kill().unwrap();
        child.wait().unwrap();
        told.extend(lines);
        // Every few rounds the next process finds what the killed one left, without anyone tidying up between.
        if round % 6 == 5 {
            let journal = Journal::open(dir.path(), JournalOptions::default()).unwrap();
            assert_eq!(journal.verify(thread).await.unwrap(), None, "round {round}");
            let found = texts(&journal, thread).await;
            for text in &told {
                assert_eq!(found.get(text), Some(&1), "round {round}: {text}");
            }
            assert_eq!(journal.head().await.unwrap(), found.len() as u64);
        }
    }
    assert!(told.len() > 60 * 40);
}
