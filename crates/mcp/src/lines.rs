//! JSON-RPC over lines of text, for our own face and for the servers we start.
//!
//! This replaces rmcp's reader and writer of pipes for four reasons: a bad line must be reported and counted instead of
//! vanishing (a request whose line cannot be read would wait for ever), a lone surrogate must not lose the message
//! around it, the end of input has to be seen by the face before the service loop sees it, and a first attempt to open
//! a connection must leave the pipes usable for a second one.

mod execution;
mod meter;
mod reader;
mod salvage;
mod surrogates;

use std::collections::{HashSet, VecDeque};
use std::io;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use rmcp::model::{ErrorCode, ErrorData, JsonRpcError, JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, ServiceRole, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use self::execution::EXECUTION_KEY;
pub use self::meter::{LineMeter, LineReport};
use self::reader::{BoundedLines, LineRead, OversizedLine};
use self::salvage::{Salvage, salvage};
pub use self::surrogates::repair;

/// Default cap on one message that a client sends to our face.
pub const FACE_MESSAGE_BYTES: usize = 64 << 20;
/// Default cap on one message of a server.
pub const SERVER_MESSAGE_BYTES: usize = 100 << 20;
/// How many answers to lines without a readable id one connection gets; a peer that echoes them must not start a storm.
const ANONYMOUS_ERRORS: u32 = 100;
/// How long closing waits for a write in progress before it gives the pipe up.
const CLOSE_LIMIT: Duration = Duration::from_millis(250);

type BoxRead = Box<dyn AsyncRead + Send + Unpin>;
type BoxWrite = Box<dyn AsyncWrite + Send + Unpin>;

/// Which end of the connection the peer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PeerEnd {
    /// The peer is a client of ours: bad requests are answered.
    Client,
    /// The peer is a server of ours: bad answers fail the call that waits for them.
    Server,
}

/// When a face sees the end of its input, and when the service loop may see it.
#[derive(Debug, Clone, Default)]
pub struct EndOfInput {
    /// Set as soon as the input has ended.
    pub seen: CancellationToken,
    /// Set by the owner when calls in flight are dealt with.
    pub released: CancellationToken,
}

/// A transport over a pair of byte streams with one JSON-RPC message a line.
///
/// Clones share the streams, so that an opening handshake can be tried twice on the same pipes.
pub struct LineTransport {
    shared: Arc<Shared>,
}

struct Shared {
    peer: PeerEnd,
    input: Mutex<Input>,
    output: Mutex<Option<BoxWrite>>,
    meter: LineMeter,
    /// Answers to unreadable requests that are being written.
    answers: TaskTracker,
    /// Our requests whose writing was begun and that were not answered yet.
    begun: std::sync::Mutex<HashSet<RequestId>>,
    end: Option<EndOfInput>,
}

struct Input {
    lines: BoundedLines<BoxRead>,
    /// Members of a batch that are still to be delivered, as JSON text.
    batch: VecDeque<Vec<u8>>,
    /// Whether a request has arrived; before that, a face ignores everything else.
    opened: bool,
    anonymous_errors: u32,
}

/// What to do with one line.
enum Step<Rx> {
    Deliver(Rx),
    Answer { id: Option<RequestId>, error: ErrorData },
    Batch(Vec<Vec<u8>>),
    Ignore,
    Bad,
}

impl LineTransport {
    /// Creates the server end: the peer is a client.
    pub fn face(
        input: impl AsyncRead + Send + Unpin + 'static,
        output: impl AsyncWrite + Send + Unpin + 'static,
        max_message_bytes: usize,
        end: EndOfInput,
    ) -> Self {
        Self::new(
            PeerEnd::Client,
            Box::new(input),
            Box::new(output),
            max_message_bytes,
            Some(end),
        )
    }

    /// Creates the client end: the peer is a server.
    pub fn server(
        input: impl AsyncRead + Send + Unpin + 'static,
        output: impl AsyncWrite + Send + Unpin + 'static,
        max_message_bytes: usize,
    ) -> Self {
        Self::new(
            PeerEnd::Server,
            Box::new(input),
            Box::new(output),
            max_message_bytes,
            None,
        )
    }

    fn new(peer: PeerEnd, input: BoxRead, output: BoxWrite, max: usize, end: Option<EndOfInput>) -> Self {
        Self {
            shared: Arc::new(Shared {
                peer,
                input: Mutex::new(Input {
                    lines: BoundedLines::new(input, max),
                    batch: VecDeque::new(),
                    opened: peer == PeerEnd::Server,
                    anonymous_errors: 0,
                }),
                output: Mutex::new(Some(output)),
                meter: LineMeter::default(),
                answers: TaskTracker::new(),
                begun: std::sync::Mutex::default(),
                end,
            }),
        }
    }

