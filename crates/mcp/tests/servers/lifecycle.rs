use std::sync::Arc;
use std::time::Duration;

use pentad_mcp::{ConnectedServer, Share};
use pentad_program::{Readiness, ToolFailure, ToolSource as _};
use serde_json::json;

use crate::support::{Bench, call, command_line, document, end, is_alive, text, tool_call, until};

fn failure_text(failure: &ToolFailure) -> String {
    match failure {
        ToolFailure::Refused(refusal) => refusal.to_text(),
        other => other.to_string(),
    }
}

/// A server whose tools are known from an earlier run of the same launch; `break_it` makes later starts fail.
async fn known_then(
    bench: &Bench,
    args: &[&str],
    change: impl FnOnce(&mut pentad_mcp::ServerConfig),
) -> ConnectedServer {
    let first = bench.server(args);
    document(&first, "echo").await;
    end(&first).await;
    let mut config = bench.config(args);
    change(&mut config);
    bench.made(config)
}

#[tokio::test(flavor = "multi_thread")]
async fn m07_m08_a_slow_start_is_visible_and_its_failure_explained() {
    let bench = Bench::new();
    let mut config = bench.config(&["--hang-on-start", "--stderr", "downloading 3 of 900 packages"]);
    config.limits.start_timeout = Duration::from_millis(600);
    let server = Arc::new(bench.made(config));
    assert_eq!(server.status().readiness, Readiness::Configured);
    let refreshing = {
        let server = Arc::clone(&server);
        tokio::spawn(async move { server.refresh(None).await.ok() })
    };
    until(
        || matches!(server.status().readiness, Readiness::Starting { elapsed_ms } if elapsed_ms > 0),
        "starting",
    )
    .await;
    refreshing.await.unwrap();
    let Readiness::BackingOff { error, .. } = server.status().readiness else {
        panic!("{:?}", server.status())
    };
    insta::assert_snapshot!(error);
    end(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m10_a_failing_server_backs_off_and_is_disabled_until_asked() {
    let bench = Bench::new();
    let args = ["--exit-at-once", "7", "--stderr", "no token configured"];
    let mut patient = bench.config(&args);
    patient.limits.first_backoff = Duration::from_secs(600);
    let server = bench.made(patient);
    server.refresh(None).await.ok();
    let Readiness::BackingOff { error, .. } = server.status().readiness else {
        panic!("{:?}", server.status())
    };
    insta::assert_snapshot!(error);
    server.refresh(None).await.ok();
    assert_eq!(bench.count("start"), 1, "nothing is started during the pause");
    end(&server).await;

    let bench = Bench::new();
    let mut config = bench.config(&args);
    config.limits.max_failures = 3;
    config.limits.first_backoff = Duration::from_millis(10);
    let server = bench.made(config);
    while !matches!(server.status().readiness, Readiness::Disabled { .. }) {
        server.refresh(None).await.ok();
        // The pause between two starts ends by the clock and nothing announces it.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(bench.count("start"), 3);
    server.refresh(None).await.ok();
    assert_eq!(bench.count("start"), 3, "a disabled server is left alone");
    let held_back = server.refresh(None).await.unwrap_err();
    insta::assert_snapshot!(held_back.to_text());
    assert_eq!(bench.count("start"), 3);
    // A person asks, and reads what is the matter now.
    let again = server.open_again(None).await.unwrap_err();
    insta::assert_snapshot!(again.to_text());
    assert_eq!(bench.count("start"), 4);
    assert!(matches!(
        server.status().readiness,
        Readiness::Indexed | Readiness::Configured | Readiness::BackingOff { .. }
    ));
    end(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m11_an_idle_server_is_stopped_and_stays_searchable() {
    let bench = Bench::new();
    let mut config = bench.config(&[]);
    config.limits.idle_timeout = Duration::from_millis(150);
    let server = bench.made(config);
    call(&server, "echo", json!({"text": "x"})).await.unwrap();
    // A call in flight keeps it, however long it takes.
    call(&server, "sleep", json!({"ms": 400})).await.unwrap();
    bench.wait_for("eof", 1).await;
    until(
        || server.status().readiness == Readiness::Indexed,
        "indexed again",
    )
    .await;
    assert!(server.status().tools > 20);
    assert_eq!(
        text(&call(&server, "echo", json!({"text": "again"})).await.unwrap()),
        "again"
    );
    assert_eq!(bench.count("start"), 2);
    end(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p09_a_server_that_ignores_eof_and_term_is_ended() {
    let bench = Bench::new();
    let server = bench.server(&["--ignore-eof", "--ignore-term"]);
    call(&server, "echo", json!({"text": "x"})).await.unwrap();
    let pid = bench
        .witness()
        .iter()
        .find_map(|line| line.strip_prefix("start ").map(str::to_owned))
        .unwrap();
    assert!(is_alive(&pid));
    server.shutdown(Duration::from_secs(5)).await;
    assert!(!is_alive(&pid));
    let failure = server
        .call(tool_call(document(&server, "echo").await, &json!({})))
        .await
        .unwrap_err();
    assert_eq!(failure_text(&failure), "server 'fixture' is being shut down");
}

#[tokio::test(flavor = "multi_thread")]
async fn p03_what_a_server_left_behind_goes_with_it() {
    let bench = Bench::new();
    let server = bench.server(&[]);
    let left = call(&server, "grandchild", json!({})).await.unwrap();
    assert!(is_alive(text(&left)));
    end(&server).await;
    assert!(!is_alive(text(&left)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_on_stdout_fails_the_start_and_nothing_else() {
    let bench = Bench::new();
    let server = bench.server(&["--flood"]);
    server.refresh(None).await.ok();
    let shown = format!("{:?}", server.status());
    assert!(
        shown.contains("it writes to stdout what is no protocol"),
        "{shown}"
    );
    end(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_call_does_not_end_the_start_that_others_wait_for() {
    let bench = Bench::new();
    let server = Arc::new(known_then(&bench, &["--start-delay-ms", "400"], |_| {}).await);
    let echo = document(&server, "echo").await;
    let impatient = tool_call(Arc::clone(&echo), &json!({"text": "a"}));
    let cancel = impatient.attendance.cancel.clone();
    let patient = tool_call(echo, &json!({"text": "b"}));
    let (a, b) = (Arc::clone(&server), Arc::clone(&server));
    let impatient = tokio::spawn(async move { a.call(impatient).await });
    bench.wait_for("start", 2).await;
    let patient = tokio::spawn(async move { b.call(patient).await });
    cancel.cancel();
    assert_eq!(impatient.await.unwrap(), Err(ToolFailure::Canceled));
    assert_eq!(text(&patient.await.unwrap().unwrap()), "b");
    assert_eq!(bench.count("start"), 2);
    end(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn threads_have_processes_of_their_own_where_the_server_holds_a_state() {
    let bench = Bench::new();
    let mut config = bench.config(&[]);
    config.share = Share::Thread;
    let server = bench.made(config);
    server.refresh(None).await.ok();
    let echo = document(&server, "echo").await;
    let one = tool_call(Arc::clone(&echo), &json!({"text": "1"}));
    let mut again = tool_call(Arc::clone(&echo), &json!({"text": "1"}));
    again.thread = one.thread;
    let other = tool_call(echo, &json!({"text": "2"}));
    for call in [one, again, other] {
        server.call(call).await.unwrap();
    }
    // One to learn the tools, one for each thread.
    assert_eq!(bench.count("start"), 3);
    end(&server).await;
    bench.wait_for("eof", 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_gets_only_its_own_variables() {
    let bench = Bench::new();
    let mut config = bench.config(&[]);
    let line = command_line(&mut config);
    line.env.insert("TOKEN".to_owned(), "s3cret".to_owned());
    line.args
        .extend(["--stderr".to_owned(), "logged in with s3cret".to_owned()]);
    assert!(!format!("{config:?}").contains("s3cret"));
    let server = bench.made(config);
    for (name, value) in [
        ("TOKEN", "s3cret"),
        ("PENTAD_DEPTH", "1"),
        ("HOME", "unset"),
        ("CARGO", "unset"),
    ] {
        let output = call(&server, "environment", json!({"name": name})).await.unwrap();
        assert_eq!(text(&output), value, "{name}");
    }
    let shown = format!("{:?}", server.status());
    assert!(
        shown.contains("logged in with [secret]") && !shown.contains("s3cret"),
        "{shown}"
    );
    end(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m09_servers_start_only_so_many_at_a_time() {
    let mut bench = Bench::new();
    bench.runtime.starts = Arc::new(tokio::sync::Semaphore::new(1));
    let servers: Vec<_> = ["one", "two", "three"]
        .into_iter()
        .map(|name| {
            let mut config = bench.config(&["--start-delay-ms", "30"]);
            config.name = name.to_owned();
            Arc::new(bench.made(config))
        })
        .collect();
    let starts: Vec<_> = servers
        .iter()
        .map(|server| {
            let server = Arc::clone(server);
            tokio::spawn(async move { server.refresh(None).await.ok() })
        })
        .collect();
    for start in starts {
        start.await.unwrap();
    }
    let witness = bench.witness();
    let order: Vec<_> = witness.iter().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(
        order,
        [
            "start",
            "tools/list",
            "start",
            "tools/list",
            "start",
            "tools/list"
        ]
    );
    for server in &servers {
        end(server).await;
    }
}
