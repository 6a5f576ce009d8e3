//! One scenario on one state folder, whose host is killed and started again.

use std::fs::{File, OpenOptions};
use std::path::PathBuf;
use std::process::Child;
use std::thread::JoinHandle;
use std::time::Duration;

use tempfile::TempDir;

use crate::check::check;
use crate::host::RECORD;
use crate::outside;
use crate::process::{self, END, Mode};
use crate::scenario::{Scenario, Told};

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
    outside: Option<JoinHandle<Result<(), String>>>,
}

impl Trial {
    /// Makes a state folder for a scenario, in memory where the system has a place for that.
    pub fn new(name: &str, lingers: bool) -> Self {
        let shared = PathBuf::from("/dev/shm");
        let builder =
            |place: &std::path::Path| tempfile::Builder::new().prefix("pentad-kills-").tempdir_in(place);
        let dir = builder(&shared)
            .or_else(|_| builder(&std::env::temp_dir()))
            .unwrap();
        let scenario = Scenario::new(name, lingers, &dir.path().join("witness"));
        std::fs::write(
            dir.path().join("scenario.json"),
            serde_json::to_vec(&scenario).unwrap(),
        )
        .unwrap();
        let mark = dir.path().file_name().unwrap().to_str().unwrap().to_owned();
        let state = dir.path().join("state");
        let witness = dir.path().join("witness");
        let outside = scenario
            .outside
            .clone()
            .map(|what| std::thread::spawn(move || outside::act(&state, &witness, &what)));
        Self {
            dir,
            scenario,
            mark,
            outside,
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
        let outside = self.outside.take();
        let finished = self.finished(last);
        let acted = outside.map_or(Ok(()), |outside| outside.join().unwrap());
        let checked = finished.and(acted);
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