    /// Closes our side of the connection, so that the peer sees the end of its input.
    pub async fn close_output(&self) {
        // A write into a full pipe may hold the lock for as long as the peer likes.
        if let Ok(mut output) = tokio::time::timeout(CLOSE_LIMIT, self.shared.output.lock()).await {
            drop(output.take());
        }
    }

    /// Tells whether writing request `id` was begun, and forgets it. The peer cannot have seen one that was not.
    pub fn take_begun(&self, id: &RequestId) -> bool {
        self.shared.begun().remove(id)
    }

    /// Returns what was skipped so far.
    #[must_use]
    pub fn report(&self) -> LineReport {
        self.shared.meter.report()
    }
}

impl Clone for LineTransport {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<R: ServiceRole> Transport<R> for LineTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<R>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let shared = Arc::clone(&self.shared);
        async move {
            if let JsonRpcMessage::Request(request) = &item {
                shared.begun().insert(request.id.clone());
            }
            shared.write(&item).await
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<R>> {
        self.shared.receive::<R>().await
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.close_output().await;
        Ok(())
    }
}

impl Shared {
    fn begun(&self) -> std::sync::MutexGuard<'_, HashSet<RequestId>> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn write<T: Serialize + Sync>(&self, item: &T) -> io::Result<()> {
        let mut line = serde_json::to_vec(item)?;
        line.push(b'\n');
        let mut output = self.output.lock().await;
        let Some(output) = output.as_mut() else {
            return Err(io::Error::new(
                io::ErrorKind::NotConnected,
                "the connection is closed",
            ));
        };
        output.write_all(&line).await?;
        output.flush().await
    }

    async fn receive<R: ServiceRole>(self: &Arc<Self>) -> Option<RxJsonRpcMessage<R>> {
        let mut input = self.input.lock().await;
        loop {
            let step = match input.next().await {
                Next::Line(line) => self.judge::<R>(&line),
                // Cut off by the peer's end, it is no bad line but the end itself.
                Next::Last(line) => {
                    Self::read(trim(&line)).map_or(Step::Ignore, |message| self.deliver(message))
                }
                Next::Oversized(line) => self.judge_oversized::<R>(&line),
                Next::End => {
                    if let Some(end) = &self.end {
                        end.seen.cancel();
                        end.released.cancelled().await;
                    }
                    return None;
                }
            };
            match step {
                Step::Deliver(message) => {
                    let answered = match &message {
                        JsonRpcMessage::Response(response) => Some(&response.id),
                        JsonRpcMessage::Error(error) => error.id.as_ref(),
                        JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
                    };
                    if let Some(id) = answered {
                        self.begun().remove(id);
                    }
                    input.opened |= matches!(message, JsonRpcMessage::Request(_));
                    if input.opened {
                        return Some(message);
                    }
                    tracing::debug!("ignoring a message before the first request");
                }
                Step::Answer { id, error } => {
                    if id.is_none() {
                        input.anonymous_errors += 1;
                        if input.anonymous_errors > ANONYMOUS_ERRORS {
                            continue;
                        }
                    }
                    // Written here and not through the service loop, which knows nothing of the request; by a task,
                    // because this future may be dropped at the await and half a line must never be written.
                    let shared = Arc::clone(self);
                    let message = TxJsonRpcMessage::<R>::error(error, id);
                    let written = self.answers.spawn(async move { shared.write(&message).await });
                    if !matches!(written.await, Ok(Ok(()))) {
                        return None;
                    }
                }
                Step::Batch(members) => input.batch.extend(members),
                Step::Ignore => {}
                Step::Bad => {
                    if self.meter.is_flooded() {
                        tracing::warn!("giving up on a peer that writes nothing but unreadable lines");
                        return None;
                    }
                }
            }
        }
    }

