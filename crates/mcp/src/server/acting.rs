//! One act on a server: its tool called, or its resource read, once or, where that is safe, twice.

use std::sync::Arc;
use std::time::Duration;

use pentad_model::{ThreadId, ToolDocument};
use pentad_program::{Attendance, Content, ToolCall, ToolFailure, ToolOutput};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, JsonObject, ReadResourceRequest,
    ReadResourceRequestParams, ServerResult,
};
use tokio::time::{Instant, timeout_at};

use super::connection::{CallEnd, CallLimits, Connection};
use super::instance::Instance;
use super::log::Origin;
use super::output;
use super::party::Party;
use super::source::ConnectedServer;
use super::task::TaskCall;

/// How long the end of a process that took a call with it may take to be explained.
const EXPLAIN_LIMIT: Duration = Duration::from_secs(1);
/// How much longer than a call itself its watcher waits.
const GRACE: Duration = Duration::from_millis(1_500);

/// A resource of a server to be read.
#[derive(Debug, Clone)]
pub struct ResourceRead {
    /// Its identifier at the server.
    pub uri: String,
    /// The thread, where each has a process of its own.
    pub thread: ThreadId,
    /// The working folder, where each has a process of its own.
    pub cwd: std::path::PathBuf,
    /// Absolute limit; the server's own limits hold besides.
    pub time_limit: Option<Duration>,
    /// Cancellation and progress.
    pub attendance: Attendance,
}

/// What is sent to a server.
pub enum Asked {
    /// One request, with one answer.
    Request(Box<ClientRequest>),
    /// A tool that runs as a task.
    Task(TaskCall),
}

/// What is asked of a server.
pub struct Act<'a> {
    pub asked: Asked,
    /// What was judged, if a tool is called; it must still be what the server offers.
    pub judged: Option<&'a ToolDocument>,
    /// Whether it may be repeated although it may have happened.
    pub repeatable: bool,
    pub party: Party<'a>,
    pub thread: ThreadId,
    pub time_limit: Option<Duration>,
}

impl ConnectedServer {
    /// Reads one resource of the server. Reading is safe to repeat, by the protocol's own definition.
    ///
    /// # Errors
    /// [`ToolFailure`], as for a call.
    pub async fn read_resource(&self, read: ResourceRead) -> Result<Vec<Content>, ToolFailure> {
        let params = ReadResourceRequestParams::new(read.uri.as_str());
        let result = self
            .act(Act {
                asked: Asked::Request(Box::new(ClientRequest::ReadResourceRequest(
                    ReadResourceRequest::new(params),
                ))),
                judged: None,
                repeatable: true,
                party: Party {
                    attendance: &read.attendance,
                    folder: &read.cwd,
                    origin: None,
                },
                thread: read.thread,
                time_limit: read.time_limit,
            })
            .await?;
        output::resource_contents(result).map_err(ToolFailure::Failed)
    }

    pub(super) async fn call_tool(&self, call: ToolCall) -> Result<ToolOutput, ToolFailure> {
        let document = &call.document;
        if self.core.manifest().is_some() {
            self.check(document)?;
        }
        let asked = self.asked(document, call.input);
        let trusted = document.trusted;
        let origin = Origin {
            run: call.run,
            thread: call.thread,
            caller: call.caller,
        };
        let result = self
            .act(Act {
                asked,
                judged: Some(document),
                repeatable: trusted.read_only == Some(true) || trusted.idempotent == Some(true),
                party: Party {
                    attendance: &call.attendance,
                    folder: &call.workspace.cwd,
                    origin: Some(&origin),
                },
                thread: call.thread,
                time_limit: call.time_limit,
            })
            .await?;
        output::tool_output(result).map_err(ToolFailure::Failed)
    }

    fn asked(&self, document: &ToolDocument, input: JsonObject) -> Asked {
        let name = document.tool.name.clone();
        let known = self.core.manifest();
        let tool = known
            .as_ref()
            .and_then(|manifest| manifest.tools.iter().find(|tool| tool.name == name));
        if tool.is_some_and(|tool| tool.needs_task) {
            return Asked::Task(TaskCall { name, input });
        }
        let params = CallToolRequestParams::new(name).with_arguments(input);
        Asked::Request(Box::new(ClientRequest::CallToolRequest(CallToolRequest::new(
            params,
        ))))
    }

