use std::sync::Arc;
use std::time::Duration;

use pentad_mcp::ToolTrust;
use pentad_program::{Attendance, ProgressSink, ToolFailure, ToolSource as _};
use serde_json::json;

use crate::support::{Bench, call, document, end, is_alive, text, tool_call, until};

#[tokio::test(flavor = "multi_thread")]
async fn p13_a_hundred_first_calls_start_one_process() {
    let bench = Bench::new();
    // The manifest is known, so that the calls are what starts it.
    let first = bench.server(&["--start-delay-ms", "50"]);
    document(&first, "echo").await;
    end(&first).await;
    let server = Arc::new(bench.server(&["--start-delay-ms", "50"]));
    let echo = document(&server, "echo").await;
    assert_eq!(bench.count("start"), 1, "the manifest is enough to find a tool");
    let calls: Vec<_> = (0..100)
        .map(|number| {
            let (server, echo) = (Arc::clone(&server), Arc::clone(&echo));
            tokio::spawn(async move {
                let text = number.to_string();
                let output = server
                    .call(tool_call(echo, &json!({"text": text})))
                    .await
                    .unwrap();
                assert_eq!(crate::support::text(&output), text);
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
    assert_eq!(bench.count("start"), 2);
    assert_eq!(bench.count("call without progress token"), 0);
    end(&server).await;
    bench.wait_for("eof", 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c05_cancelling_one_call_leaves_the_server_and_the_others_alone() {
    let bench = Bench::new();
    let server = Arc::new(bench.server(&[]));
    let sleep = document(&server, "sleep").await;
    let attendance = Attendance::default();
    let mut doomed = tool_call(Arc::clone(&sleep), &json!({"ms": 60_000}));
    doomed.attendance = attendance.clone();
    let spared = tool_call(sleep, &json!({"ms": 300}));
    let (a, b) = (Arc::clone(&server), Arc::clone(&server));
    let doomed = tokio::spawn(async move { a.call(doomed).await });
    let spared = tokio::spawn(async move { b.call(spared).await });
    bench.wait_for("sleeping", 2).await;
    attendance.cancel.cancel();
    assert_eq!(doomed.await.unwrap(), Err(ToolFailure::Canceled));
    assert_eq!(text(&spared.await.unwrap().unwrap()), "slept");
    bench.wait_for("stopped", 1).await;
    assert_eq!(bench.count("cancelled"), 1);
    call(&server, "echo", json!({"text": "still here"}))
        .await
        .unwrap();
    assert_eq!(bench.count("start"), 1);
    end(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c09_c10_progress_renews_the_idle_limit_but_not_the_absolute_one() {
    let bench = Bench::new();
    let mut config = bench.config(&[]);
    config.limits.call_timeout = Duration::from_millis(400);
    let server = bench.made(config);
    let sleep = document(&server, "sleep").await;

    let (sink, mut reports) = ProgressSink::channel(4);
    let mut lively = tool_call(Arc::clone(&sleep), &json!({"ms": 900, "every_ms": 40}));
    lively.attendance.progress = sink;
    assert_eq!(text(&server.call(lively).await.unwrap()), "slept");
    let report = reports.recv().await.unwrap();
    assert_eq!(
        (report.total, report.message.as_deref()),
        (Some(900.0), Some("still sleeping"))
    );

    let silent = server
        .call(tool_call(Arc::clone(&sleep), &json!({"ms": 60_000})))
        .await
        .unwrap_err();
    assert!(
        matches!(&silent, ToolFailure::TimedOut { limit, .. } if limit == "limit of 0.4 s without progress"),
        "{silent:?}"
    );
    bench.wait_for("cancelled", 1).await;

    let mut endless = tool_call(sleep, &json!({"ms": 60_000, "every_ms": 40}));
    endless.time_limit = Some(Duration::from_millis(700));
    let failure = server.call(endless).await.unwrap_err();
    assert!(
        matches!(&failure, ToolFailure::TimedOut { limit, .. } if limit == "call limit 0.7 s"),
        "{failure:?}"
    );
    bench.wait_for("stopped", 2).await;
    end(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m12_a_dead_server_is_started_again_once() {
    let bench = Bench::new();
    let server = bench.server(&[]);
    call(&server, "echo", json!({"text": "one"})).await.unwrap();
    let started = bench
        .witness()
        .iter()
        .find_map(|line| line.strip_prefix("start ").map(str::to_owned))
        .unwrap();
    let killed = std::process::Command::new("kill")
        .args(["-9", &started])
        .status()
        .unwrap();
    assert!(killed.success());
    until(|| !is_alive(&started), "the kill").await;
    assert_eq!(
        text(&call(&server, "echo", json!({"text": "two"})).await.unwrap()),
        "two"
    );
    assert_eq!(bench.count("start"), 2);
    end(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m12_a_call_that_may_have_acted_is_not_repeated() {
    let bench = Bench::new();
    let server = bench.server(&["--stderr", "panic: out of luck"]);
    let failure = call(&server, "die", json!({"effect": true})).await.unwrap_err();
    let ToolFailure::Interrupted(why) = &failure else {
        panic!("{failure:?}")
    };
    insta::assert_snapshot!(why);
    assert_eq!(bench.count("effect"), 1);
    assert_eq!(
        text(&call(&server, "echo", json!({"text": "next"})).await.unwrap()),
        "next"
    );
    end(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m12_a_call_trusted_as_repeatable_is_repeated_once() {
    let bench = Bench::new();
    let mut config = bench.config(&[]);
    config.tools.insert(
        "die".to_owned(),
        ToolTrust {
            idempotent: Some(true),
            ..ToolTrust::default()
        },
    );
    let server = bench.made(config);
    let failure = call(&server, "die", json!({})).await.unwrap_err();
    assert!(matches!(failure, ToolFailure::Interrupted(_)), "{failure:?}");
    assert_eq!(bench.count("die"), 2);
    end(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p14_calls_leave_nothing_behind() {
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let bench = Bench::new();
    let server = bench.server(&[]);
    let echo = document(&server, "echo").await;
    let run = async |count: usize| {
        for _ in 0..count {
            server
                .call(tool_call(Arc::clone(&echo), &json!({"text": "x"})))
                .await
                .unwrap();
        }
    };
    run(50).await;
    let (before, tasks) = (
        descriptors(),
        tokio::runtime::Handle::current().metrics().num_alive_tasks(),
    );
    run(10_000).await;
    assert_eq!(descriptors(), before);
    let now = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    assert!(now <= tasks + 2, "{tasks} tasks became {now}");
    end(&server).await;
}