    fn judge<R: ServiceRole>(&self, line: &[u8]) -> Step<RxJsonRpcMessage<R>> {
        let line = trim(line);
        if line.is_empty() {
            return Step::Ignore;
        }
        let kept = match self.peer {
            PeerEnd::Server => execution::kept(line),
            PeerEnd::Client => None,
        };
        let line = kept.as_deref().unwrap_or(line);
        let first = match Self::read(line) {
            Ok(message) => return self.deliver(message),
            Err(error) => error,
        };
        if line.first() == Some(&b'[')
            && let Ok(members) = serde_json::from_slice::<Vec<Value>>(line)
            && !members.is_empty()
        {
            return Step::Batch(
                members
                    .iter()
                    .map(|member| member.to_string().into_bytes())
                    .collect(),
            );
        }
        let salvage = salvage(line);
        let well_formed = !matches!(
            first.classify(),
            serde_json::error::Category::Syntax | serde_json::error::Category::Eof
        );
        tracing::debug!(error = %first, "a line is no JSON-RPC message");
        match (self.peer, well_formed) {
            (_, true) if salvage.method && !salvage.has_id => Step::Ignore,
            (PeerEnd::Client, true) => answer(
                salvage.id,
                ErrorCode::INVALID_REQUEST,
                "Invalid request: this is JSON, but no JSON-RPC 2.0 request; send an object with jsonrpc, id, method and params.",
            ),
            (PeerEnd::Client, false) if matches!(line.first(), Some(b'{' | b'[')) => answer(
                salvage.id,
                ErrorCode::PARSE_ERROR,
                "Parse error: the line is no valid JSON; send one message a line.",
            ),
            (PeerEnd::Client, false) => self.bad(line),
            (PeerEnd::Server, _) => {
                self.failed_answer::<R>(line, salvage, "the server's answer is unreadable")
            }
        }
    }

    fn read<Rx: DeserializeOwned>(line: &[u8]) -> Result<Rx, serde_json::Error> {
        serde_json::from_slice(line).or_else(|error| match repair(line) {
            Some(repaired) => serde_json::from_slice(&repaired).map_err(|_| error),
            None => Err(error),
        })
    }

    fn judge_oversized<R: ServiceRole>(&self, line: &OversizedLine) -> Step<RxJsonRpcMessage<R>> {
        let salvage = line.salvage();
        let text = format!(
            "the message of {} bytes is longer than the limit of {} bytes (max_message_bytes)",
            line.bytes, line.limit
        );
        match self.peer {
            PeerEnd::Client if salvage.method && !salvage.has_id => Step::Ignore,
            PeerEnd::Client => answer(salvage.id, ErrorCode::INVALID_REQUEST, text),
            PeerEnd::Server => self.failed_answer::<R>(&line.head, salvage, &text),
        }
    }

    fn deliver<Rx>(&self, message: Rx) -> Step<Rx> {
        self.meter.good();
        Step::Deliver(message)
    }

    fn bad<Rx>(&self, line: &[u8]) -> Step<Rx> {
        self.meter.bad(line);
        Step::Bad
    }

    /// Turns an answer that cannot be read into a failure of the call that waits for it.
    fn failed_answer<R: ServiceRole>(
        &self,
        line: &[u8],
        salvage: Salvage,
        text: &str,
    ) -> Step<RxJsonRpcMessage<R>> {
        self.meter.bad(line);
        match salvage.id {
            Some(id) if !salvage.method => Step::Deliver(JsonRpcMessage::Error(JsonRpcError::new(
                Some(id),
                ErrorData::internal_error(text.to_owned(), None),
            ))),
            id @ Some(_) => answer(id, ErrorCode::INVALID_REQUEST, "Invalid request"),
            None => Step::Bad,
        }
    }
}

fn answer<Rx>(
    id: Option<RequestId>,
    code: ErrorCode,
    text: impl Into<std::borrow::Cow<'static, str>>,
) -> Step<Rx> {
    Step::Answer {
        id,
        error: ErrorData::new(code, text, None),
    }
}

/// Removes the line end, surrounding blanks and a byte order mark.
fn trim(line: &[u8]) -> &[u8] {
    let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
    line.trim_ascii()
}

enum Next {
    Line(Vec<u8>),
    Last(Vec<u8>),
    Oversized(OversizedLine),
    End,
}

impl Input {
    async fn next(&mut self) -> Next {
        if let Some(member) = self.batch.pop_front() {
            return Next::Line(member);
        }
        match self.lines.next().await {
            LineRead::Line(line) => Next::Line(line),
            LineRead::Last(line) => Next::Last(line),
            LineRead::Oversized(line) => Next::Oversized(line),
            LineRead::End => Next::End,
            LineRead::Failed(error) => {
                tracing::debug!(%error, "reading ended with an error");
                Next::End
            }
        }
    }
}

#[cfg(test)]
mod tests;
