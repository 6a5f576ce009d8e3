//! One connection between a face and the keeper: calls in both directions, progress, cancellation.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::{SinkExt as _, StreamExt as _};
use pentad_model::{Refusal, RefusalKind};
use pentad_program::{Asker, Attendance, Progress, ProgressSink};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, oneshot};
use tokio_util::codec::{FramedRead, FramedWrite, LinesCodec};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Largest message: an outcome with its attachments.
pub(super) const MAX_LINE: usize = 64 * 1024 * 1024;
/// Calls of one side that may be in progress at once.
const MAX_CALLS: usize = 256;
/// Messages that may wait to be written.
const OUT_BUFFER: usize = 64;
/// Reports of one call's progress that may wait.
const PROGRESS_BUFFER: usize = 16;
/// How long cancelled calls may take to end after the other side has gone.
const END_LIMIT: Duration = Duration::from_secs(15);

/// Why a call has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum LinkError {
    /// The connection was gone before the call was sent.
    #[error("the connection was closed before the call was sent")]
    NotSent,
    /// The connection ended while the call was in flight.
    #[error("the connection ended while the call was in flight")]
    Interrupted,
    /// The other side refused it.
    #[error("{0}")]
    Refused(Box<Refusal>),
}

impl From<LinkError> for Refusal {
    fn from(error: LinkError) -> Self {
        match error {
            LinkError::Refused(refusal) => *refusal,
            LinkError::NotSent | LinkError::Interrupted => {
                Self::new(RefusalKind::Unavailable, "keeper", format!("{error}."))
                    .next_step("repeat it; pentad doctor says what is wrong when it stays")
            }
        }
    }
}

/// One incoming call.
pub(super) struct Incoming {
    /// Names the call, for calls in the other direction that belong to it.
    pub id: u64,
    /// The method and its parameters.
    pub call: Value,
    /// Cancelled when the other side cancels or goes away.
    pub cancel: CancellationToken,
    /// Takes progress to the other side.
    pub progress: ProgressSink,
}

/// Answers the calls of the other side.
#[async_trait]
pub(super) trait Answering: Send + Sync + 'static {
    /// Answers one call.
    async fn answer(&self, link: &Arc<Link>, incoming: Incoming) -> Result<Value, Refusal>;
}

#[derive(Serialize, Deserialize, Default)]
struct Line {
    #[serde(skip_deserializing)]
    jsonrpc: &'static str,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    method: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    params: Option<Value>,
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    result: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<Value>,
}

/// Reads a result that is there, `null` included.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

struct Waiting {
    reply: oneshot::Sender<Result<Value, LinkError>>,
    progress: ProgressSink,
    asker: Option<Arc<dyn Asker>>,
}

/// The sending half of a connection.
pub(super) struct Link {
    out: mpsc::Sender<String>,
    waiting: Mutex<HashMap<u64, Waiting>>,
    next: AtomicU64,
    gone: CancellationToken,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link")
            .field("gone", &self.gone.is_cancelled())
            .finish_non_exhaustive()
    }
}

impl Link {
    /// Is cancelled when the connection has ended.
    pub fn gone(&self) -> &CancellationToken {
        &self.gone
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls the other side and waits for the answer, or for the end of the connection. A cancelled call is told to the
    /// other side, and its answer is still waited for: it has ended only when the other side says so.
    pub async fn call(&self, call: &impl Serialize, attendance: &Attendance) -> Result<Value, LinkError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (reply, mut answer) = oneshot::channel();
        let fault = |error: serde_json::Error| {
            LinkError::Refused(Box::new(Refusal::new(
                RefusalKind::Internal,
                "keeper",
                format!("A call cannot be written: {error}."),
            )))
        };
        let Value::Object(mut message) = serde_json::to_value(call).map_err(fault)? else {
            return Err(LinkError::NotSent);
        };
        message.insert("jsonrpc".to_owned(), "2.0".into());
        message.insert("id".to_owned(), id.into());
        let line = Value::Object(message).to_string();
        if line.len() >= MAX_LINE {
            let text = format!("The call has {} bytes; at most {MAX_LINE} are taken.", line.len());
            return Err(LinkError::Refused(Box::new(Refusal::new(
                RefusalKind::TooLarge,
                "arguments",
                text,
            ))));
        }
        if self.gone.is_cancelled() {
            return Err(LinkError::NotSent);
        }
        let waiting = Waiting {
            reply,
            progress: attendance.progress.clone(),
            asker: attendance.asker.clone(),
        };
        self.waiting().insert(id, waiting);
        if self.out.send(line).await.is_err() {
            self.waiting().remove(&id);
            return Err(LinkError::NotSent);
        }
        let received = tokio::select! {
            received = &mut answer => received,
            () = self.gone.cancelled() => self.last_word(&mut answer),
            () = attendance.cancel.cancelled() => {
                self.notify("cancel", &json!({"id": id})).await;
                tokio::select! {
                    received = &mut answer => received,
                    () = self.gone.cancelled() => self.last_word(&mut answer),
                }
            }
        };
        self.waiting().remove(&id);
        received.unwrap_or(Err(LinkError::Interrupted))
    }

