//! Who may steer which run.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod support;

use pentad_model::approval::Scope;
use pentad_model::{RefusalKind, Verb};
use serde_json::{Value, json};
use support::{Bench, bench};

/// A call that has ended, and the address of its run.
async fn called(bench: &Bench, actor: &str) -> String {
    let outcome = bench
        .act(
            actor,
            Verb::Call,
            json!({"tool": "fake/look", "input": {"text": "x"}}),
        )
        .await;
    format!("run:{}", outcome.run.unwrap())
}

async fn steered(bench: &Bench, actor: &str, address: &str, options: &Value, dry: bool) -> RefusalKind {
    let arguments = json!({"address": address, "options": options, "dryRun": dry});
    let outcome = bench.act(actor, Verb::Write, arguments).await;
    outcome.refusal.unwrap().kind
}

#[tokio::test]
async fn ones_own_runs_are_steered_without_asking_and_those_of_others_are_not() {
    let bench = bench();
    let run = called(&bench, "client:a").await;
    let cancel = || json!({"cancel": true});
    // It has ended, which is what whoever may steer it is told.
    for actor in ["client:a", "user"] {
        let kind = steered(&bench, actor, &run, &cancel(), false).await;
        assert_eq!(kind, RefusalKind::Conflict, "{actor}");
    }
    let kind = steered(&bench, "client:b", &run, &cancel(), false).await;
    assert_eq!(kind, RefusalKind::ApprovalRequired);
    // Nothing changes, so nobody is asked.
    let kind = steered(&bench, "client:b", &run, &cancel(), true).await;
    assert_eq!(kind, RefusalKind::Conflict);
    let kind = steered(&bench, "client:b", "run:nobody", &cancel(), false).await;
    assert_eq!(kind, RefusalKind::NotFound);
}

#[tokio::test]
async fn an_approval_is_for_the_run_and_what_it_is_told() {
    let bench = bench();
    let run = called(&bench, "client:a").await;
    let other = called(&bench, "client:a").await;
    let signal = || json!({"signal": "go"});
    let kind = steered(&bench, "client:b", &run, &signal(), false).await;
    assert_eq!(kind, RefusalKind::ApprovalRequired);
    bench.approve(Scope::Always).await;
    for (address, options) in [(&run, json!({"cancel": true})), (&other, signal())] {
        let kind = steered(&bench, "client:b", address, &options, false).await;
        assert_eq!(kind, RefusalKind::ApprovalRequired);
    }
    // However the run is named.
    let ending = format!("run:{}", pentad_model::text::suffix(&run, 12));
    let kind = steered(&bench, "client:b", &ending, &signal(), false).await;
    assert_eq!(kind, RefusalKind::Conflict);
}
