//! The official conformance suite against `pentad up` itself, at every revision.
//!
//! Most scenarios call tools, resources and prompts of a server made for the suite. Those are run against such a server,
//! on the same transport, by the tests of `pentad-mcp`; here they show that what we answer instead is well-formed.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod common;

use std::collections::BTreeSet;

use common::Place;
use common::up::Up;
use pentad_testkit::conformance::{Findings, Selection, Suite};

/// A complaint that is no fault: the beginning of its scenario and of its check, and why.
type Excuse = (&'static str, &'static str, &'static str);

const NOT_APPLICABLE: [Excuse; 20] = [
    ("tools-call-", "", "calls a tool of the suite's own"),
    ("elicitation-", "", "calls a tool of the suite's own"),
    ("input-required-result-", "", "calls a tool of the suite's own"),
    ("server-sse-polling", "", "calls a tool of the suite's own"),
    ("json-schema-2020-12", "", "looks for a tool of the suite's own"),
    ("resources-read-", "", "reads a resource of the suite's own"),
    (
        "resources-templates-read",
        "",
        "reads a resource of the suite's own",
    ),
    ("resources-subscribe", "", "resources are read, not watched"),
    ("resources-unsubscribe", "", "resources are read, not watched"),
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
    ("caching", "sep-2549-prompts-", "there are no prompts"),
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
        "sep-2575-server-sends-",
        "the five tools never change, and there are no prompts",
    ),
    (
        "server-stateless",
        "sep-2575-server-tags-subscription",
        "there is nothing to subscribe to",
    ),
    (
        "server-stateless",
        "sep-2575-server-honors-notification",
        "there is nothing to subscribe to",
    ),
];

/// What must have been among the scenarios at each revision, besides those that call what we have not.
const REVISIONS: [(&str, &[&str]); 3] = [
    (
        "2025-06-18",
        &[
            "server-initialize",
            "server-session-lifecycle",
            "ping",
            "tools-list",
        ],
    ),
    (
        "2025-11-25",
        &[
            "server-initialize",
            "server-sse-multiple-streams",
            "dns-rebinding-protection",
            "resources-list",
        ],
    ),
    (
        "2026-07-28",
        &[
            "server-stateless",
            "caching",
            "http-header-validation",
            "http-custom-header-server-validation",
        ],
    ),
];

/// Returns the excuse for a complaint.
fn excuse(complaint: &str) -> Option<&'static Excuse> {
    let (scenario, rest) = complaint.split_once(": ")?;
    let check = rest.split_once(' ').map_or(rest, |(_, check)| check);
    // Whatever is called, what comes back has the shape that the revision gives it.
    if check.starts_with("wire-schema") {
        return None;
    }
    NOT_APPLICABLE
        .iter()
        .find(|(scenarios, checks, _)| scenario.starts_with(scenarios) && check.starts_with(checks))
}

#[test]
fn pentad_up_conforms_to_every_revision() {
    let Some(suite) = Suite::find().unwrap() else {
        return;
    };
    let place = Place::new();
    let up = Up::start_with(&place, &["--insecure-loopback"]);
    let findings: Vec<Findings> = std::thread::scope(|scope| {
        let runs = REVISIONS.map(|(revision, _)| {
            let (suite, url) = (&suite, &up.mcp);
            scope.spawn(move || suite.server(url, Selection::All(revision)).unwrap())
        });
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    up.end();
    place.assert_nobody_is_left("after pentad up");
    let mut used = BTreeSet::new();
    for ((revision, among), findings) in REVISIONS.iter().zip(&findings) {
        for name in *among {
            assert!(
                findings.scenarios.contains_key(*name),
                "{name} at {revision} was not run: {findings}"
            );
        }
        let mut unexcused = Vec::new();
        for complaint in findings.complaints() {
            match excuse(&complaint) {
                Some(excuse) => {
                    used.insert(*excuse);
                }
                None => unexcused.push(complaint),
            }
        }
        assert!(unexcused.is_empty(), "{revision}: {unexcused:#?}");
    }
    let stale: Vec<&Excuse> = NOT_APPLICABLE
        .iter()
        .filter(|excuse| !used.contains(*excuse))
        .collect();
    assert!(stale.is_empty(), "no longer needed: {stale:#?}");
}
