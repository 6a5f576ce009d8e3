//! The seams of Pentad: traits that the engine and what it runs agree on.
//!
//! Whoever offers tools implements [`ToolSource`]; whoever keeps the journal implements [`Store`]; whoever lets people
//! or programs in calls [`Verbs`]. Nothing here does anything by itself.

pub mod attend;
pub mod author;
pub mod program;
pub mod run_control;
pub mod run_store;
pub mod source;
pub mod store;
pub mod verbs;

pub use attend::{Answer, Asker, Attendance, Environment, Progress, ProgressSink};
pub use author::{Authored, ToolAuthor};
pub use program::{
    Act, ActFailure, ActFuture, Attempt, Child, ChildEnd, Context, Ending, Failure, Invoke, Pending, Program,
    StepSpec,
};
pub use run_control::RunControl;
pub use run_store::{
    Advance, Advanced, Canceling, Delivery, Executor, Retired, RunCounts, RunStore, Settled, Settlement,
    StepPage, Wait, WaitFor,
};
pub use source::{
    Content, Diagnostic, Readiness, Severity, SourceStatus, StreamCapture, ToolCall, ToolFailure, ToolOutput,
    ToolSource,
};
pub use store::{
    ActivityFilter, ApprovalFilter, Attachment, BlobRef, Durability, EventPage, EventRange, NewRun,
    NewThread, RunChange, RunFilter, Store, StoreError, ThreadFilter, ThreadHit,
};
pub use verbs::Verbs;
