//! A home for each test, faces on it, and what its journal says.
#![allow(dead_code, reason = "each test program uses a part")]
#![allow(clippy::panic)]

pub mod dice;
pub mod sdk;
pub mod up;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use pentad_journal::{Journal, JournalOptions};
use pentad_model::Event;
use pentad_program::{Store, ThreadFilter};
use pentad_testkit::client::RawClient;
use pentad_testkit::process::{marked, none_marked_within};
use rustix::process::Pid;
use serde_json::Value;
use tempfile::TempDir;

/// The variable that every process of a test's home carries.
pub const MARK: &str = "PENTAD_TEST_MARK";
/// The revision with a session.
pub const SESSION: &str = "2025-11-25";
/// The name under which test clients introduce themselves.
pub const CLIENT: &str = "tester";

/// A home of its own with everything around it: recipes, a folder to work in, a person's home directory.
pub struct Place {
    dir: TempDir,
    mark: String,
    in_process: bool,
}

impl Drop for Place {
    fn drop(&mut self) {
        // A test that fails says more than a keeper that does not end.
        if !std::thread::panicking() {
            self.stop();
        } else if self.path("home/state/keeper.lock").exists() {
            let _ = self.pentad(&["stop"]).output();
        }
    }
}

impl Place {
    /// Makes a home in which each face keeps what it needs in its own process.
    pub fn in_process() -> Self {
        let mut place = Self::new();
        place.in_process = true;
        place
    }

    /// Ends the keeper of this home, if one runs, and waits until everything of it has ended.
    pub fn stop(&self) {
        if self.path("home/state/keeper.lock").exists() {
            let stopped = self.pentad(&["stop"]).output().unwrap();
            assert!(
                stopped.status.success(),
                "{}",
                String::from_utf8_lossy(&stopped.stderr)
            );
        }
    }

    /// Returns the process that has this home.
    pub fn keeper(&self) -> i32 {
        let text = std::fs::read_to_string(self.path("home/state/keeper.lock")).unwrap();
        text.trim().parse().unwrap()
    }

