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

/// Events that somebody outside sends to a run: the numbers from 0.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Sending {
    pub run: RunId,
    pub event: String,
    pub count: u64,
}

/// What a host executes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Scenario {
    pub name: String,
    pub runs: Vec<Submission>,
    pub sending: Option<Sending>,
    /// Largest result that is no blob.
    pub inline_bytes: usize,
    /// How many runs there are in the end.
    pub expected: usize,
}

/// A run at its end.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ToldRun {
    pub run: Run,
    /// Its result, wherever it is kept.
    pub output: Value,
    pub steps: Vec<Step>,
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

/// What the names of the scenarios are, each with how many steps or runs it has in a small and a large form.
pub const NAMES: [&str; 9] = [
    "keyed",
    "never",
    "stored",
    "fan-out",
    "fan-out-never",
    "waiter",
    "sleeper",
    "counter",
    "commands",
];

impl Scenario {
    /// Returns the scenario of a name for a witness.
    pub fn new(name: &str, witness: &Path) -> Self {
        let (keyed, never) = (
            |steps: u64| json!({"steps": steps, "repeat": "keyed", "witness": witness}),
            |steps: u64| json!({"steps": steps, "repeat": "never", "witness": witness}),
        );
        let fan = |input: Value| json!({"children": 5, "program": "sequence", "input": input});
        let (program, input, expected) = match name {
            "keyed" | "stored" => ("sequence", keyed(6), 1),
            "never" => ("sequence", never(8), 1),
            "long" => ("sequence", never(900), 1),
            "fan-out" => ("fan-out", fan(keyed(3)), 6),
            "fan-out-never" => ("fan-out", fan(never(3)), 6),
            "waiter" => ("waiter", json!({"event": "go", "count": 6}), 1),
            "sleeper" => (
                "sleeper",
                json!({"ms": 2, "times": 5, "repeat": "keyed", "witness": witness}),
                1,
            ),
            "counter" => ("counter", json!({"until": 8, "each": 3, "witness": witness}), 3),
            "commands" => (
                "commands",
                json!({"steps": 3, "repeat": "never", "witness": witness}),
                1,
            ),
            other => panic!("no scenario {other}"),
        };
        let first = Submission {
            id: RunId::generate(),
            program: program.to_owned(),
            input,
        };
        let sending = (name == "waiter").then(|| Sending {
            run: first.id,
            event: "go".to_owned(),
            count: 6,
        });
        let mut runs = vec![first];
        let mut expected = expected;
        if name == "commands" {
            let keyed = json!({"steps": 2, "repeat": "keyed", "witness": witness});
            runs.push(Submission {
                id: RunId::generate(),
                program: "commands".to_owned(),
                input: keyed,
            });
            expected += 1;
        }
        Self {
            name: name.to_owned(),
            runs,
            sending,
            inline_bytes: if name == "stored" { 0 } else { 64 * 1024 },
            expected,
        }
    }
}
