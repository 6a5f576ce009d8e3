//! Running one invocation in front of a person: progress, interruption, rendering.

use std::process::ExitCode;
use std::time::Duration;

use std::io::IsTerminal as _;
use std::sync::Arc;

use indicatif::{ProgressBar, ProgressStyle};
use pentad_keeper::is_person_at_terminal;
use pentad_model::{Invocation, Outcome, Timestamp, Verb};
use pentad_program::{Attendance, Progress, ProgressSink, Verbs};
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::args::Globals;
use crate::fill::{Quiet, TerminalAsker};
use crate::house::House;
use crate::render::{Ending, render};
use crate::terminal::Terminal;

/// How long a call stays silent before its progress is shown.
const SILENCE: Duration = Duration::from_secs(1);
/// The exit code of what was interrupted.
const INTERRUPTED: u8 = 130;

/// What a command asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    /// The verb.
    pub verb: Verb,
    /// Its arguments.
    pub arguments: Map<String, Value>,
    /// The longest it may take.
    pub time_limit: Option<Duration>,
    /// How its text ends.
    pub ending: Ending,
}

impl Ask {
    /// Returns a request of a verb, from an object.
    pub fn new(verb: Verb, arguments: Map<String, Value>) -> Self {
        Self {
            verb,
            arguments,
            time_limit: None,
            ending: Ending::Line,
        }
    }

    /// Returns a `read` of an address.
    pub fn read(address: &str, options: Map<String, Value>) -> Self {
        let mut arguments = Map::new();
        arguments.insert("address".to_owned(), address.into());
        if !options.is_empty() {
            arguments.insert("options".to_owned(), Value::Object(options));
        }
        Self::new(Verb::Read, arguments)
    }
}

/// Runs a future on a runtime of its own. Commands that need no home never come here.
///
/// # Errors
/// Fails when the system gives no threads.
pub fn block_on<F: Future>(future: F) -> anyhow::Result<F::Output> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(future);
    // Whatever still blocks a thread has no owner that waits for it any more.
    runtime.shutdown_timeout(Duration::from_millis(500));
    Ok(result)
}

/// Runs a future on this thread, with further threads for what blocks.
///
/// A face of one client waits most of the time: passing each message from thread to thread would cost more than the work.
///
/// # Errors
/// Fails when the system gives no event queue.
pub fn block_on_here<F: Future>(future: F) -> anyhow::Result<F::Output> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let result = runtime.block_on(future);
    runtime.shutdown_timeout(Duration::from_millis(500));
    Ok(result)
}

/// Opens the house, asks, prints the outcome, closes the house.
///
/// # Errors
/// Fails when the house cannot be opened.
pub fn ask(globals: &Globals, terminal: &Terminal, ask: Ask) -> anyhow::Result<ExitCode> {
    block_on(async {
        let house = House::open(globals).await?;
        let code = ask_in(&house, terminal, ask).await;
        house.close().await;
        Ok(code)
    })?
}

/// Asks in an open house and prints the outcome.
pub async fn ask_in(house: &House, terminal: &Terminal, ask: Ask) -> ExitCode {
    let mut invocation = house.invocation(ask.verb, ask.arguments);
    invocation.deadline = ask.time_limit.map(|limit| {
        let millis = i64::try_from(limit.as_millis()).unwrap_or(i64::MAX);
        Timestamp::now().plus_millis(millis)
    });
    let interrupt = CancellationToken::new();
    let watch = tokio::spawn(interrupt_on_signal(interrupt.clone(), *terminal));
    let person = is_person_at_terminal(&house.calling, std::io::stdin().is_terminal());
    let asker = (person && terminal.err_is_terminal).then(TerminalAsker::new);
    let outcome = attend(&*house.desk, invocation, terminal, &interrupt, asker).await;
    watch.abort();
    let mut rendered = render(&outcome, terminal, ask.ending);
    if interrupt.is_cancelled() && rendered.code != 0 {
        rendered.code = INTERRUPTED;
    }
    terminal.emit(&rendered)
}

/// The first interruption cancels and waits for the processes to end; the second leaves at once.
async fn interrupt_on_signal(interrupt: CancellationToken, terminal: Terminal) {
    if tokio::signal::ctrl_c().await.is_err() {
        return;
    }
    interrupt.cancel();
    terminal.notice("canceling; interrupt again to leave at once");
    if tokio::signal::ctrl_c().await.is_ok() {
        std::process::exit(i32::from(INTERRUPTED));
    }
}

