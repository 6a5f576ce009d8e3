//! The official conformance suite against the server that it asks for, on our own transport.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use pentad_testkit::conformance::{Selection, Suite};
use pentad_testkit::process::wait_at_most;

/// Scenarios that the suite runs and does not score, and that fail. Each extension is optional.
///
/// Tasks are not offered: `delegate` with `await: false` and `read run:ID` do what they are for.
const NOT_OFFERED: [&str; 9] = [
    "tasks-capability-negotiation",
    "tasks-dispatch-and-envelope",
    "tasks-lifecycle",
    "tasks-mrtr-composition",
    "tasks-mrtr-input",
    "tasks-request-headers",
    "tasks-request-state-removal",
    "tasks-required-task-error",
    "tasks-wire-fields",
];

/// Recommendations that are not followed, and checks that do not apply, by the beginning of the complaint.
///
/// The fixture closes no stream in the middle of a call: no tool of ours does.
const NOT_FOLLOWED: [&str; 1] = ["server-sse-polling: Warning server-sse-disconnect-resume"];

/// The server, which ends with its standard input.
struct Fixture {
    child: Child,
    url: String,
}

impl Fixture {
    fn start() -> Self {
        let test = std::env::current_exe().unwrap();
        let profile = test.parent().unwrap().parent().unwrap();
        let program = profile.join("examples/conformance-server");
        assert!(
            program.exists(),
            "{} is missing; run cargo build -p pentad-mcp --examples",
            program.display()
        );
        let mut child = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut url)
            .unwrap();
        Self {
            child,
            url: url.trim().to_owned(),
        }
    }

    fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(
            wait_at_most(&mut self.child, Duration::from_secs(20))
                .unwrap()
                .success()
        );
    }
}

/// Runs all that a revision requires; `scenarios` is how many there are at least.
fn conforms(revision: &str, scenarios: usize) {
    let Some(suite) = Suite::find().unwrap() else {
        return;
    };
    let fixture = Fixture::start();
    let findings = suite
        .server(&fixture.url, Selection::Requirements(revision))
        .unwrap();
    fixture.end();
    assert!(findings.passed, "{findings}");
    assert!(findings.scenarios.len() >= scenarios, "{findings}");
    let failed: Vec<&str> = findings
        .failed()
        .into_iter()
        .filter(|name| !NOT_OFFERED.contains(name))
        .collect();
    assert!(failed.is_empty(), "{failed:?}\n{findings}");
    let complaints: Vec<String> = findings
        .complaints()
        .into_iter()
        .filter(|complaint| !complaint.starts_with("tasks-"))
        .filter(|complaint| !NOT_FOLLOWED.iter().any(|known| complaint.starts_with(known)))
        .collect();
    assert!(complaints.is_empty(), "{complaints:#?}");
}

#[test]
fn the_server_does_all_that_2025_11_25_requires() {
    conforms("2025-11-25", 33);
}

#[test]
fn the_server_does_all_that_2026_07_28_requires() {
    conforms("2026-07-28", 50);
}
