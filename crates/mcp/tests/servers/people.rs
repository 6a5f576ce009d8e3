//! What a server asks of people, and what it writes for them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use pentad_mcp::{Elicitor, LogLine, LogStream, Origin, ServerLog};
use pentad_model::approval::Approval;
use pentad_model::{Form, FormAnswer};
use pentad_program::{Answer, Asker, Attendance, ToolFailure, ToolSource as _};
use serde_json::json;

use crate::support::{Bench, call, document, end, text, tool_call};

/// Longest silence of the servers here.
const SILENCE: Duration = Duration::from_millis(400);

/// Takes several times as long as a server may be silent, or for ever.
#[derive(Debug)]
struct Slow(Option<Duration>);

#[async_trait]
impl Asker for Slow {
    async fn ask(&self, _approval: &Approval) -> Answer {
        Answer::Unanswered
    }

    async fn fill(&self, _form: &Form) -> FormAnswer {
        match self.0 {
            // A person takes longer than the server may be silent; that is what is tested.
            Some(pause) => tokio::time::sleep(pause).await,
            None => std::future::pending().await,
        }
        FormAnswer::Accepted(json!({"name": "Ada"}).as_object().cloned().unwrap())
    }
}

#[async_trait]
impl Elicitor for Slow {
    async fn elicit(&self, _form: &Form, _callers: &[Origin]) -> FormAnswer {
        FormAnswer::Declined
    }
}

#[derive(Default)]
struct Kept(Mutex<Vec<LogLine>>);

#[async_trait]
impl ServerLog for Kept {
    async fn keep(&self, _server: &str, _origin: &Origin, lines: Vec<LogLine>) {
        self.0.lock().unwrap().extend(lines);
    }
}

impl Kept {
    fn of(&self, stream: LogStream) -> Vec<String> {
        let kept = self.0.lock().unwrap();
        let lines = kept.iter().filter(|line| line.stream == stream);
        lines.map(|line| line.text.clone()).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_may_take_longer_than_a_server_may_be_silent_but_not_longer_than_a_call() {
    let mut bench = Bench::new();
    bench.runtime.elicitor = Some(Arc::new(Slow(None)));
    let mut config = bench.config(&[]);
    config.limits.call_timeout = SILENCE;
    let server = bench.made(config);
    let attended = |pause| Attendance {
        asker: Some(Arc::new(Slow(pause))),
        ..Attendance::default()
    };
    let elicit = document(&server, "elicit").await;
    let mut slow = tool_call(Arc::clone(&elicit), &json!({}));
    slow.attendance = attended(Some(3 * SILENCE));
    assert_eq!(text(&server.call(slow).await.unwrap()), "accept: name");

    let mut endless = tool_call(Arc::clone(&elicit), &json!({}));
    endless.attendance = attended(None);
    endless.time_limit = Some(2 * SILENCE);
    let ended = server.call(endless).await;
    assert!(matches!(ended, Err(ToolFailure::TimedOut { .. })), "{ended:?}");
    bench.wait_for("stopped", 1).await;
    end(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stderr_of_the_only_call_belongs_to_it_and_of_several_to_none() {
    let mut bench = Bench::new();
    let kept = Arc::<Kept>::default();
    bench.runtime.log = Some(Arc::clone(&kept) as _);
    let server = Arc::new(bench.server(&["--stderr", "at the start"]));
    for number in 0..50 {
        call(
            &server,
            "stderr",
            json!({"text": format!("line {number}\u{7}\n")}),
        )
        .await
        .unwrap();
    }
    let lines = kept.of(LogStream::Stderr);
    let expected: Vec<String> = (0..50).map(|number| format!("line {number}\\u{{7}}")).collect();
    assert_eq!(
        lines, expected,
        "in order, each before its answer, nothing of the start"
    );

    let sleep = tool_call(document(&server, "sleep").await, &json!({"ms": 60_000}));
    let cancel = sleep.attendance.cancel.clone();
    let sleeping = {
        let server = Arc::clone(&server);
        tokio::spawn(async move { server.call(sleep).await })
    };
    bench.wait_for("sleeping", 1).await;
    call(&server, "stderr", json!({"text": "of nobody"}))
        .await
        .unwrap();
    cancel.cancel();
    assert_eq!(sleeping.await.unwrap(), Err(ToolFailure::Canceled));
    assert_eq!(kept.of(LogStream::Stderr).len(), 50);
    let told = format!("{:?}", server.status().diagnostics);
    assert!(told.contains("of nobody"), "{told}");
    end(&server).await;
}
