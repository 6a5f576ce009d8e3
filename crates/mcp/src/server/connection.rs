//! One live connection to a server: its calls, its end.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pentad_model::Refusal;
use rmcp::RoleClient;
use rmcp::model::{ClientRequest, RequestMetaObject, ServerResult};
use rmcp::service::{Peer, PeerRequestOptions, RequestHandle, ServiceError};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::client::capabilities;
use super::core::Core;
use super::party::Party;
use super::pause::Pauses;
use super::routes::{Presence, ProgressRoute, Routes};
use super::wire::Wire;

/// How long telling a server about a cancellation may take.
const CANCEL_LIMIT: Duration = Duration::from_secs(1);

/// An open connection. Whoever calls holds a [`Lease`]; without one it may be closed.
pub struct Connection {
    pub peer: Peer<RoleClient>,
    pub wire: Wire,
    pub routes: Arc<Routes>,
    pub started: Instant,
    /// Ends the service loop, and with it the pipes.
    pub loop_end: CancellationToken,
    /// Set once the connection is no longer usable.
    pub gone: CancellationToken,
    /// Calls that were answered.
    pub served: AtomicU64,
    /// Whether we ended it, so that its end is no failure.
    pub orderly: AtomicBool,
    use_: Mutex<Use>,
}

struct Use {
    leases: usize,
    closing: bool,
    last: Instant,
}

/// Keeps a connection from being closed as idle.
pub struct Lease {
    connection: Arc<Connection>,
}

/// The limits of one call.
#[derive(Debug, Clone, Copy)]
pub struct CallLimits {
    /// Longest silence.
    pub idle: Duration,
    /// When to give up in any case, and the limit that this is.
    pub until: Instant,
    pub total: Duration,
}

/// Why a call has no output.
#[derive(Debug)]
pub enum CallEnd {
    /// The request did not reach the server.
    NotSent,
    /// It was sent, and the connection ended before an answer came; with what was seen of the end.
    Lost(Option<String>),
    /// It was cancelled; the server was told.
    Canceled,
    /// It was silent or took too long; the server was told.
    TimedOut { limit: String },
    /// The server answered with an error.
    Failed(String),
    /// The server did not take it, and something can be done about that.
    Refused(Box<Refusal>),
}

impl Connection {
    pub fn new(peer: Peer<RoleClient>, wire: Wire, routes: Arc<Routes>, loop_end: CancellationToken) -> Self {
        let now = Instant::now();
        Self {
            peer,
            wire,
            routes,
            started: now,
            loop_end,
            gone: CancellationToken::new(),
            served: AtomicU64::new(0),
            orderly: AtomicBool::new(false),
            use_: Mutex::new(Use {
                leases: 0,
                closing: false,
                last: now,
            }),
        }
    }

    /// Returns a lease, unless the connection is closing or gone.
    pub fn lease(self: &Arc<Self>) -> Option<Lease> {
        let mut use_ = self.lock();
        if use_.closing || self.gone.is_cancelled() || self.peer.is_transport_closed() {
            return None;
        }
        use_.leases += 1;
        Some(Lease {
            connection: Arc::clone(self),
        })
    }

