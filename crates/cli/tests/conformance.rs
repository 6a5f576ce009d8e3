//! The official conformance suite against `pentad up` itself.
//!
//! Most scenarios call tools, resources and prompts of a server made for the suite. Those are run against such a server,
//! on the same transport, by the tests of `pentad-mcp`; here they show that what we answer instead is well-formed.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod common;

use common::Place;
use common::up::Up;
use pentad_testkit::conformance::{Selection, Suite};

/// A complaint that is no fault: the beginning of its scenario and of its check, and why.
type Excuse = (&'static str, &'static str, &'static str);

const NOT_APPLICABLE: [Excuse; 25] = [
    ("tools-call-", "", "calls a tool of the suite's own"),
    ("elicitation-", "", "calls a tool of the suite's own"),
    ("json-schema-2020-12", "", "looks for a tool of the suite's own"),
    ("input-required-result-", "", "calls a tool of the suite's own"),
    ("server-sse-polling", "", "calls a tool of the suite's own"),
    ("resources-", "", "reads resources of the suite's own"),
    ("prompts-", "", "there are no prompts"),
    (
        "completion-",
        "",
        "there are no prompts whose arguments could be completed",
    ),
    (
        "logging-",
        "",
        "log messages are not offered: the journal is read",
    ),
    ("sep-2164-", "", "there are no resources that could be unknown"),
    ("sep-2640-", "", "skills are an extension"),
    ("tasks-", "", "tasks are an extension"),
    ("caching", "sep-2549-prompts-", "there are no prompts"),
    ("caching", "sep-2549-resources-", "there are no resources"),
    (
        "http-custom-header-",
        "sep-2243-server-",
        "there is no tool with an annotated argument",
    ),
    (
        "server-stateless",
        "sep-2575-server-rejects-undeclared",
        "calls a tool of the suite's own",
    ),
    (
        "server-stateless",
        "sep-2575-missing-capability-http-400",
        "calls a tool of the suite's own",
    ),
    (
        "server-stateless",
        "sep-2575-http-server-no-independent",
        "calls a tool of the suite's own",
    ),
    (
        "server-stateless",
        "sep-2575-server-no-log",
        "calls a tool of the suite's own",
    ),
    (
        "server-stateless",
        "sep-2575-server-sends-subscription-ack",
        "the five tools never change",
    ),
    (
        "server-stateless",
        "sep-2575-server-tags-subscription",
        "the five tools never change",
    ),
    (
        "server-stateless",
        "sep-2575-server-honors-notification",
        "the five tools never change",
    ),
    (
        "server-stateless",
        "sep-2575-server-sends-prompts",
        "there are no prompts",
    ),
    (
        "server-stateless",
        "sep-2575-server-sends-tools",
        "the five tools never change",
    ),
    (
        "server-stateless",
        "sep-2575-server-sends-resources",
        "there are no resources",
    ),
];

/// What must have been among the scenarios, besides those that call what we have not.
const SESSIONS: [&str; 4] = [
    "server-initialize",
    "server-session-lifecycle",
    "ping",
    "tools-list",
];
const ALONE: [&str; 4] = [
    "server-stateless",
    "tools-list",
    "dns-rebinding-protection",
    "http-header-validation",
];

fn is_excused(complaint: &str) -> bool {
    let Some((scenario, rest)) = complaint.split_once(": ") else {
        return false;
    };
    let check = rest.split_once(' ').map_or(rest, |(_, check)| check);
    // Whatever is called, what comes back has the shape that the revision gives it.
    !check.starts_with("wire-schema")
        && NOT_APPLICABLE
            .iter()
            .any(|(scenarios, checks, _)| scenario.starts_with(scenarios) && check.starts_with(checks))
}

fn conforms(revision: &str, among: &[&str]) {
    let Some(suite) = Suite::find().unwrap() else {
        return;
    };
    let place = Place::new();
    let up = Up::start_with(&place, &["--insecure-loopback"]);
    let findings = suite.server(&up.mcp, Selection::All(revision)).unwrap();
    up.end();
    place.assert_nobody_is_left("after pentad up");
    for name in among {
        assert!(
            findings.scenarios.contains_key(*name),
            "{name} was not run: {findings}"
        );
    }
    let complaints: Vec<String> = findings
        .complaints()
        .into_iter()
        .filter(|complaint| !is_excused(complaint))
        .collect();
    assert!(complaints.is_empty(), "{complaints:#?}\n{findings}");
}

#[test]
fn pentad_up_conforms_to_2025_06_18() {
    conforms("2025-06-18", &SESSIONS);
}

#[test]
fn pentad_up_conforms_to_2025_11_25() {
    conforms("2025-11-25", &SESSIONS);
}

#[test]
fn pentad_up_conforms_to_2026_07_28() {
    conforms("2026-07-28", &ALONE);
}