    /// Returns an answer that came just before the end.
    #[allow(clippy::unused_self)] // reads as a property of the link
    fn last_word(
        &self,
        answer: &mut oneshot::Receiver<Result<Value, LinkError>>,
    ) -> Result<Result<Value, LinkError>, oneshot::error::RecvError> {
        Ok(answer.try_recv().unwrap_or(Err(LinkError::Interrupted)))
    }

    /// Returns who can be asked on behalf of a call that is in flight.
    pub fn asker_of(&self, id: u64) -> Option<Arc<dyn Asker>> {
        self.waiting().get(&id)?.asker.clone()
    }

    async fn notify(&self, method: &str, params: &Value) {
        let line = json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string();
        // When the connection is gone, nobody is left to be told.
        let _ = self.out.send(line).await;
    }

    async fn reply(&self, id: u64, result: Result<Value, Refusal>) {
        let mut line = Line {
            jsonrpc: "2.0",
            id: Some(id),
            ..Line::default()
        };
        match result {
            Ok(result) => line.result = Some(result),
            Err(refusal) => {
                line.error = Some(json!({"code": -32000, "message": refusal.message, "data": refusal}));
            }
        }
        let mut line = serde_json::to_string(&line).unwrap_or_default();
        if line.len() >= MAX_LINE {
            let text = format!(
                "The answer has {} bytes; at most {MAX_LINE} are carried.",
                line.len()
            );
            let refusal = Refusal::new(RefusalKind::TooLarge, "keeper", text);
            line = json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32000, "message": refusal.message, "data": refusal}})
                .to_string();
        }
        let _ = self.out.send(line).await;
    }

    fn settle(&self, id: u64, result: Option<Value>, error: Option<Value>) {
        let Some(waiting) = self.waiting().remove(&id) else {
            return;
        };
        let answer = match error {
            None => Ok(result.unwrap_or(Value::Null)),
            Some(mut error) => {
                let data = error.get_mut("data").map(Value::take).unwrap_or_default();
                let refusal = serde_json::from_value(data)
                    .unwrap_or_else(|_| Refusal::new(RefusalKind::Internal, "keeper", error.to_string()));
                Err(LinkError::Refused(Box::new(refusal)))
            }
        };
        // Whoever does not wait any more needs no answer.
        let _ = waiting.reply.send(answer);
    }

    fn report(&self, params: &Value) {
        let Some(id) = params.get("id").and_then(Value::as_u64) else {
            return;
        };
        let sink = self.waiting().get(&id).map(|waiting| waiting.progress.clone());
        if let Some(sink) = sink {
            sink.report(Progress {
                done: params.get("done").and_then(Value::as_f64).unwrap_or(0.0),
                total: params.get("total").and_then(Value::as_f64),
                message: params.get("message").and_then(Value::as_str).map(str::to_owned),
            });
        }
    }
}

/// Starts a link on a stream whose frames have been exchanged. The returned future serves the connection until the other
/// side goes away or `end` is cancelled, and then until the calls of the other side have ended.
pub(super) fn start<R, W>(
    read: FramedRead<R, LinesCodec>,
    mut write: FramedWrite<W, LinesCodec>,
    answering: Arc<dyn Answering>,
    end: CancellationToken,
) -> (Arc<Link>, impl Future<Output = ()> + Send + 'static)
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let (out, mut lines) = mpsc::channel::<String>(OUT_BUFFER);
    let link = Arc::new(Link {
        out,
        waiting: Mutex::default(),
        next: AtomicU64::new(1),
        gone: CancellationToken::new(),
    });
    let gone = link.gone.clone();
    let writing = async move {
        loop {
            let line = tokio::select! {
                line = lines.recv() => line,
                () = gone.cancelled() => None,
            };
            let Some(line) = line else { break };
            if write.send(line).await.is_err() {
                gone.cancel();
                break;
            }
        }
    };
    let served = Arc::clone(&link);
    let serving = async move {
        let calls = TaskTracker::new();
        let running = Running::default();
        let reading = async {
            let mut read = read;
            loop {
                let line = tokio::select! {
                    line = read.next() => line,
                    () = served.gone.cancelled() => None,
                };
                match line {
                    Some(Ok(line)) => served.take(&line, &answering, &calls, &running),
                    Some(Err(error)) => {
                        tracing::warn!(%error, "a message was not taken; the connection ends");
                        break;
                    }
                    None => break,
                }
            }
            running.cancel_all();
            calls.close();
            // The answers of calls that end now are still written.
            let _ = tokio::time::timeout(END_LIMIT, calls.wait()).await;
            served.gone.cancel();
        };
        let ending = async {
            end.cancelled().await;
            running.cancel_all();
            calls.close();
            let _ = tokio::time::timeout(END_LIMIT, calls.wait()).await;
        };
        let writing = tokio::spawn(writing);
        tokio::select! {
            () = reading => {}
            () = ending => {}
        }
        // A moment for what was just answered to be written.
        let _ = tokio::time::timeout(Duration::from_millis(200), drained(&served.out)).await;
        served.gone.cancel();
        served.waiting().clear();
        let _ = writing.await;
    };
    (link, serving)
}

