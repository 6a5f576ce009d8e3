//! What accompanies an act while it runs: cancellation, progress, questions, environment.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use pentad_model::approval::{Approval, Scope};
use pentad_model::{Form, FormAnswer};
use serde::{Deserialize, Serialize};
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

/// What whoever is behind a call says to an open approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Yes, for this scope.
    Granted(Scope),
    /// No.
    Denied,
    /// Nobody could be asked, or nobody answered in time: the approval stays open.
    Unanswered,
}

/// Puts questions before whoever is behind a call while it waits, as MCP's elicitation does: approvals, and forms of
/// connected servers.
#[async_trait]
pub trait Asker: Send + Sync + fmt::Debug {
    /// Asks; bounded by the asker's own limit and by the call's cancellation.
    async fn ask(&self, approval: &Approval) -> Answer;

    /// Tells whether silence is an answer for the other calls that wait for this approval: whoever can really ask says
    /// yes, and the person is asked once. One that only carries the question back to its own caller says no.
    fn reaches_a_person(&self) -> bool {
        true
    }

    /// Has a form filled in; bounded by the asker's own limit, and taken back when nobody waits for it any more.
    ///
    /// Whoever can show no forms says so at once: the server that asks waits for the answer.
    async fn fill(&self, form: &Form) -> FormAnswer {
        let _ = form;
        FormAnswer::unanswered("whoever called cannot be shown a form")
    }
}

/// The variables that a face sent for the commands of its calls. They live in memory and never reach the journal.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment(pub BTreeMap<OsString, OsString>);

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Names only: values may be secrets.
        f.debug_list().entries(self.0.keys()).finish()
    }
}

/// What accompanies an invocation.
#[derive(Debug, Clone, Default)]
pub struct Attendance {
    /// Ends the act, and every process it started, when cancelled.
    pub cancel: CancellationToken,
    /// Hears of progress.
    pub progress: ProgressSink,
    /// Puts approvals and forms before a person; without one, an act that must be asked for is refused with the
    /// approval's address, and a form is left unanswered.
    pub asker: Option<Arc<dyn Asker>>,
    /// The caller's own environment; without one, that of this process.
    pub environment: Option<Arc<Environment>>,
}
