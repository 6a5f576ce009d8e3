//! One scenario on one state folder, whose host is killed and started again.

use std::fs::{File, OpenOptions};
use std::path::PathBuf;
use std::process::Child;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pentad_journal::{Journal, JournalOptions};
use pentad_model::{Actor, Timestamp};
use pentad_program::{RunStore as _, StoreError};
use serde_json::json;
use tempfile::TempDir;

use crate::check::check;
use crate::host::RECORD;
use crate::process::{self, END, Mode};
use crate::scenario::{Scenario, Sending, Told};

/// A fail point to be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fail {
    pub point: String,
    pub nth: u64,
    pub mode: Mode,
}

/// How one start of a host ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It was killed.
    Killed,
    /// It executed everything.
    Finished,
}

pub struct Trial {
    dir: TempDir,
    scenario: Scenario,
    mark: String,
    sender: Option<JoinHandle<Result<(), String>>>,
}

impl Trial {
    /// Makes a state folder for a scenario, in memory where the system has a place for that.
    pub fn new(name: &str) -> Self {
        let shared = PathBuf::from("/dev/shm");
        let builder =
            |place: &std::path::Path| tempfile::Builder::new().prefix("pentad-kills-").tempdir_in(place);
        let dir = builder(&shared)
            .or_else(|_| builder(&std::env::temp_dir()))
            .unwrap();
        let scenario = Scenario::new(name, &dir.path().join("witness"));
        std::fs::write(
            dir.path().join("scenario.json"),
            serde_json::to_vec(&scenario).unwrap(),
        )
        .unwrap();
        let mark = dir.path().file_name().unwrap().to_str().unwrap().to_owned();
        let state = dir.path().join("state");
        let sender = scenario
            .sending
            .clone()
            .map(|sending| std::thread::spawn(move || send(&state, &sending)));
        Self {
            dir,
            scenario,
            mark,
            sender,
        }
    }

    /// Returns the path of something of this trial.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Starts a host.
    pub fn start(&self, variables: &[(&str, &str)]) -> Child {
        let said = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.path("said"))
            .unwrap();
        process::host(&self.path("state"), &self.path("scenario.json"), &self.mark)
            .envs(variables.iter().copied())
            .env("PENTAD_FAIL_REPORT", self.path("passed"))
            .stdout(File::create(self.path("told")).unwrap())
            .stderr(said)
            .spawn()
            .unwrap()
    }

    /// Starts a host that fails at a point, and waits for its end.
    pub fn fail(&self, fail: &Fail) -> Result<End, String> {
        let wanted = format!("{}:{}", fail.point, fail.nth);
        let mut host = self.start(&[("PENTAD_FAIL", &wanted), ("PENTAD_FAIL_MODE", fail.mode.word())]);
        let status = process::ended(&mut host, fail.mode);
        self.judge(status)
    }

    /// Starts a host and kills it after a while, if it has not ended by then.
    pub fn kill_after(&self, time: Duration) -> Result<End, String> {
        let mut host = self.start(&[]);
        let status = process::within(&mut host, time).or_else(|| {
            process::kill(&host);
            process::within(&mut host, END)
        });
        self.judge(status)
    }

    /// Runs to the end and counts how often each point is passed.
    pub fn count(&self) -> Vec<(String, u64)> {
        let mut host = self.start(&[("PENTAD_FAIL", "count")]);
        let status = process::within(&mut host, END);
        assert_eq!(self.judge(status), Ok(End::Finished), "{}", self.said());
        let passed = std::fs::read_to_string(self.path("passed")).unwrap();
        let line = |line: &str| {
            let (name, times) = line.split_once(' ').unwrap();
            (name.to_owned(), times.parse().unwrap())
        };
        passed.lines().map(line).collect()
    }

    /// Runs to the end with a record of everything that is done to the database.
    pub fn recorded(&self, log: &std::path::Path) {
        let mut host = self.start(&[(RECORD, log.to_str().unwrap())]);
        let status = process::within(&mut host, END);
        assert_eq!(self.judge(status), Ok(End::Finished), "{}", self.said());
    }

    /// Leaves everything where it is.
    pub fn keep(self) {
        println!("kept: {}", self.dir.keep().display());
    }

    fn judge(&self, status: Option<std::process::ExitStatus>) -> Result<End, String> {
        use std::os::unix::process::ExitStatusExt as _;
        match status {
            Some(status) if status.success() => Ok(End::Finished),
            Some(status) if status.signal() == Some(9) => Ok(End::Killed),
            Some(status) => Err(format!("the host ended with {status}: {}", self.said())),
            None => Err(format!("the host did not end: {}", self.said())),
        }
    }

    fn said(&self) -> String {
        std::fs::read_to_string(self.path("said")).unwrap_or_default()
    }

    /// Lets a host run to the end, and compares what it tells with the witness.
    pub fn finish(mut self, last: End) -> Result<(), String> {
        let sender = self.sender.take();
        let finished = self.finished(last);
        let sent = sender.map_or(Ok(()), |sender| sender.join().unwrap());
        let checked = finished.and(sent);
        if checked.is_err() {
            let kept = self.dir.keep();
            return checked.map_err(|why| format!("{why} (kept: {})", kept.display()));
        }
        checked
    }

    /// Does the same, and leaves the trial to whoever goes on with it.
    pub fn finished(&self, last: End) -> Result<(), String> {
        if last == End::Killed {
            let mut host = self.start(&[]);
            let status = process::within(&mut host, END);
            if self.judge(status)? != End::Finished {
                return Err("the last host was killed by somebody else".to_owned());
            }
        }
        if !process::none_left(&self.mark) {
            return Err("a process is left".to_owned());
        }
        let told = std::fs::read(self.path("told")).unwrap();
        let told: Told = serde_json::from_slice(&told).map_err(|e| format!("told: {e}"))?;
        let witness = std::fs::read_to_string(self.path("witness")).unwrap_or_default();
        let lines: Vec<&str> = witness.lines().collect();
        check(&self.scenario, &told, &lines)
    }
}

/// Sends the events of a scenario from outside, each exactly once: this process is not killed.
fn send(state: &std::path::Path, sending: &Sending) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let journal = Journal::open(state, JournalOptions::default()).map_err(|e| e.to_string())?;
    let sent = runtime.block_on(send_all(&journal, sending));
    let closed = runtime.block_on(journal.close());
    sent.and(closed.map_err(|e| e.to_string()))
}

async fn send_all(journal: &Journal, sending: &Sending) -> Result<(), String> {
    let until = Instant::now() + END;
    let look = || tokio::time::sleep(Duration::from_millis(1));
    for number in 0..sending.count {
        // Every other one comes when it is waited for, if that is soon.
        for _ in 0..(number % 2) * 30 {
            if journal
                .waits(sending.run)
                .await
                .is_ok_and(|waits| !waits.is_empty())
            {
                break;
            }
            look().await;
        }
        loop {
            let (value, by) = (json!(number), Actor::User.into());
            let sent = journal.send(sending.run, &sending.event, value, by, Timestamp::now());
            match sent.await {
                Ok(_) => break,
                // It is not submitted yet.
                Err(StoreError::NotFound(_)) if Instant::now() < until => look().await,
                Err(error) => return Err(format!("event {number} cannot be sent: {error}")),
            }
        }
    }
    Ok(())
}