    pub(super) async fn act(&self, act: Act<'_>) -> Result<ServerResult, ToolFailure> {
        let configured = &self.core.config.limits;
        let total = act
            .time_limit
            .map_or(configured.call_limit, |limit| limit.min(configured.call_limit));
        let begun = Instant::now();
        let limits = CallLimits {
            idle: configured.call_timeout,
            until: begun + total,
            total,
        };
        let cancel = &act.party.attendance.cancel;
        let acting = async {
            let environment = act.party.attendance.environment.as_deref();
            let instance = self.instance_for(act.thread, act.party.folder, environment)?;
            let _permit = tokio::select! {
                permit = self.permits.acquire() => permit.map_err(|_| ToolFailure::Canceled)?,
                () = cancel.cancelled() => return Err(ToolFailure::Canceled),
            };
            self.attempt(&instance, &act, limits, begun).await
        };
        // A call in flight sees its own limit and tells the server; the waits before it end here, later.
        match timeout_at(limits.until + GRACE, acting).await {
            Ok(done) => done,
            Err(_) => Err(timed_out(format!("call limit {} s", total.as_secs_f64()), begun)),
        }
    }

    /// A connection that was dead before the request reached it is replaced, once; so is one that died during a
    /// request that may be repeated.
    async fn attempt(
        &self,
        instance: &Arc<Instance>,
        act: &Act<'_>,
        limits: CallLimits,
        begun: Instant,
    ) -> Result<ServerResult, ToolFailure> {
        let mut second = false;
        loop {
            let lease = tokio::select! {
                lease = instance.lease() => lease?,
                () = act.party.attendance.cancel.cancelled() => return Err(ToolFailure::Canceled),
            };
            if let Some(judged) = act.judged {
                // The start may have brought another list of tools.
                self.check(judged)?;
            }
            let connection = Arc::clone(lease.connection());
            let answer = match &act.asked {
                Asked::Request(request) => {
                    lease
                        .exchange(&instance.variant, request.as_ref().clone(), limits, act.party)
                        .await
                }
                Asked::Task(call) => lease.run_task(&instance.variant, call, limits, act.party).await,
            };
            drop(lease);
            let (sent, how) = match answer {
                Ok(result) => return Ok(result),
                Err(CallEnd::Canceled) => return Err(ToolFailure::Canceled),
                Err(CallEnd::TimedOut { limit }) => return Err(timed_out(limit, begun)),
                Err(CallEnd::Failed(text)) => return Err(ToolFailure::Failed(text)),
                Err(CallEnd::Refused(refusal)) => return Err(ToolFailure::Refused(*refusal)),
                Err(CallEnd::NotSent) => (false, None),
                Err(CallEnd::Lost(how)) => (true, how),
            };
            connection.close();
            if second || (sent && !act.repeatable) {
                return Err(self.interrupted(&connection, sent, how).await);
            }
            second = true;
            tracing::debug!(server = %self.core.config.name, "repeating a request on a new connection");
        }
    }

    async fn interrupted(&self, connection: &Connection, sent: bool, how: Option<String>) -> ToolFailure {
        let how = match how {
            Some(how) => how,
            None => connection.how_it_ended(EXPLAIN_LIMIT).await,
        };
        let tail = match connection.wire.last_words().await {
            empty if empty.is_empty() => empty,
            tail => format!("\nIts stderr ends with:\n{tail}"),
        };
        let name = &self.core.config.name;
        if sent {
            ToolFailure::Interrupted(format!(
                "server '{name}' ended during the call ({how}), and nobody knows whether the call took effect; look before you repeat it{tail}"
            ))
        } else {
            ToolFailure::Failed(format!(
                "server '{name}' ended before it could be called ({how}){tail}"
            ))
        }
    }
}

fn timed_out(limit: String, begun: Instant) -> ToolFailure {
    let after_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    ToolFailure::TimedOut { limit, after_ms }
}
