//! One verb for one request: the invocation, what accompanies it, and how it ended.

use std::sync::LazyLock;

use pentad_model::actor::{Actor, Caller};
use pentad_model::invocation::ThreadChoice;
use pentad_model::{Invocation, Name, Outcome, Refusal, RefusalKind, Status, Verb};
use pentad_program::{Attendance, ProgressSink};
use rmcp::RoleServer;
use rmcp::model::InputRequiredResult;
use rmcp::service::RequestContext;
use serde_json::Value;

use super::ask::{Returned, Way};
use super::handler::Face;
use super::progress;

/// How many reports of progress may wait for the client.
const PROGRESS_BUFFER: usize = 16;

/// The name of a client that gives none.
static NAMELESS: LazyLock<Name> = LazyLock::new(|| Name::sanitised("mcp", &Name::main()));

/// How a verb ended for the request that wanted it.
#[derive(Debug)]
pub(super) enum Ended {
    /// It was invoked; a refusal may be its outcome.
    Outcome(Box<Outcome>),
    /// It goes on when the client repeats the request with an answer.
    Asks(InputRequiredResult),
    /// It was not invoked.
    Refused(Refusal),
    /// What the request brought back from an earlier one cannot be used: the client is at fault, not the act.
    Misused(Refusal),
}

impl Face {
    /// Runs one verb, telling the client that it lives and asking what must be asked, until it has ended.
    ///
    /// A cancelled call is waited for: it has ended only when the processes that it started are gone.
    pub(super) async fn run_verb(
        &self,
        verb: Verb,
        arguments: Value,
        returned: &Returned,
        context: &RequestContext<RoleServer>,
    ) -> Ended {
        let _in_flight = self.calls().begin();
        let cancel = self.calls().cancel.child_token();
        let invocation = self.invocation(verb, arguments, context);
        let mut way = match Way::of(context, &self.options, &invocation, returned) {
            Ok(way) => way,
            Err(refusal) => return Ended::Misused(refusal),
        };
        let token = context.meta.get_progress_token();
        let (sink, reports) = match &token {
            Some(_) => {
                let (sink, reports) = ProgressSink::channel(PROGRESS_BUFFER);
                (sink, Some(reports))
            }
            None => (ProgressSink::none(), None),
        };
        let attendance = Attendance {
            cancel: cancel.clone(),
            progress: sink,
            asker: way.asker(),
            ..Attendance::default()
        };
        let acting = self.act(invocation, attendance);
        tokio::pin!(acting);
        let cancelled = async {
            context.ct.cancelled().await;
            cancel.cancel();
            std::future::pending::<()>().await;
        };
        let watching = async {
            if let (Some(token), Some(reports)) = (token, reports) {
                progress::forward(&context.peer, token, reports, self.options.limits.heartbeat).await;
            }
            std::future::pending::<()>().await;
        };
        let ended = tokio::select! {
            ended = &mut acting => ended,
            () = cancelled => Ended::Refused(gone()),
            () = watching => Ended::Refused(gone()),
            () = way.serve(&context.peer) => Ended::Refused(gone()),
        };
        way.close(&context.peer).await;
        match (ended, way.question()) {
            (Ended::Outcome(outcome), Some(question)) if outcome.status == Status::Waiting => {
                Ended::Asks(question)
            }
            (ended, _) => ended,
        }
    }

    async fn act(&self, invocation: Invocation, attendance: Attendance) -> Ended {
        let opened = tokio::select! {
            opened = self.verbs.get() => opened,
            () = attendance.cancel.cancelled() => Err(gone()),
        };
        match opened {
            Ok(verbs) => Ended::Outcome(Box::new(verbs.invoke(invocation, attendance).await)),
            Err(refusal) => Ended::Refused(refusal),
        }
    }

    fn invocation(&self, verb: Verb, arguments: Value, context: &RequestContext<RoleServer>) -> Invocation {
        let introduced = context.client_info().map(|info| info.name).unwrap_or_default();
        let introduced = Name::sanitised(&introduced, &NAMELESS);
        let thread = match &self.options.thread {
            ThreadChoice::Key(key) if self.thread_per_client => {
                ThreadChoice::Key(format!("{key}:{introduced}"))
            }
            thread => thread.clone(),
        };
        let client = self.options.client.clone().unwrap_or(introduced);
        Invocation {
            caller: Caller {
                actor: Actor::Client(client),
                on_behalf_of: self.options.on_behalf_of.clone(),
            },
            agent: self.options.agent.clone(),
            thread,
            run: None,
            workspace: self.options.workspace.clone(),
            verb,
            arguments,
            deadline: None,
            view_bytes: self.options.view_bytes,
        }
    }
}

/// The answer to a call that was cancelled before it began; no client reads it.
fn gone() -> Refusal {
    Refusal::new(
        RefusalKind::Unavailable,
        "call",
        "The call was cancelled before it began.",
    )
}