/// Invokes, showing progress to a person who waits longer than a moment, and the forms of servers where there is one who
/// can be asked.
pub async fn attend(
    verbs: &dyn Verbs,
    invocation: Invocation,
    terminal: &Terminal,
    interrupt: &CancellationToken,
    asker: Option<(Arc<TerminalAsker>, mpsc::Receiver<Quiet>)>,
) -> Outcome {
    if !terminal.err_is_terminal {
        let attendance = Attendance {
            cancel: interrupt.clone(),
            ..Attendance::default()
        };
        return verbs.invoke(invocation, attendance).await;
    }
    let (progress, mut reports) = ProgressSink::channel(16);
    let (asker, mut wishes) = asker.unzip();
    let attendance = Attendance {
        cancel: interrupt.clone(),
        progress,
        asker: asker.map(|asker| asker as _),
        ..Attendance::default()
    };
    let title = title(&invocation);
    let outcome = verbs.invoke(invocation, attendance);
    tokio::pin!(outcome);
    let silence = tokio::time::sleep(SILENCE);
    tokio::pin!(silence);
    let mut bar: Option<ProgressBar> = None;
    let mut last: Option<Progress> = None;
    let mut heard = true;
    // Cancelled when a form that is being filled in has left the terminal.
    let mut form: Option<CancellationToken> = None;
    let outcome = loop {
        tokio::select! {
            outcome = &mut outcome => break outcome,
            () = &mut silence, if bar.is_none() && form.is_none() => {
                let shown = spinner(&title);
                if let Some(report) = &last {
                    show(&shown, &title, report);
                }
                bar = Some(shown);
            }
            Some(wish) = wish(&mut wishes), if form.is_none() => {
                if let Some(bar) = bar.take() {
                    bar.finish_and_clear();
                }
                form = Some(wish.over);
                // Whoever wished may have gone again.
                let _ = wish.ready.send(());
            }
            () = left(form.as_ref()), if form.is_some() => {
                form = None;
                silence.as_mut().reset(tokio::time::Instant::now() + SILENCE);
            }
            report = reports.recv(), if heard => match report {
                Some(report) => {
                    if let Some(bar) = &bar {
                        show(bar, &title, &report);
                    }
                    last = Some(report);
                }
                None => heard = false,
            },
        }
    };
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    outcome
}

async fn wish(wishes: &mut Option<mpsc::Receiver<Quiet>>) -> Option<Quiet> {
    match wishes {
        Some(wishes) => wishes.recv().await,
        None => std::future::pending().await,
    }
}

async fn left(form: Option<&CancellationToken>) {
    match form {
        Some(over) => over.cancelled().await,
        None => std::future::pending().await,
    }
}

fn title(invocation: &Invocation) -> String {
    let subject = ["tool", "address", "recipe", "title"]
        .iter()
        .find_map(|key| invocation.arguments.get(key)?.as_str())
        .unwrap_or("");
    let text = format!("{} {subject}", invocation.verb);
    pentad_model::text::excerpt(&pentad_model::text::visible(&text), 60)
}

fn spinner(title: &str) -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} [{elapsed}]") {
        bar.set_style(style);
    }
    bar.set_message(title.to_owned());
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

fn show(bar: &ProgressBar, title: &str, report: &Progress) {
    bar.set_message(progress_line(title, report));
}

/// Says how far it is; what a server says is made visible and cut.
fn progress_line(title: &str, report: &Progress) -> String {
    let far = match report.total {
        Some(total) if total > 0.0 => format!(" {:.0} %", (report.done / total * 100.0).clamp(0.0, 100.0)),
        _ if report.done > 0.0 => format!(" {}", report.done),
        _ => String::new(),
    };
    let message = report.message.as_deref().unwrap_or("");
    let line = message.split_whitespace().collect::<Vec<_>>().join(" ");
    let message = pentad_model::text::excerpt(&pentad_model::text::visible(&line), 80);
    if message.is_empty() {
        format!("{title}{far}")
    } else {
        format!("{title}{far}: {message}")
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use pentad_model::invocation::{ThreadChoice, Workspace};
    use pentad_model::{Actor, CallId, Status, ThreadId};

    use super::*;

    struct UntilCancelled;

    #[async_trait]
    impl Verbs for UntilCancelled {
        async fn invoke(&self, invocation: Invocation, attendance: Attendance) -> Outcome {
            attendance.progress.report(Progress {
                done: 1.0,
                total: Some(2.0),
                message: None,
            });
            attendance.cancel.cancelled().await;
            Outcome {
                status: Status::Failed,
                verb: invocation.verb,
                call: CallId::generate(),
                thread: ThreadId::generate(),
                run: None,
                text: "canceled".to_owned(),
                omitted: None,
                value: None,
                parts: Vec::new(),
                refusal: None,
            }
        }
    }

    #[test]
    fn an_interruption_reaches_the_act_and_its_outcome_is_awaited() {
        let invocation = Invocation {
            caller: Actor::User.into(),
            agent: None,
            thread: ThreadChoice::Key("x".to_owned()),
            run: None,
            workspace: Workspace {
                cwd: "/".into(),
                project_root: None,
                trusted: false,
            },
            verb: Verb::Call,
            arguments: serde_json::json!({"tool": "x"}),
            deadline: None,
            view_bytes: None,
        };
        for err_is_terminal in [false, true] {
            let terminal = Terminal {
                err_is_terminal,
                ..Terminal::default()
            };
            let interrupt = CancellationToken::new();
            interrupt.cancel();
            let outcome = block_on(attend(
                &UntilCancelled,
                invocation.clone(),
                &terminal,
                &interrupt,
                None,
            ))
            .unwrap();
            assert_eq!(outcome.text, "canceled");
        }
    }

    #[test]
    fn progress_of_foreign_servers_is_one_safe_line() {
        let report = |done, total, message: &str| Progress {
            done,
            total,
            message: Some(message.to_owned()),
        };
        assert_eq!(
            progress_line("call x", &report(1.0, Some(4.0), "half\n\u{1b}[2Jway")),
            "call x 25 %: half \\u{1b}[2Jway"
        );
        assert_eq!(progress_line("call x", &report(7.0, None, "")), "call x 7");
        assert_eq!(
            progress_line("call x", &report(9.0, Some(4.0), "")),
            "call x 100 %"
        );
    }
}