/// Waits until nothing is left in a channel's buffer.
async fn drained(out: &mpsc::Sender<String>) {
    let _ = out.reserve_many(OUT_BUFFER).await;
}

/// The calls of the other side that are in progress.
#[derive(Clone, Default)]
struct Running(Arc<Mutex<HashMap<u64, CancellationToken>>>);

impl Running {
    fn all(&self) -> std::sync::MutexGuard<'_, HashMap<u64, CancellationToken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cancel_all(&self) {
        for token in self.all().values() {
            token.cancel();
        }
    }
}

impl Link {
    fn take(
        self: &Arc<Self>,
        line: &str,
        answering: &Arc<dyn Answering>,
        calls: &TaskTracker,
        running: &Running,
    ) {
        let line: Line = match serde_json::from_str(line) {
            Ok(line) => line,
            Err(error) => {
                tracing::warn!(%error, "a message is no JSON-RPC and was skipped");
                return;
            }
        };
        match (line.method, line.id) {
            (None, Some(id)) => self.settle(id, line.result, line.error),
            (Some(method), Some(id)) => {
                let mut call = Map::new();
                call.insert("method".to_owned(), method.into());
                call.insert("params".to_owned(), line.params.unwrap_or_default());
                let call = Value::Object(call);
                self.admit(id, call, answering, calls, running);
            }
            (Some(method), None) => {
                let params = line.params.unwrap_or_default();
                match method.as_str() {
                    "progress" => self.report(&params),
                    "cancel" => {
                        let id = params.get("id").and_then(Value::as_u64);
                        if let Some(token) = id.and_then(|id| running.all().get(&id).cloned()) {
                            token.cancel();
                        }
                    }
                    _ => tracing::debug!(method, "ignoring an unknown notification"),
                }
            }
            (None, None) => tracing::debug!("ignoring a message that is neither call nor answer"),
        }
    }

    /// Answers one call of the other side in a task of its own.
    fn admit(
        self: &Arc<Self>,
        id: u64,
        call: Value,
        answering: &Arc<dyn Answering>,
        calls: &TaskTracker,
        running: &Running,
    ) {
        let link = Arc::clone(self);
        let cancel = CancellationToken::new();
        {
            let mut all = running.all();
            if all.len() >= MAX_CALLS || all.contains_key(&id) || calls.is_closed() {
                let refusal = Refusal::new(
                    RefusalKind::TooMany,
                    "keeper",
                    format!(
                        "This connection has {} calls in progress; at most {MAX_CALLS} are taken.",
                        all.len()
                    ),
                )
                .next_step("repeat it when one of them has ended");
                drop(all);
                tokio::spawn(async move { link.reply(id, Err(refusal)).await });
                return;
            }
            all.insert(id, cancel.clone());
        }
        let (running, answering) = (running.clone(), Arc::clone(answering));
        calls.spawn(async move {
            let (progress, mut reports) = ProgressSink::channel(PROGRESS_BUFFER);
            let incoming = Incoming { id, call, cancel, progress };
            let answer = answering.answer(&link, incoming);
            tokio::pin!(answer);
            let mut heard = true;
            let result = loop {
                tokio::select! {
                    result = &mut answer => break result,
                    report = reports.recv(), if heard => match report {
                        Some(p) => {
                            let params = json!({"id": id, "done": p.done, "total": p.total, "message": p.message});
                            link.notify("progress", &params).await;
                        }
                        None => heard = false,
                    },
                }
            };
            running.all().remove(&id);
            link.reply(id, result).await;
        });
    }
}
