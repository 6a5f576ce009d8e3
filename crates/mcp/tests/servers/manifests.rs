use std::time::Duration;

use pentad_mcp::{CommandLine, ConnectedServer, Reach, ServerConfig, ToolTrust};
use pentad_model::tool::Hints;
use pentad_program::{Readiness, ToolFailure, ToolSource as _};
use serde_json::json;

use crate::support::{Bench, call, document, end, text, tool_call, until};

fn program(name: &str, program: &str) -> ServerConfig {
    ServerConfig::new(name, Reach::Command(CommandLine::new(program)))
}

fn has(server: &ConnectedServer, name: &str) -> bool {
    server
        .documents()
        .iter()
        .any(|document| document.tool.name == name)
}

#[tokio::test(flavor = "multi_thread")]
async fn m01_p17_a_changed_list_is_read_over_the_live_process_and_its_tools_called_in_the_same_run() {
    for args in [&[][..], &["--modern"][..]] {
        let bench = Bench::new();
        let server = bench.server(args);
        assert!(!has(&server, "newcomer"));
        call(&server, "echo", json!({"text": "x"})).await.unwrap();
        let before = server.generation();
        call(&server, "add_tool", json!({"name": "newcomer"}))
            .await
            .unwrap();
        let noticed = tokio::time::timeout(
            Duration::from_secs(1),
            until(|| has(&server, "newcomer"), "the new tool"),
        );
        noticed.await.expect("within a second");
        assert!(server.generation() > before);
        assert_eq!(
            text(&call(&server, "newcomer", json!({})).await.unwrap()),
            "called newcomer"
        );
        assert_eq!(bench.count("start"), 1, "p17: a refresh uses the live process");
        end(&server).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn m09_tools_are_known_after_a_restart_without_starting_anything() {
    let bench = Bench::new();
    let first = bench.server(&["--many", "200"]);
    first.refresh(None).await.ok();
    let known = first.documents();
    end(&first).await;
    let second = bench.server(&["--many", "200"]);
    assert_eq!(second.status().readiness, Readiness::Indexed);
    assert_eq!(second.documents(), known);
    second.refresh(None).await.ok();
    assert_eq!(bench.count("start"), 1);
    let other_launch = bench.server(&["--many", "201"]);
    assert_eq!(
        other_launch.status().readiness,
        Readiness::Configured,
        "another launch may be another program"
    );
    end(&second).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stateless_revision_is_remembered() {
    let bench = Bench::new();
    let first = bench.server(&["--modern"]);
    assert_eq!(
        text(&call(&first, "echo", json!({"text": "new"})).await.unwrap()),
        "new"
    );
    end(&first).await;
    let manifest = std::fs::read_to_string(bench.folder.path().join("cache/fixture.json")).unwrap();
    assert!(
        manifest.contains(r#""opening":"discover","protocol":"2026-07-28""#),
        "{manifest}"
    );
    let second = bench.server(&["--modern"]);
    assert_eq!(
        text(&call(&second, "echo", json!({"text": "again"})).await.unwrap()),
        "again"
    );
    end(&second).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_are_followed_to_a_limit() {
    let bench = Bench::new();
    let paged = bench.server(&["--many", "40", "--page-size", "7"]);
    paged.refresh(None).await.ok();
    assert!(has(&paged, "tool_00039"));
    end(&paged).await;
    let endless = bench.server(&["--page-size", "1", "--endless-pages"]);
    endless.refresh(None).await.ok();
    assert!(has(&endless, "echo"));
    let shown = format!("{:?}", endless.status().diagnostics);
    assert!(shown.contains("more than 200 pages"), "{shown}");
    end(&endless).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_broken_tool_does_not_lose_the_others() {
    let bench = Bench::new();
    let server = bench.server(&["--broken-tool"]);
    assert_eq!(
        text(&call(&server, "no_schema", json!({})).await.unwrap()),
        "called no_schema"
    );
    let dropped: Vec<_> = server
        .status()
        .diagnostics
        .into_iter()
        .map(|diagnostic| diagnostic.message)
        .collect();
    assert_eq!(
        dropped,
        [
            "a tool has no name; it is left out",
            "a tool is not described by an object; it is left out"
        ]
    );
    end(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hints_are_shown_and_used_only_as_far_as_a_person_said() {
    let bench = Bench::new();
    let plain = bench.server(&[]);
    let echo = document(&plain, "echo").await;
    assert_eq!(echo.declared.read_only, Some(true));
    assert_eq!(echo.trusted, Hints::default());
    assert_eq!(
        (echo.title.as_deref(), echo.summary.as_str()),
        (Some("Echo"), "Returns its text.")
    );
    let mut config = bench.config(&[]);
    config.trust = true;
    config.tools.insert(
        "effect".to_owned(),
        ToolTrust {
            read_only: Some(true),
            ..ToolTrust::default()
        },
    );
    let trusted = bench.made(config);
    let known = trusted.documents();
    let find = |name: &str| {
        known
            .iter()
            .find(|document| document.tool.name == name)
            .unwrap()
            .trusted
    };
    assert_eq!(find("echo"), echo.declared);
    assert_eq!(
        (find("effect").read_only, find("effect").destructive),
        (Some(true), Some(true))
    );
    end(&plain).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_judged_by_another_contract_is_refused() {
    let bench = Bench::new();
    let server = bench.server(&[]);
    let echo = document(&server, "echo").await;
    let mut other = pentad_model::ToolDocument::clone(&echo);
    other.description.push_str(" And more.");
    assert_ne!(
        server.closure_hash(&echo, None),
        server.closure_hash(&other, None)
    );
    for (judged, kind) in [
        (other, pentad_model::RefusalKind::Conflict),
        (
            pentad_model::ToolDocument {
                tool: pentad_model::ToolRef::new("fixture", "gone"),
                ..(*echo).clone()
            },
            pentad_model::RefusalKind::NotFound,
        ),
    ] {
        let failure = server
            .call(tool_call(judged.into(), &json!({"text": "x"})))
            .await
            .unwrap_err();
        assert!(
            matches!(&failure, ToolFailure::Refused(refusal) if refusal.kind == kind),
            "{failure:?}"
        );
    }
    // What a person trusts is no part of the contract.
    let mut trusted = pentad_model::ToolDocument::clone(&echo);
    trusted.trusted.read_only = Some(true);
    server
        .call(tool_call(trusted.into(), &json!({"text": "x"})))
        .await
        .unwrap();
    end(&server).await;
}

#[test]
fn names_that_no_source_can_have_are_refused() {
    let bench = Bench::new();
    for name in ["", "GitHub", "builtin", "a/b", "-x"] {
        let made = ConnectedServer::new(program(name, "true"), bench.runtime.clone());
        assert!(made.is_err(), "{name}");
    }
    assert!(ConnectedServer::new(program("x", " "), bench.runtime.clone()).is_err());
}
