//! Running templates: what the measured cases cannot show.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    missing_docs
)]

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use pentad_template::{
    Clock, ExecuteError, Executor, Input, LaunchRequest, Launched, Launcher, Limits, Report, Site, Stream,
    Template, Values,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// Is a clock that moves only when somebody sleeps or a command takes time.
#[derive(Default)]
struct Steps {
    now: Mutex<Duration>,
}

impl Steps {
    fn pass(&self, duration: Duration) {
        *self.now.lock().unwrap() += duration;
    }
}

#[async_trait]
impl Clock for Steps {
    fn now(&self) -> Duration {
        *self.now.lock().unwrap()
    }

    async fn sleep(&self, duration: Duration) {
        self.pass(duration);
    }
}

/// Understands a few commands: `echo`, `fail CODE`, `take MS`, `crash SIGNAL`, `cat`, `wait`, `long`.
struct Shell {
    clock: Arc<Steps>,
    seen: Mutex<Vec<(String, Option<u128>)>>,
    started: AtomicUsize,
    ended: AtomicUsize,
    waiting: tokio::sync::Notify,
}

impl Shell {
    fn new() -> Self {
        Self {
            clock: Arc::default(),
            seen: Mutex::default(),
            started: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
            waiting: tokio::sync::Notify::new(),
        }
    }

    async fn answer(&self, request: &LaunchRequest, cancel: &CancellationToken) -> Launched {
        let number = || request.argv[1].parse::<i32>().unwrap();
        match request.argv[0].as_str() {
            "fail" => Launched {
                code: number(),
                stderr: Stream::complete("no"),
                ..Launched::default()
            },
            "crash" => Launched {
                signal: Some(number()),
                ..Launched::default()
            },
            "cat" => Launched {
                stdout: Stream::complete(request.stdin.bytes()),
                ..Launched::default()
            },
            "long" => Launched {
                stdout: Stream {
                    truncated: true,
                    total_bytes: 9_000_000,
                    ..Stream::complete("head")
                },
                ..Launched::default()
            },
            "take" => {
                let wanted = Duration::from_millis(request.argv[1].parse().unwrap());
                let allowed = request.timeout.unwrap_or(wanted);
                self.clock.pass(wanted.min(allowed));
                let killed = wanted > allowed;
                // A command that traps the signal and exits with 0 was still ended by us.
                Launched {
                    killed,
                    stdout: Stream::complete(request.argv[1].as_str()),
                    ..Launched::default()
                }
            }
            "wait" => {
                self.waiting.notify_one();
                cancel.cancelled().await;
                Launched {
                    killed: true,
                    signal: Some(15),
                    ..Launched::default()
                }
            }
            _ => Launched {
                stdout: Stream::complete(request.argv[1..].join(" ")),
                ..Launched::default()
            },
        }
    }
}

#[async_trait]
impl Launcher for Shell {
    async fn launch(&self, request: LaunchRequest, cancel: &CancellationToken) -> Launched {
        self.started.fetch_add(1, Ordering::SeqCst);
        let timeout = request.timeout.map(|timeout| timeout.as_millis());
        self.seen.lock().unwrap().push((request.argv.join(" "), timeout));
        let launched = self.answer(&request, cancel).await;
        self.ended.fetch_add(1, Ordering::SeqCst);
        launched
    }

    async fn read_all(&self, stream: &Stream, _: u64) -> io::Result<Vec<u8>> {
        if stream.truncated {
            Err(io::Error::other("the file is gone"))
        } else {
            Ok(stream.head.clone())
        }
    }
}

async fn run_with(
    shell: &Shell,
    template: Value,
    values: Value,
    cancel: &CancellationToken,
) -> Result<Report, ExecuteError> {
    let parsed = Template::parse(&template);
    let template = parsed
        .template
        .unwrap_or_else(|| panic!("{:?}", parsed.diagnostics));
    let site = Site::default();
    let executor = Executor {
        launcher: shell,
        clock: shell.clock.as_ref(),
        site: &site,
        limits: Limits::default(),
    };
    let values: Values = values.as_object().unwrap().clone();
    executor.run(&template, &values, Input::None, cancel).await
}

async fn run(shell: &Shell, template: Value) -> Result<Report, ExecuteError> {
    run_with(shell, template, json!({}), &CancellationToken::new()).await
}

fn seen(shell: &Shell) -> Vec<String> {
    shell
        .seen
        .lock()
        .unwrap()
        .iter()
        .map(|(command, _)| command.clone())
        .collect()
}

#[tokio::test]
async fn a_command_that_a_signal_ends_did_not_succeed() {
    let shell = Shell::new();
    let report = run(&shell, json!("crash 11")).await.unwrap();
    assert_eq!(
        (report.code, report.signal, report.killed),
        (139, Some(11), false)
    );
    assert_eq!(report.text(), "Exit code 139 (signal 11)");
}

#[tokio::test]
async fn a_command_that_survives_its_time_limit_politely_did_not_succeed() {
    let shell = Shell::new();
    let report = run(&shell, json!({"template": "take 900", "timeout": 100}))
        .await
        .unwrap();
    assert_eq!((report.code, report.killed), (1, true));
}

#[tokio::test]
async fn the_time_limit_of_a_group_holds_for_everything_inside() {
    let shell = Shell::new();
    let inner =
        json!({"template": ["take 60", "take 60", "echo never"], "timeout": 100, "failure": "continue"});
    let report = run(&shell, json!([inner, "echo after"])).await.unwrap();
    assert_eq!(
        *shell.seen.lock().unwrap(),
        vec![
            ("take 60".to_owned(), Some(100)),
            ("take 60".to_owned(), Some(40)),
            ("echo after".to_owned(), None)
        ]
    );
    assert_eq!(report.text(), "after");
    assert_eq!(report.non_critical.len(), 1);

    let alone = Shell::new();
    let report = run(
        &alone,
        json!({"template": ["take 60", "take 60"], "timeout": 100}),
    )
    .await
    .unwrap();
    assert_eq!(
        report.text(),
        "Exit code 1 (killed)\n\nstderr:\nTime limit of 100 ms reached.\n\nstdout:\n60"
    );
}

#[tokio::test]
async fn an_inner_limit_that_runs_out_is_an_ordinary_failure_outside() {
    let shell = Shell::new();
    let inner = json!({"template": ["take 500"], "timeout": 50, "failure": "branch"});
    let report = run(
        &shell,
        json!({"template": [{"retry": 2, "template": inner}, "echo next"], "timeout": 10_000}),
    )
    .await
    .unwrap();
    assert_eq!(
        seen(&shell),
        ["take 500", "take 500"],
        "the limit counts for each attempt"
    );
    assert!(report.killed && report.code != 0);
}

#[tokio::test]
async fn a_delay_never_outlasts_the_limit_around_it() {
    let shell = Shell::new();
    let slow = json!({"template": "echo late", "delay": 60_000});
    let report = run(&shell, json!({"template": [slow], "timeout": 100}))
        .await
        .unwrap();
    assert_eq!(shell.clock.now(), Duration::from_millis(100));
    assert_eq!((report.code, seen(&shell)), (124, Vec::new()));
}

#[tokio::test]
async fn a_missing_value_in_one_branch_ends_the_others_before_it_is_reported() {
    let shell = Shell::new();
    let error = run(
        &shell,
        json!({"parallel": true, "template": ["wait", "echo {missing}"]}),
    )
    .await
    .unwrap_err();
    assert_eq!(error.to_string(), "Missing command template value: missing");
    assert_eq!(shell.started.load(Ordering::SeqCst), 1);
    assert_eq!(shell.ended.load(Ordering::SeqCst), 1, "the sibling was awaited");
}

#[tokio::test]
async fn cancelling_ends_all_branches_and_starts_nothing_more() {
    let shell = Shell::new();
    let cancel = CancellationToken::new();
    let template =
        json!([{"parallel": true, "concurrency": 2, "template": ["wait", "wait", "wait"]}, "echo after"]);
    let (result, ()) = tokio::join!(run_with(&shell, template, json!({}), &cancel), async {
        shell.waiting.notified().await;
        cancel.cancel();
    });
    assert!(matches!(result, Err(ExecuteError::Canceled)));
    assert_eq!(
        shell.started.load(Ordering::SeqCst),
        shell.ended.load(Ordering::SeqCst)
    );
    assert!(seen(&shell).iter().all(|command| command == "wait"));
}

#[tokio::test]
async fn cancelling_ends_a_delay() {
    struct Forever;
    #[async_trait]
    impl Clock for Forever {
        fn now(&self) -> Duration {
            Duration::ZERO
        }
        async fn sleep(&self, _: Duration) {
            std::future::pending::<()>().await;
        }
    }
    let shell = Shell::new();
    let template = Template::parse(&json!({"delay": 1000, "template": "echo x"}))
        .template
        .unwrap();
    let site = Site::default();
    let executor = Executor {
        launcher: &shell,
        clock: &Forever,
        site: &site,
        limits: Limits::default(),
    };
    let cancel = CancellationToken::new();
    let values = Values::new();
    let (result, ()) = tokio::join!(executor.run(&template, &values, Input::None, &cancel), async {
        cancel.cancel()
    });
    assert!(matches!(result, Err(ExecuteError::Canceled)));
}

#[tokio::test]
async fn output_that_cannot_be_handed_on_ends_the_run() {
    let shell = Shell::new();
    let report = run(&shell, json!(["long", "cat"])).await.unwrap();
    assert_eq!(report.code, 74);
    assert_eq!(
        report.text(),
        "Exit code 74\n\nstderr:\nThe output of a step cannot be handed to the next: the file is gone."
    );
    assert_eq!(seen(&shell), ["long"]);
}

#[tokio::test]
async fn output_selects_a_stream_or_a_text_made_of_values() {
    let shell = Shell::new();
    let node = json!({"output": "{dir}/out.ogg", "template": "echo x"});
    let cancel = CancellationToken::new();
    let made = run_with(&shell, node, json!({"dir": "/tmp/a b"}), &cancel)
        .await
        .unwrap();
    assert_eq!(made.text(), "/tmp/a b/out.ogg");
    let flows = run(&shell, json!([{"output": "stderr", "template": "echo x"}, "cat"]))
        .await
        .unwrap();
    assert_eq!(flows.text(), "(no output)");
    let missing = run(&shell, json!({"output": "ogg", "template": "echo x"}))
        .await
        .unwrap_err();
    assert_eq!(missing.to_string(), "Missing output value: ogg");
}

#[tokio::test]
async fn a_literally_empty_word_stays_and_an_emptied_one_goes() {
    let shell = Shell::new();
    run(&shell, json!("echo '' {a=} \"\" '{b=}' end")).await.unwrap();
    assert_eq!(seen(&shell), ["echo   end"]);
}

#[tokio::test]
async fn sizes_that_no_run_needs_are_refused() {
    let shell = Shell::new();
    let errors = [
        run(&shell, json!({"repeat": 20_000, "template": "echo x"}))
            .await
            .unwrap_err()
            .to_string(),
        run(&shell, json!({"retry": 5000, "template": "echo x"}))
            .await
            .unwrap_err()
            .to_string(),
        run(
            &shell,
            json!({"parallel": true, "min_successful": 3, "template": ["echo x"]}),
        )
        .await
        .unwrap_err()
        .to_string(),
    ];
    insta::assert_snapshot!(errors.join("\n"), @r"
    Command template repeat 20000 exceeds limit 10000.
    Command template retry 5000 exceeds limit 1000.
    Command template min_successful 3 exceeds the 1 branches.
    ");
    assert!(seen(&shell).is_empty());
}

#[tokio::test]
async fn review_evidence_is_recognised_by_its_first_line() {
    let shell = Shell::new();
    let node = |word: &str| json!({"accept_output": "review_evidence", "template": format!("echo '\n  {word} \nrest'")});
    assert!(
        run(&shell, node("ACTOR_REVIEW_RESULT"))
            .await
            .unwrap()
            .is_success()
    );
    assert_eq!(run(&shell, node("SOMETHING")).await.unwrap().code, 65);
}
