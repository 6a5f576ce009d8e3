//! Power loss: of what was written and not synced any part may be missing.
//!
//! A host runs with a record of each write, cut and sync of its database's files (`vfs`, `record`). The disk is then made
//! again as it may be after a loss of power at a moment of that record: everything synced, and of the rest some sectors.
//! What somebody was told to be safe must be there, and the runs go on under the same rules as after a kill; the witness
//! is the world, which loses nothing.
//!
//! Names are taken to be safe as soon as a file is made or deleted. Blobs are no part of it.

mod record;
mod vfs;

use std::path::Path;
use std::time::Instant;

use pentad_journal::{Journal, JournalOptions};
use pentad_model::RunId;
use pentad_program::{RunFilter, RunStore as _, Store as _, ThreadFilter};

pub use self::record::said;

use self::record::{Deed, Disk, Record};
use crate::random::{Dice, seed};
use crate::trial::{End, Trial};

/// Losses in one scenario; `PENTAD_TEST_LONG` multiplies them.
const LOSSES: usize = 56;
const LONG: usize = 8;
/// Deeds in which a database is made.
const CREATION: usize = 16;
const NAMES: [&str; 6] = ["keyed", "never", "fan-out-never", "sleeper", "counter", "long"];

/// Makes a host that is being recorded.
pub fn record(log: &Path, witness: &Path) {
    record::begin(log, witness);
    vfs::register();
}

pub fn test() {
    let (began, seed) = (Instant::now(), seed());
    println!("PENTAD_TEST_SEED={seed} repeats this");
    let mut losses = 0;
    let mut faults = Vec::new();
    std::thread::scope(|scope| {
        let trials: Vec<_> = (0..)
            .zip(NAMES)
            .map(|(number, name)| scope.spawn(move || scenario(name, &mut Dice(seed.wrapping_add(number)))))
            .collect();
        for trial in trials {
            let (times, found) = trial.join().unwrap();
            losses += times;
            faults.extend(found);
        }
    });
    assert!(
        faults.is_empty(),
        "PENTAD_TEST_SEED={seed}:\n{}",
        faults.join("\n")
    );
    println!("{losses} losses of power in {} s", began.elapsed().as_secs());
}

fn scenario(name: &str, dice: &mut Dice) -> (usize, Vec<String>) {
    let trial = Trial::new(name, false);
    let log = trial.path("record");
    trial.recorded(&log);
    let records = record::read(&log);
    let witness = std::fs::read(trial.path("witness")).unwrap_or_default();
    let syncs: Vec<usize> = (0..)
        .zip(&records)
        .filter(|(_, record)| matches!(record.deed, Deed::Sync { .. } | Deed::Said { .. }))
        .map(|(number, _)| number)
        .collect();
    assert!(syncs.len() > 10, "{name}: too little was recorded");
    let wanted = match std::env::var_os("PENTAD_TEST_LONG") {
        Some(_) => LOSSES * LONG,
        None => LOSSES,
    };
    let mut faults = Vec::new();
    for number in 0..wanted {
        // The first start is short, and each of its deeds has a loss of its own.
        let at = if number < CREATION {
            number
        // Of the others, half come just before or after something became safe.
        } else if dice.roll(2) == 0 {
            let sync = syncs[usize::try_from(dice.roll(syncs.len() as u64)).unwrap()];
            sync + usize::try_from(dice.roll(2)).unwrap()
        } else {
            usize::try_from(dice.roll(records.len() as u64 + 1)).unwrap()
        };
        let kept = [5, 0, 9, 10][usize::try_from(dice.roll(4)).unwrap()];
        if let Err(why) = loss(&trial, &records, at, &witness, || dice.roll(10) < kept) {
            faults.push(format!(
                "{name}, lost after {at} of {} deeds, {kept} of 10 sectors kept: {why}",
                records.len()
            ));
            break;
        }
    }
    if !faults.is_empty() {
        trial.keep();
    }
    (wanted, faults)
}

/// Loses power after some deeds, and goes on.
fn loss(
    trial: &Trial,
    records: &[Record],
    at: usize,
    witness: &[u8],
    keeps: impl FnMut() -> bool,
) -> Result<(), String> {
    let mut disk = Disk::default();
    let (past, future) = records.split_at(at);
    past.iter().for_each(|record| disk.apply(&record.deed));
    // What the world saw before the next thing happened to the disk.
    let seen = future
        .first()
        .map_or(witness.len(), |next| usize::try_from(next.witness).unwrap());
    let state = trial.path("state");
    std::fs::remove_dir_all(&state).map_err(|e| e.to_string())?;
    std::fs::create_dir(&state).unwrap();
    for (name, bytes) in disk.lose(keeps) {
        std::fs::write(state.join(name), bytes).unwrap();
    }
    std::fs::write(trial.path("witness"), &witness[..seen]).unwrap();
    let said = past.iter().filter_map(|record| match &record.deed {
        Deed::Said { text } => Some(text.as_str()),
        _ => None,
    });
    safe(&state, &said.collect::<Vec<_>>())?;
    trial.finished(End::Killed)
}

/// Checks that everything is there that somebody was told to be safe, and that each chain is whole.
fn safe(state: &Path, said: &[&str]) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let journal = Journal::open(state, JournalOptions::default()).map_err(|e| e.to_string())?;
    let checked = runtime.block_on(async {
        let failed = |e: pentad_program::StoreError| e.to_string();
        for said in said {
            let (what, run) = said.split_once(' ').unwrap();
            let run: RunId = run.parse().unwrap();
            let record = journal.run(run).await.map_err(|e| format!("{said}: {e}"))?;
            if what == "ended" && !record.status.is_settled() {
                return Err(format!("{said}, and it is {:?}", record.status));
            }
        }
        let filter = RunFilter {
            limit: 10_000,
            ..RunFilter::default()
        };
        for run in journal.runs(filter).await.map_err(failed)? {
            if let Some(broken) = journal.verify_run(run.id).await.map_err(failed)? {
                return Err(format!("run {} is broken at step {broken}", run.id));
            }
        }
        let threads = journal.threads(ThreadFilter {
            limit: 100,
            ..ThreadFilter::default()
        });
        for hit in threads.await.map_err(failed)? {
            if let Some(broken) = journal.verify(hit.thread.id).await.map_err(failed)? {
                return Err(format!("the thread is broken at {broken}"));
            }
        }
        Ok(())
    });
    runtime.block_on(journal.close()).map_err(|e| e.to_string())?;
    checked
}