    /// Marks the connection as closing if nobody has used it for `idle`; else says when to look again.
    pub fn close_if_idle(&self, idle: Duration) -> Result<(), Instant> {
        let mut use_ = self.lock();
        let now = Instant::now();
        if use_.leases > 0 {
            return Err(now + idle);
        }
        if now < use_.last + idle {
            return Err(use_.last + idle);
        }
        use_.closing = true;
        self.orderly.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Refuses further leases.
    pub fn close(&self) {
        self.lock().closing = true;
        self.gone.cancel();
    }

    /// Returns what accompanies one request. Where each says what can be done for it, one behind which nobody can be
    /// asked says so, and the server does without.
    fn options(&self, core: &Core, party: Party<'_>) -> PeerRequestOptions {
        let info = self.peer.peer_info();
        let says_each_time = info.is_some_and(|info| !info.protocol_version.has_initialize());
        let mut options = PeerRequestOptions::no_options();
        if says_each_time && core.runtime.elicitor.is_some() && party.attendance.asker.is_none() {
            let mut meta = RequestMetaObject::default();
            meta.set_client_capabilities(capabilities(false));
            options.meta = Some(meta);
        }
        options
    }

    /// Says how the connection ended; the end of a process may take `limit` to be seen.
    pub async fn how_it_ended(&self, limit: Duration) -> String {
        let closed = || "its connection closed".to_owned();
        match &self.wire {
            Wire::Pipes(_) => timeout(limit, self.wire.ended())
                .await
                .unwrap_or_else(|_| closed()),
            Wire::Http(_) => closed(),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Use> {
        self.use_.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut use_ = self.connection.lock();
        use_.leases -= 1;
        use_.last = Instant::now();
    }
}

impl Lease {
    /// Returns the connection.
    pub fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// Sends one request and waits for its answer within the limits.
    pub async fn request(
        &self,
        core: &Core,
        request: ClientRequest,
        limits: CallLimits,
        party: Party<'_>,
    ) -> Result<ServerResult, CallEnd> {
        let mut presence = self.connection.routes.enter(party);
        let answer = self.send(core, request, limits, party, &presence).await;
        self.keep_log(core, party, &mut presence).await;
        answer
    }

    /// Sends one request of a call that is in flight already.
    pub async fn send(
        &self,
        core: &Core,
        request: ClientRequest,
        limits: CallLimits,
        party: Party<'_>,
        presence: &Presence,
    ) -> Result<ServerResult, CallEnd> {
        let connection = &self.connection;
        let sent = connection
            .peer
            .send_request_with_option(request, connection.options(core, party));
        let handle = tokio::select! {
            sent = sent => sent.map_err(|_| CallEnd::NotSent)?,
            () = connection.gone.cancelled() => return Err(CallEnd::NotSent),
        };
        let id = handle.id.clone();
        let token = handle.progress_token.clone();
        let mut route = connection.routes.watch(token);
        let answer = wait(handle, limits, party, &mut route, presence.pauses()).await;
        drop(route);
        // A connection may end between the taking of a request and its writing.
        let fate = connection.wire.take_fate(&id);
        let answer = answer.map_err(|end| connection.wire.judged(core, end, fate))?;
        connection.served.fetch_add(1, Ordering::Relaxed);
        Ok(answer)
    }

    /// Keeps what the server said during a call in the journal of its run.
    pub async fn keep_log(&self, core: &Core, party: Party<'_>, presence: &mut Presence) {
        let (Some(log), Some(origin)) = (&core.runtime.log, party.origin) else {
            return;
        };
        self.connection.wire.catch_up().await;
        // A line that came before the answer is handed over by a task of its own, which goes first when this one steps
        // back.
        tokio::task::yield_now().await;
        let lines = presence.take_lines();
        if !lines.is_empty() {
            log.keep(&core.config.name, origin, lines).await;
        }
    }
}

async fn wait(
    mut handle: RequestHandle<RoleClient>,
    limits: CallLimits,
    party: Party<'_>,
    route: &mut ProgressRoute,
    pauses: &Pauses,
) -> Result<ServerResult, CallEnd> {
    let attendance = party.attendance;
    let mut silent_until = Instant::now() + limits.idle;
    loop {
        tokio::select! {
            biased;
            answer = &mut handle.rx => return match answer {
                Ok(Ok(result)) => Ok(result),
                Ok(Err(error)) => Err(failure(error)),
                Err(_) => Err(CallEnd::Lost(None)),
            },
            () = attendance.cancel.cancelled() => {
                tell(handle, "the caller cancelled the call").await;
                return Err(CallEnd::Canceled);
            }
            () = sleep_until(limits.until) => {
                tell(handle, "the call reached its limit").await;
                return Err(CallEnd::TimedOut { limit: format!("call limit {} s", seconds(limits.total)) });
            }
            () = sleep_until(silent_until) => {
                if let Some(until) = pauses.excuse(Instant::now(), limits.idle) {
                    silent_until = until;
                    continue;
                }
                tell(handle, "the call was silent for too long").await;
                return Err(CallEnd::TimedOut { limit: format!("limit of {} s without progress", seconds(limits.idle)) });
            }
            report = route.reports.recv() => if let Some(report) = report {
                silent_until = Instant::now() + limits.idle;
                attendance.progress.report(report);
            },
        }
    }
}

/// Sends `notifications/cancelled` for this request only; others on the same server go on.
async fn tell(handle: RequestHandle<RoleClient>, reason: &str) {
    let told = timeout(CANCEL_LIMIT, handle.cancel(Some(reason.to_owned()))).await;
    if !matches!(told, Ok(Ok(()))) {
        tracing::debug!("the server could not be told about a cancellation");
    }
}

fn failure(error: ServiceError) -> CallEnd {
    match error {
        ServiceError::McpError(error) => CallEnd::Failed(format!(
            "the server answered with error {}: {}",
            error.code.0, error.message
        )),
        // The wire knows better how far it came.
        ServiceError::TransportSend(_) => CallEnd::NotSent,
        ServiceError::TransportClosed => CallEnd::Lost(None),
        ServiceError::Cancelled { .. } => CallEnd::Canceled,
        other => CallEnd::Failed(other.to_string()),
    }
}

fn seconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1000.0).round() / 1000.0
}
