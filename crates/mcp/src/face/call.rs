//! From `tools/call` to an invocation and back.

use std::sync::LazyLock;

use pentad_model::actor::{Actor, Caller};
use pentad_model::invocation::ThreadChoice;
use pentad_model::{Invocation, Name, Refusal, RefusalKind, Verb};
use pentad_program::{Attendance, ProgressSink};
use rmcp::RoleServer;
use rmcp::model::CallToolResult;
use rmcp::service::RequestContext;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::handler::Face;
use super::{progress, reply};

/// How many reports of progress may wait for the client.
const PROGRESS_BUFFER: usize = 16;

/// The name of a client that gives none.
static NAMELESS: LazyLock<Name> = LazyLock::new(|| Name::sanitised("mcp", &Name::main()));

impl Face {
    /// Runs one verb, telling the client that it lives, until it has ended.
    ///
    /// A cancelled call is waited for: it has ended only when the processes that it started are gone.
    pub(super) async fn call_verb(
        &self,
        verb: Verb,
        arguments: Value,
        context: &RequestContext<RoleServer>,
        cancel: CancellationToken,
    ) -> CallToolResult {
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
            ..Attendance::default()
        };
        let invocation = self.invocation(verb, arguments, context);
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
        tokio::select! {
            result = &mut acting => result,
            () = cancelled => reply::refusal(&gone()),
            () = watching => reply::refusal(&gone()),
        }
    }

    async fn act(&self, invocation: Invocation, attendance: Attendance) -> CallToolResult {
        let opened = tokio::select! {
            opened = self.verbs.get() => opened,
            () = attendance.cancel.cancelled() => Err(gone()),
        };
        match opened {
            Ok(verbs) => reply::outcome(verbs.invoke(invocation, attendance).await),
            Err(refusal) => reply::refusal(&refusal),
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
