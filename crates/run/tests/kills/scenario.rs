//! What a host executes, and what it tells in the end.

use std::path::Path;

use pentad_model::RunId;
use pentad_model::run::Run;
use pentad_model::step::Step;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A run to be submitted: once, as its id is given.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Submission {
    pub id: RunId,
    pub program: String,
    pub input: Value,
}

/// What somebody does to a run who is not killed.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outside {
    /// Sends the numbers from 0 as events.
    Send {
        to: RunId,
        event: String,
        count: u64,
        /// Whether the run takes all of them before it ends.
        all: bool,
    },
    /// Asks it to end once the witness has this many lines.
    Cancel { run: RunId, after: usize },
}

/// What a host executes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Scenario {
    pub name: String,
    pub runs: Vec<Submission>,
    pub outside: Option<Outside>,
    /// Whether a run that waits stays in memory; else each wake is a replay.
    pub lingers: bool,
    /// Largest result that is no blob.
    pub inline_bytes: usize,
    /// How many runs there are in the end; at most, when they are canceled.
    pub expected: usize,
}

/// A run at its end.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ToldRun {
    pub run: Run,
    /// Its result, wherever it is kept.
    pub output: Value,
    pub steps: Vec<Step>,
    /// Lines of its log.
    pub lines: usize,
    /// Events of its thread that say how it ended.
    pub settlements: usize,
    /// The first step that does not fit its chain.
    pub broken: Option<u64>,
}

/// What a host tells.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Told {
    pub runs: Vec<ToldRun>,
    /// The first event that does not fit the thread's chain.
    pub broken: Option<u64>,
    /// Runs that have not ended.
    pub live: u64,
}

/// The names of the scenarios.
pub const NAMES: [&str; 15] = [
    "keyed",
    "never",
    "stored",
    "fan-out",
    "fan-out-never",
    "fan-out-sleeper",
    "fan-out-counter",
    "nested",
    "waiter",
    "waiter-limit",
    "sleeper",
    "counter",
    "commands",
    "canceled",
    "talker",
];

/// One run and how many there are in the end.
fn run(program: &str, input: Value, expected: usize) -> (&str, Value, usize) {
    (program, input, expected)
}

impl Scenario {
    /// Returns the scenario of a name for a witness.
    pub fn new(name: &str, lingers: bool, witness: &Path) -> Self {
        let acts = |steps: u64, repeat: &str| json!({"steps": steps, "repeat": repeat, "witness": witness});
        let sleeps = |times: u64| json!({"ms": 2, "times": times, "repeat": "keyed", "witness": witness});
        let counts = |until: u64, each: u64| json!({"until": until, "each": each, "witness": witness});
        let fan = |children: u64, program: &str, input: Value| json!({"children": children, "program": program, "input": input});
        let (program, input, expected) = match name {
            "keyed" | "stored" => run("sequence", acts(6, "keyed"), 1),
            "stored-once" => run("sequence", acts(1, "keyed"), 1),
            "never" => run("sequence", acts(8, "never"), 1),
            "long" => run("sequence", acts(900, "never"), 1),
            "fan-out" => run("fan-out", fan(5, "sequence", acts(3, "keyed")), 6),
            "fan-out-never" => run("fan-out", fan(5, "sequence", acts(3, "never")), 6),
            "fan-out-sleeper" => run("fan-out", fan(4, "sleeper", sleeps(2)), 5),
            "fan-out-counter" => run("fan-out", fan(3, "counter", counts(5, 2)), 10),
            "nested" => {
                let inner = fan(2, "sequence", acts(2, "never"));
                run("fan-out", fan(3, "fan-out", inner), 10)
            }
            "waiter" => run("waiter", json!({"event": "go", "count": 6}), 1),
            "waiter-limit" => run("waiter", json!({"event": "go", "count": 8, "limit_ms": 5}), 1),
            "sleeper" => run("sleeper", sleeps(5), 1),
            "counter" => run("counter", counts(8, 3), 3),
            "commands" => run("commands", acts(3, "never"), 2),
            "talker" => run("talker", json!({"lines": 300, "ms": 500, "witness": witness}), 1),
            "canceled" => run("fan-out", fan(3, "sequence", acts(60, "never")), 4),
            other => panic!("no scenario {other}"),
        };
        let submission = |program: &str, input| Submission {
            id: RunId::generate(),
            program: program.to_owned(),
            input,
        };
        let mut runs = vec![submission(program, input)];
        if name == "commands" {
            runs.push(submission("commands", acts(2, "keyed")));
        }
        let to = runs[0].id;
        let outside = match name {
            "waiter" | "waiter-limit" => Some(Outside::Send {
                to,
                event: "go".to_owned(),
                count: 6,
                all: name == "waiter",
            }),
            "canceled" => Some(Outside::Cancel { run: to, after: 20 }),
            _ => None,
        };
        Self {
            name: name.to_owned(),
            runs,
            outside,
            lingers,
            inline_bytes: if name.starts_with("stored") { 0 } else { 64 * 1024 },
            expected,
        }
    }

    /// Tells whether the runs of this scenario may end as canceled.
    pub fn is_canceled(&self) -> bool {
        matches!(self.outside, Some(Outside::Cancel { .. }))
    }

    /// Returns how many events are sent.
    pub fn sent(&self) -> u64 {
        match &self.outside {
            Some(Outside::Send { count, .. }) => *count,
            _ => 0,
        }
    }
}
