//! Tools that their server runs as tasks only: begun, followed, fetched (revision 2025-11-25).

use std::time::Duration;

use pentad_program::{Attendance, Progress};
use rmcp::model::{ClientRequest, CustomRequest, JsonObject, ServerResult};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::connection::{CallEnd, CallLimits, Lease};
use super::core::Core;
use super::party::Party;
use super::routes::Presence;

/// How often a task is looked at when its server does not say.
const POLL: Duration = Duration::from_millis(500);
/// The bounds of what a server may say about that.
const POLL_RANGE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));
/// How much longer than our own limit a server should keep the result.
const KEEP: Duration = Duration::from_secs(60);
/// How long telling a server about a cancellation may take.
const CANCEL_LIMIT: Duration = Duration::from_secs(1);

/// A tool to be called as a task.
#[derive(Debug, Clone)]
pub struct TaskCall {
    /// The tool's name at the server.
    pub name: String,
    /// Its input.
    pub input: JsonObject,
}

impl Lease {
    /// Calls a tool as a task, follows the task to its end and fetches the result.
    pub async fn run_task(
        &self,
        core: &Core,
        call: &TaskCall,
        limits: CallLimits,
        party: Party<'_>,
    ) -> Result<ServerResult, CallEnd> {
        // All requests about one task are one call: what the server asks or says between them belongs to it.
        let mut presence = self.connection().routes.enter(party);
        let end = self.begin_and_follow(core, call, limits, party, &presence).await;
        self.keep_log(core, party, &mut presence).await;
        end
    }

    async fn begin_and_follow(
        &self,
        core: &Core,
        call: &TaskCall,
        limits: CallLimits,
        party: Party<'_>,
        presence: &Presence,
    ) -> Result<ServerResult, CallEnd> {
        let keep = u64::try_from((limits.total + KEEP).as_millis()).unwrap_or(u64::MAX);
        let begin = request(
            "tools/call",
            json!({"name": call.name, "arguments": call.input, "task": {"ttl": keep}}),
        );
        let answer = read(&self.send(core, begin, limits, party, presence).await?);
        let task = answer.get("task").unwrap_or(&answer);
        let Some(id) = task.get("taskId").and_then(Value::as_str) else {
            return Err(CallEnd::Failed(
                "the server began no task, although the tool needs one".to_owned(),
            ));
        };
        let end = self.follow(core, id, task, limits, party, presence).await;
        match end {
            Err(CallEnd::Canceled | CallEnd::TimedOut { .. }) => {
                self.cancel_task(core, id, limits, party, presence).await
            }
            // The task had begun: nobody knows how far it came.
            Err(CallEnd::NotSent) => return Err(CallEnd::Lost(None)),
            _ => {}
        }
        end
    }

    async fn follow(
        &self,
        core: &Core,
        id: &str,
        begun: &Value,
        limits: CallLimits,
        party: Party<'_>,
        presence: &Presence,
    ) -> Result<ServerResult, CallEnd> {
        let named = || json!({"taskId": id});
        let mut task = begun.clone();
        let mut looks = 0_u32;
        let mut told = None;
        while task.get("status").and_then(Value::as_str) == Some("working") {
            let message = task
                .get("statusMessage")
                .and_then(Value::as_str)
                .map(str::to_owned);
            if message.is_some() && message != told {
                looks += 1;
                party.attendance.progress.report(Progress {
                    done: looks.into(),
                    total: None,
                    message: message.clone(),
                });
                told = message;
            }
            tokio::select! {
                () = sleep(poll_interval(&task)) => {}
                () = party.attendance.cancel.cancelled() => return Err(CallEnd::Canceled),
            }
            task = read(
                &self
                    .send(core, request("tasks/get", named()), limits, party, presence)
                    .await?,
            );
        }
        self.send(core, request("tasks/result", named()), limits, party, presence)
            .await
    }

    async fn cancel_task(
        &self,
        core: &Core,
        id: &str,
        limits: CallLimits,
        party: Party<'_>,
        presence: &Presence,
    ) {
        let cancel = request("tasks/cancel", json!({"taskId": id}));
        let nobody = Attendance::default();
        let farewell = Party {
            attendance: &nobody,
            ..party
        };
        if !matches!(
            timeout(CANCEL_LIMIT, self.send(core, cancel, limits, farewell, presence)).await,
            Ok(Ok(_))
        ) {
            tracing::debug!("the server could not be told that its task is not wanted any more");
        }
    }
}

fn request(method: &str, params: Value) -> ClientRequest {
    ClientRequest::CustomRequest(CustomRequest::new(method, Some(params)))
}

/// Returns an answer as it was written: the types know the tasks of a later revision.
fn read(answer: &ServerResult) -> Value {
    serde_json::to_value(answer).unwrap_or_default()
}

fn poll_interval(task: &Value) -> Duration {
    let asked = task
        .get("pollInterval")
        .and_then(Value::as_u64)
        .map(Duration::from_millis);
    asked.map_or(POLL, |asked| asked.clamp(POLL_RANGE.0, POLL_RANGE.1))
}
