//! The official conformance suite against the server that it asks for, on our own transport.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use pentad_testkit::conformance::{Selection, Suite};
use pentad_testkit::process::wait_at_most;

/// Scenarios of an optional extension, which the suite runs and does not score, and which fail.
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

/// The checks of a scenario that the suite does not score, and that are not followed.
///
/// The fixture has no tool that closes its stream in the middle of a call, since no tool of ours does.
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

/// Runs all that a revision requires: everything must hold but these scenarios and these checks, which must not.
fn conforms(revision: &str, scenarios: usize, not_offered: &[&str], not_followed: &[&str]) {
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
    assert_eq!(findings.failed(), not_offered, "{findings}");
    let complaints: Vec<String> = findings
        .complaints()
        .into_iter()
        .filter(|complaint| !complaint.starts_with("tasks-"))
        .collect();
    assert_eq!(complaints.len(), not_followed.len(), "{complaints:#?}");
    for (complaint, known) in complaints.iter().zip(not_followed) {
        assert!(complaint.starts_with(known), "{complaint}");
    }
}

#[test]
fn the_server_does_all_that_2025_11_25_requires() {
    conforms("2025-11-25", 33, &[], &NOT_FOLLOWED);
}

#[test]
fn the_server_does_all_that_2026_07_28_requires() {
    conforms("2026-07-28", 50, &NOT_OFFERED, &[]);
}
