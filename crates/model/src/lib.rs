//! The words of Pentad: addresses, verbs, outcomes, refusals, actors, events, grants, ids. No I/O, no async.
//!
//! Everything here is plain data that parses once at the edge: inside, only these types travel.

pub mod actor;
pub mod address;
pub mod approval;
pub mod canonical;
pub mod contract;
pub mod event;
pub mod form;
pub mod grant;
pub mod id;
pub mod invocation;
pub mod options;
pub mod outcome;
pub mod plan;
pub mod refusal;
pub mod run;
pub mod select;
pub mod step;
pub mod text;
pub mod thread;
pub mod time;
pub mod tool;
pub mod verb;

pub use actor::{Actor, Caller, Name};
pub use address::Address;
pub use event::{Event, EventBody};
pub use form::{Form, FormAnswer};
pub use grant::{Grant, GrantSet};
pub use id::{ApprovalId, CallId, FormId, Id, IdEnding, RunId, ThreadId};
pub use invocation::Invocation;
pub use outcome::{Outcome, Part, Status};
pub use refusal::{Refusal, RefusalKind};
pub use time::Timestamp;
pub use tool::{ToolDocument, ToolRef};
pub use verb::Verb;
