//! The life of one slot of a server, for a process or a session: stopped, starting once for all callers, live.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use pentad_model::{Refusal, RefusalKind};
use pentad_program::Readiness;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::connection::{Connection, Lease};
use super::start::{StartFailure, Strain, start};
use super::supervise::supervise;
use super::variant::Variant;

/// The longest pause between two starts.
const MAX_BACKOFF: Duration = Duration::from_secs(5 * 60);
/// A process that lived this long was no failed start, even if nobody called it.
const SETTLED: Duration = Duration::from_secs(10);
/// How often a call may meet a connection that is just ending before it gives up.
const ATTEMPTS: usize = 4;

type StartDone = Shared<BoxFuture<'static, Result<(), StartFailure>>>;

/// One process slot.
pub struct Instance {
    pub variant: Arc<Variant>,
    cwd: PathBuf,
    state: Mutex<State>,
}

struct State {
    phase: Phase,
    failures: u32,
    retry_at: Option<Instant>,
    error: Option<String>,
    disabled: bool,
}

enum Phase {
    Stopped,
    Starting { since: Instant, done: StartDone },
    Live(Arc<Connection>),
}

enum Next {
    Leased(Lease),
    Wait(StartDone),
    Refuse(Refusal),
}

impl Instance {
    pub fn new(variant: Arc<Variant>, cwd: PathBuf) -> Arc<Self> {
        let state = State {
            phase: Phase::Stopped,
            failures: 0,
            retry_at: None,
            error: None,
            disabled: false,
        };
        Arc::new(Self {
            variant,
            cwd,
            state: Mutex::new(state),
        })
    }

    /// Returns a lease on the live process, starting one if there is none.
    ///
    /// Dropping the future never ends a start: others may wait for the same one.
    ///
    /// # Errors
    /// Refuses while backing off, when disabled, and when the start failed.
    pub async fn lease(self: &Arc<Self>) -> Result<Lease, Refusal> {
        for _ in 0..ATTEMPTS {
            match self.next() {
                Next::Leased(lease) => return Ok(lease),
                Next::Refuse(refusal) => return Err(refusal),
                Next::Wait(done) => done
                    .await
                    .map_err(|failure| failure.refusal(&self.variant.config.name))?,
            }
        }
        Err(self.unavailable(format!(
            "server '{}' ends as soon as it has started",
            self.variant.config.name
        )))
    }

    fn next(self: &Arc<Self>) -> Next {
        let mut state = self.lock();
        if let Phase::Live(connection) = &state.phase {
            if let Some(lease) = connection.lease() {
                return Next::Leased(lease);
            }
            let connection = Arc::clone(connection);
            self.leave(&mut state, &connection);
        }
        if let Phase::Starting { done, .. } = &state.phase {
            return Next::Wait(done.clone());
        }
        if let Some(refusal) = self.held_back(&state) {
            return Next::Refuse(refusal);
        }
        let (finished, outcome) = oneshot::channel();
        let done: StartDone = outcome
            .map(|outcome| {
                outcome.unwrap_or_else(|_| Err(StartFailure::new("the start was abandoned".to_owned())))
            })
            .boxed()
            .shared();
        state.phase = Phase::Starting {
            since: Instant::now(),
            done: done.clone(),
        };
        let instance = Arc::clone(self);
        self.variant.tasks.spawn(async move {
            let outcome = instance.run_start().await;
            // Nobody may be waiting any more.
            let _ = finished.send(outcome);
        });
        Next::Wait(done)
    }

    async fn run_start(self: &Arc<Self>) -> Result<(), StartFailure> {
        match start(&self.variant, self.cwd.clone()).await {
            Ok(started) => {
                let connection = Arc::clone(&started.connection);
                self.lock().phase = Phase::Live(connection);
                self.variant.tasks.spawn(supervise(Arc::clone(self), started));
                Ok(())
            }
            Err(failure) => {
                tracing::warn!(server = %self.variant.config.name, error = %failure.text, "a server could not be started");
                let mut state = self.lock();
                state.phase = Phase::Stopped;
                match failure.strain {
                    Strain::Free => state.error = Some(failure.text.clone()),
                    Strain::Counts => state.fail(&self.variant, failure.text.clone(), 0),
                    Strain::Pause(asked) => {
                        state.fail(&self.variant, failure.text.clone(), 0);
                        let asked = Instant::now() + asked.min(MAX_BACKOFF);
                        state.retry_at = state.retry_at.max(Some(asked));
                    }
                }
                Err(failure)
            }
        }
    }

