//! Somebody outside, in a process that is not killed: what they were answered has happened, once.

use std::path::Path;
use std::time::{Duration, Instant};

use pentad_journal::{Journal, JournalOptions};
use pentad_model::{Actor, RunId, Timestamp};
use pentad_program::{RunStore as _, StoreError};
use serde_json::json;

use crate::process::END;
use crate::scenario::Outside;

/// Does what a scenario says.
pub fn act(state: &Path, witness: &Path, what: &Outside) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let journal = Journal::open(state, JournalOptions::default()).map_err(|e| e.to_string())?;
    let acted = runtime.block_on(async {
        match what {
            Outside::Send {
                to,
                event,
                count,
                all,
            } => send(&journal, *to, event, *count, *all).await,
            Outside::Cancel { run, after } => cancel(&journal, *run, witness, *after).await,
        }
    });
    let closed = runtime.block_on(journal.close());
    acted.and_then(|()| closed.map_err(|e| e.to_string()))
}

/// The files of others are looked at now and then.
async fn look() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

async fn send(journal: &Journal, to: RunId, event: &str, count: u64, all: bool) -> Result<(), String> {
    let until = Instant::now() + END;
    for number in 0..count {
        // Every other one comes when it is waited for, if that is soon.
        for _ in 0..(number % 2) * 30 {
            if journal.waits(to).await.is_ok_and(|waits| !waits.is_empty()) {
                break;
            }
            look().await;
        }
        loop {
            let (value, by) = (json!(number), Actor::User.into());
            match journal.send(to, event, value, by, Timestamp::now()).await {
                Ok(_) => break,
                // It waited for no longer than it was told to, and has ended.
                Err(StoreError::Conflict(_)) if number > 0 && !all => return Ok(()),
                // It is not submitted yet.
                Err(StoreError::NotFound(_)) if Instant::now() < until => look().await,
                Err(error) => return Err(format!("event {number} cannot be sent: {error}")),
            }
        }
    }
    Ok(())
}

async fn cancel(journal: &Journal, run: RunId, witness: &Path, after: usize) -> Result<(), String> {
    let until = Instant::now() + END;
    while std::fs::read_to_string(witness).map_or(0, |text| text.lines().count()) < after {
        if Instant::now() > until {
            return Err(format!("the witness has not seen {after} acts"));
        }
        look().await;
    }
    let (by, reason) = (Actor::User.into(), "the trial is over".to_owned());
    match journal.cancel(run, by, reason, Timestamp::now()).await {
        // It may have ended before.
        Ok(_) | Err(StoreError::Conflict(_)) => Ok(()),
        Err(error) => Err(format!("the run cannot be canceled: {error}")),
    }
}
