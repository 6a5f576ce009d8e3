//! The one way in.

use async_trait::async_trait;
use pentad_model::{Invocation, Outcome};

use crate::attend::Attendance;

/// Whoever executes verbs: the engine, or a connection to one.
#[async_trait]
pub trait Verbs: Send + Sync {
    /// Executes one invocation to its end. Refusals and failures are outcomes; it never panics and never hangs past
    /// the invocation's deadline plus the time that ending its processes takes.
    async fn invoke(&self, invocation: Invocation, attendance: Attendance) -> Outcome;
}