    fn held_back(&self, state: &State) -> Option<Refusal> {
        let name = &self.variant.config.name;
        let error = state.error.as_deref().unwrap_or("unknown");
        if self.variant.shutdown.is_cancelled() {
            return Some(self.unavailable(format!("server '{name}' is being shut down")));
        }
        if state.disabled {
            let text = format!(
                "server '{name}' is disabled after {} failures in a row; the last: {error}",
                state.failures
            );
            return Some(self.unavailable(text).next_step(format!(
                "a person mends what is wrong, then runs pentad connect {name} --again"
            )));
        }
        let wait = state.pause()?;
        let text = format!(
            "server '{name}' failed and is tried again in {:.1} s; the last error: {error}",
            wait.as_secs_f64()
        );
        Some(self.unavailable(text).next_step("repeat the call later"))
    }

    fn unavailable(&self, text: String) -> Refusal {
        Refusal::new(RefusalKind::Unavailable, &self.variant.config.name, text)
    }

    /// Takes note that `connection` has ended; whoever notices first counts it.
    pub fn ended(&self, connection: &Arc<Connection>) {
        let mut state = self.lock();
        self.leave(&mut state, connection);
    }

    /// Adds how a process ended to what a person sees.
    pub fn explain(&self, how: &str) {
        self.lock().error = Some(how.to_owned());
    }

    fn leave(&self, state: &mut State, connection: &Arc<Connection>) {
        if !matches!(&state.phase, Phase::Live(live) if Arc::ptr_eq(live, connection)) {
            return;
        }
        state.phase = Phase::Stopped;
        let settled =
            connection.served.load(Ordering::Relaxed) > 0 || connection.started.elapsed() >= SETTLED;
        if connection.orderly.load(Ordering::Relaxed) || settled {
            state.failures = 0;
            state.retry_at = None;
        } else {
            // A call on a dead connection may start the server at once, once.
            let name = &self.variant.config.name;
            state.fail(
                &self.variant,
                format!("server '{name}' ended before it had answered a call"),
                1,
            );
        }
    }

    /// Lets a server that failed too often be tried again.
    pub fn enable(&self) {
        let mut state = self.lock();
        state.disabled = false;
        state.failures = 0;
        state.retry_at = None;
    }

    /// Tells whether nothing of it is alive, and nothing about it has to be remembered.
    pub fn is_resting(&self) -> bool {
        let state = self.lock();
        matches!(state.phase, Phase::Stopped) && !state.is_held_back()
    }

    /// Tells whether it is not tried because it failed.
    pub fn is_held_back(&self) -> bool {
        let state = self.lock();
        matches!(state.phase, Phase::Stopped) && state.is_held_back()
    }

    /// Tells whether something of it is alive, or about to be.
    pub fn is_alive(&self) -> bool {
        !matches!(self.lock().phase, Phase::Stopped)
    }

    /// Returns the live connection, if any.
    pub fn live(&self) -> Option<Arc<Connection>> {
        match &self.lock().phase {
            Phase::Live(connection) => Some(Arc::clone(connection)),
            _ => None,
        }
    }

    /// Returns where it stands, and the last error.
    pub fn readiness(&self) -> (Readiness, Option<String>) {
        let state = self.lock();
        let error = || state.error.clone().unwrap_or_default();
        let readiness = match &state.phase {
            Phase::Live(_) => Readiness::Ready,
            Phase::Starting { since, .. } => Readiness::Starting {
                elapsed_ms: millis(since.elapsed()),
            },
            Phase::Stopped if state.disabled => Readiness::Disabled { error: error() },
            Phase::Stopped => match state.pause() {
                Some(wait) => Readiness::BackingOff {
                    retry_in_ms: millis(wait),
                    error: error(),
                },
                _ if self.variant.manifest().is_some() => Readiness::Indexed,
                _ => Readiness::Configured,
            },
        };
        (readiness, state.error.clone())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns how long it is not tried again, if it is to be tried at all.
    fn pause(&self) -> Option<Duration> {
        let wait = self.retry_at?.checked_duration_since(Instant::now())?;
        (!wait.is_zero()).then_some(wait)
    }

    fn is_held_back(&self) -> bool {
        self.disabled || self.pause().is_some()
    }

    /// Counts a failure; the first `free` ones in a row cost no pause.
    fn fail(&mut self, variant: &Variant, error: String, free: u32) {
        let limits = &variant.config.limits;
        self.failures += 1;
        self.error = Some(error);
        self.disabled = self.failures >= limits.max_failures;
        let doublings = self.failures.checked_sub(1 + free);
        let pause = doublings.map(|doublings| {
            limits
                .first_backoff
                .saturating_mul(2_u32.saturating_pow(doublings))
                .min(MAX_BACKOFF)
        });
        self.retry_at = pause.map(|pause| Instant::now() + pause);
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
