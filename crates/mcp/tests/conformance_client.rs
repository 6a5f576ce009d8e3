//! The official conformance suite against the stack that connected servers run on.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::path::PathBuf;

use pentad_testkit::conformance::{Selection, Suite};

/// Scenarios that the suite runs and does not score, and that fail: extensions of the authorization.
///
/// A server is used with the login of a person. Grants from machine to machine (client credentials, workload identity, an
/// enterprise's own authority) have nobody who logs in, and are configured as a header or a variable instead. Tokens that
/// are bound to a key (DPoP) are not known to the protocol library.
const NOT_OFFERED: [&str; 6] = [
    "auth/client-credentials-basic",
    "auth/client-credentials-jwt",
    "auth/dpop",
    "auth/dpop-nonce",
    "auth/enterprise-managed-authorization",
    "auth/wif-jwt-bearer",
];

/// Checks that do not apply, by the beginning of the complaint.
///
/// The revision has no `initialize`, and a server gets no answers of a language model.
const NOT_APPLICABLE: [&str; 3] = [
    "http-standard-headers: Skipped sep-2243-client-includes-standard-headers: Client did not send a initialize",
    "http-standard-headers: Skipped sep-2243-client-includes-standard-headers: Client did not send a notifications/initialized",
    "request-metadata: Skipped sep-2575-client-declares-sampling-capability",
];

/// Cargo builds examples with the tests, and puts them beside the folder that the tests lie in.
fn client_program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().unwrap().parent().unwrap();
    let program = profile.join("examples/conformance-client");
    assert!(
        program.exists(),
        "{} is missing; run cargo build -p pentad-mcp --examples",
        program.display()
    );
    program
}

/// Runs all that a revision requires; `scenarios` is how many there are at least.
fn conforms(revision: &str, scenarios: usize) {
    let Some(suite) = Suite::find().unwrap() else {
        return;
    };
    let findings = suite
        .client(
            &client_program().display().to_string(),
            Selection::Requirements(revision),
        )
        .unwrap();
    assert!(findings.passed, "{findings}");
    assert!(findings.scenarios.len() >= scenarios, "{findings}");
    let complaints: Vec<String> = findings
        .complaints()
        .into_iter()
        .filter(|complaint| {
            let scenario = complaint.split(": ").next().unwrap_or_default();
            !NOT_OFFERED.contains(&scenario)
        })
        .filter(|complaint| !NOT_APPLICABLE.iter().any(|known| complaint.starts_with(known)))
        .collect();
    assert!(complaints.is_empty(), "{complaints:#?}\n{findings}");
}

#[test]
fn the_client_does_all_that_2025_11_25_requires() {
    conforms("2025-11-25", 25);
}

#[test]
fn the_client_does_all_that_2026_07_28_requires() {
    conforms("2026-07-28", 39);
}