    /// Makes a home in which every descendant of a face carries this place's mark.
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mark = dir.path().file_name().unwrap().to_str().unwrap().to_owned();
        let place = Self {
            dir,
            mark,
            in_process: false,
        };
        for folder in ["home", "home/recipes", "work", "person"] {
            std::fs::create_dir_all(place.path(folder)).unwrap();
        }
        place.configure(&format!("[env]\nnames = [\"{MARK}\"]\n"));
        place
    }

    /// Returns a path below the place's own directory.
    pub fn path(&self, below: &str) -> PathBuf {
        self.dir.path().join(below)
    }

    /// Returns the directory of the home.
    pub fn home(&self) -> PathBuf {
        self.path("home")
    }

    /// Returns the environment entry that all processes of this place carry.
    pub fn mark(&self) -> String {
        format!("{MARK}={}", self.mark)
    }

    /// Appends sections to the home's configuration.
    pub fn configure(&self, sections: &str) {
        let mut file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.path("home/config.toml"))
            .unwrap();
        file.write_all(sections.as_bytes()).unwrap();
    }

    /// Configures a server; `more` holds further lines of its section.
    pub fn server(&self, name: &str, command: &[&str], more: &str) {
        let (program, args) = command.split_first().unwrap();
        let args = serde_json::to_string(args).unwrap();
        self.configure(&format!(
            "\n[servers.{name}]\ncommand = {}\nargs = {args}\n{more}\n",
            Value::from(*program)
        ));
    }

    /// Configures the fixture server with these switches, its witness being `witness-NAME` of this place.
    pub fn fixture_server(&self, name: &str, switches: &[&str], more: &str) {
        let program = pentad_testkit::binaries::fixture("fixture-mcp-server").unwrap();
        let witness = self.path(&format!("witness-{name}"));
        let mut command = vec![program.to_str().unwrap(), "--witness", witness.to_str().unwrap()];
        command.extend(switches);
        self.server(name, &command, more);
    }

    /// Returns the lines of a fixture server's witness; none when it was never started.
    pub fn witness(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.path(&format!("witness-{name}"))).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Returns how many lines of a witness begin with this word.
    pub fn witnessed(&self, name: &str, word: &str) -> usize {
        let begins = |line: &&String| line.split(' ').next() == Some(word);
        self.witness(name).iter().filter(begins).count()
    }

    /// Lets a client call everything of these sources without asking.
    pub fn grant(&self, client: &str, grants: &[&str]) {
        let grants = serde_json::to_string(grants).unwrap();
        self.configure(&format!("\n[clients.{client}]\ngrants = {grants}\n"));
    }

    /// Writes a recipe of this template with these arguments.
    pub fn recipe(&self, name: &str, template: &str, args: &[&str]) {
        let recipe =
            serde_json::json!({"description": format!("Is {name}."), "template": template, "args": args});
        std::fs::write(
            self.path(&format!("home/recipes/{name}.json")),
            recipe.to_string(),
        )
        .unwrap();
    }

    /// Returns the environment of everything that is started here.
    pub fn env(&self) -> BTreeMap<String, String> {
        [
            ("PATH", std::env::var("PATH").unwrap()),
            ("HOME", text(&self.path("person"))),
            ("PENTAD_HOME", text(&self.home())),
            (MARK, self.mark.clone()),
            ("PENTAD_IN_PROCESS", u8::from(self.in_process).to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    /// Returns a command of the binary, in this place's environment and nothing else.
    pub fn pentad<S: AsRef<std::ffi::OsStr>>(&self, words: &[S]) -> Command {
        let mut command = Command::new(binary());
        command
            .env_clear()
            .envs(self.env())
            .current_dir(self.path("work"))
            .args(words)
            .stdin(Stdio::null());
        command
    }

    /// Starts a face with these further arguments; no session is opened.
    pub fn raw_face(&self, more: &[&str]) -> RawClient {
        let args = ["mcp"].iter().chain(more);
        RawClient::start(&binary(), args, &self.env(), &self.path("work")).unwrap()
    }

    /// Starts a face and opens a session as [`CLIENT`].
    pub fn face(&self) -> RawClient {
        let mut face = self.raw_face(&[]);
        face.initialize(SESSION, CLIENT).unwrap();
        face
    }

    /// Writes the recipe `litter`: it leaves a process in a session of its own whose parent has ended, and another
    /// below it, tells a pipe (`fifo`, unless it is `-`) that they run, and goes on for `hold` seconds.
    pub fn litter(&self) {
        let script = self.path("litter.sh");
        std::fs::write(&script, LITTER).unwrap();
        self.recipe(
            "litter",
            &format!("sh {} {{tag}} {{fifo=-}} {{hold=0}}", text(&script)),
            &["tag", "fifo", "hold"],
        );
    }

    /// Makes a named pipe; opening it for reading waits until somebody writes.
    pub fn fifo(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        path
    }

    /// Waits until no process of this place is left, at most [`END`].
    pub fn assert_nobody_is_left(&self, when: &str) {
        self.stop();
        let left = none_marked_within(&self.mark(), END).unwrap();
        assert!(left.is_empty(), "{when}, these are left:\n{}", described(&left));
    }
}

const LITTER: &str = "\
(setsid sh -c 'setsid sleep 600 >/dev/null 2>&1 </dev/null & exec sleep 600' >/dev/null 2>&1 </dev/null &)
[ \"$2\" = - ] || echo started >\"$2\"
echo \"littered $1\"
exec sleep \"$3\"
";

/// How long processes whose owner is gone may take to end.
pub const END: Duration = Duration::from_secs(30);

/// Returns what the processes are: id, parent, command line.
pub fn described(pids: &[Pid]) -> String {
    let line = |pid: &Pid| {
        let pid = pid.as_raw_nonzero();
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let parent = parent_of(pid.get()).unwrap_or_default();
        format!(
            "{pid} (of {parent}): {}",
            String::from_utf8_lossy(&words).replace('\0', " ")
        )
    };
    pids.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Returns the parent of a process.
pub fn parent_of(pid: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?
        .1
        .split_ascii_whitespace()
        .nth(1)?
        .parse()
        .ok()
}

/// Returns the spawner and the wardens of a face.
pub fn keepers_of(face: u32) -> Vec<Pid> {
    marked(&format!("PENTAD_SPAWNER={face}"))
}

/// Returns the spawner of a face, if it has one.
pub fn spawner_of(face: u32) -> Option<Pid> {
    let face = i32::try_from(face).ok();
    keepers_of(face?.unsigned_abs())
        .into_iter()
        .find(|pid| parent_of(pid.as_raw_nonzero().get()) == face)
}

/// Returns the binary under test.
pub fn binary() -> PathBuf {
    assert_cmd::cargo::cargo_bin!("pentad").to_path_buf()
}

/// Returns a path as text.
pub fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// Returns stdout, and the exit code; stderr is shown when a test fails.
pub fn finished(output: &Output) -> (Option<i32>, String) {
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stdout).into_owned(),
    )
}

/// Reads a home's journal from outside, while nothing or something else has it open.
pub struct Reading {
    runtime: tokio::runtime::Runtime,
    journal: Journal,
}

impl Reading {
    /// Opens the journal of a place.
    pub fn of(place: &Place) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let journal = Journal::open(&place.path("home/state"), JournalOptions::default()).unwrap();
        Self { runtime, journal }
    }

    /// Asks the store.
    pub fn ask<T>(&self, question: impl AsyncFnOnce(&dyn Store) -> T) -> T {
        self.runtime.block_on(question(&self.journal))
    }

    /// Returns every event of every thread, and checks that each thread's chain is whole.
    pub fn whole(&self) -> Vec<Event> {
        self.ask(async |store| {
            let filter = ThreadFilter {
                limit: 10_000,
                ..ThreadFilter::default()
            };
            for hit in store.threads(filter).await.unwrap() {
                let broken = store.verify(hit.thread.id).await.unwrap();
                assert_eq!(broken, None, "thread {} is broken there", hit.thread.id);
            }
            let mut events: Vec<Event> = Vec::new();
            loop {
                let after = events.last().map_or(0, |event| event.position);
                let page = store.feed(after, 500).await.unwrap();
                if page.is_empty() {
                    return events;
                }
                events.extend(page);
            }
        })
    }

    /// Closes the journal in order.
    pub fn close(self) {
        self.runtime.block_on(self.journal.close()).unwrap();
    }
}
