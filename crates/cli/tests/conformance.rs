//! The official conformance suite against `pentad up` itself, with the scenarios that need no tools of the suite's own.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod common;

use common::Place;
use common::up::Up;
use pentad_testkit::conformance::{Findings, Selection, Suite};

/// What the suite says that is no fault of a server with five verbs, each with its reason.
///
/// The scenarios that are not run here call tools, resources and prompts of a server made for the suite; they are run
/// against such a server by the tests of `pentad-mcp`.
const NOT_APPLICABLE: [(&str, &str); 12] = [
    // These call a tool of the suite's own.
    (
        "server-stateless",
        "sep-2575-server-rejects-undeclared-capability",
    ),
    ("server-stateless", "sep-2575-missing-capability-http-400"),
    (
        "server-stateless",
        "sep-2575-http-server-no-independent-requests-on-stream",
    ),
    ("server-stateless", "sep-2575-server-no-log-without-loglevel"),
    // The five tools never change, so there is nothing to subscribe to.
    ("server-stateless", "sep-2575-server-sends-subscription-ack"),
    ("server-stateless", "sep-2575-server-tags-subscription-id"),
    ("server-stateless", "sep-2575-server-honors-notification-filter"),
    (
        "server-stateless",
        "sep-2575-server-sends-prompts-list-changed-on-subscription",
    ),
    (
        "server-stateless",
        "sep-2575-server-sends-tools-list-changed-on-subscription",
    ),
    // There are no prompts; whether there are resources is for the face to say, and `caching` asks for both.
    ("caching", "sep-2549-prompts-list-caching-hints"),
    ("caching", "sep-2549-resources-"),
    // A server without resources answers that there is no such method.
    ("sep-2164-resource-not-found", "sep-2164-"),
];

const SESSIONS: [&str; 6] = [
    "server-initialize",
    "server-session-lifecycle",
    "ping",
    "tools-list",
    "dns-rebinding-protection",
    "server-sse-multiple-streams",
];

const ALONE: [&str; 7] = [
    "server-stateless",
    "tools-list",
    "dns-rebinding-protection",
    "server-sse-multiple-streams",
    "caching",
    "http-header-validation",
    "sep-2164-resource-not-found",
];

/// Returns what the suite complains about and has no reason here.
fn unexplained(findings: &Findings) -> Vec<String> {
    findings
        .complaints()
        .into_iter()
        .filter(|complaint| {
            !NOT_APPLICABLE.iter().any(|(scenario, check)| {
                let of_scenario = complaint.strip_prefix(&format!("{scenario}: "));
                of_scenario
                    .and_then(|rest| rest.split_once(' '))
                    .is_some_and(|(_, rest)| rest.starts_with(check))
            })
        })
        .collect()
}

fn conforms(revision: &str, scenarios: &[&str]) {
    let Some(suite) = Suite::find().unwrap() else {
        return;
    };
    let place = Place::new();
    let up = Up::start_with(&place, &["--insecure-loopback"]);
    for name in scenarios {
        let findings = suite
            .server(&up.mcp, Selection::Scenario { name, revision })
            .unwrap();
        let complaints = unexplained(&findings);
        assert!(
            complaints.is_empty(),
            "{name} at {revision}: {complaints:#?}\n{findings}"
        );
    }
    up.end();
    place.assert_nobody_is_left("after pentad up");
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
