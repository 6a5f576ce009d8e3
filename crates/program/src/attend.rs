//! What accompanies an act while it runs: cancellation and progress.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// One report of progress.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// How much is done, in the source's own unit.
    pub done: f64,
    /// How much there is, when known.
    pub total: Option<f64>,
    /// A line for a person, bounded by the sender.
    pub message: Option<String>,
}

/// Takes reports of progress; a full channel drops them, since the next one supersedes.
#[derive(Debug, Clone, Default)]
pub struct ProgressSink(Option<Arc<mpsc::Sender<Progress>>>);

impl ProgressSink {
    /// Returns a sink that ignores everything.
    #[must_use]
    pub const fn none() -> Self {
        Self(None)
    }

    /// Returns a sink and the receiver of what it takes; `capacity` reports may wait.
    #[must_use]
    pub fn channel(capacity: usize) -> (Self, mpsc::Receiver<Progress>) {
        let (sender, receiver) = mpsc::channel(capacity.max(1));
        (Self(Some(Arc::new(sender))), receiver)
    }

    /// Reports, without waiting.
    pub fn report(&self, progress: Progress) {
        if let Some(sender) = &self.0 {
            // A full channel only means that the listener is behind; the next report carries the newer state.
            let _ = sender.try_send(progress);
        }
    }

    /// Tells whether anybody listens.
    #[must_use]
    pub fn is_heard(&self) -> bool {
        self.0.as_ref().is_some_and(|sender| !sender.is_closed())
    }
}

/// What accompanies an invocation.
#[derive(Debug, Clone, Default)]
pub struct Attendance {
    /// Ends the act, and every process it started, when cancelled.
    pub cancel: CancellationToken,
    /// Hears of progress.
    pub progress: ProgressSink,
}
