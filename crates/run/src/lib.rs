//! Durable runs: a program is executed, parked while it waits, resumed after a crash, and ended once.
//!
//! # How a run survives
//! A program asks for things through its [`pentad_program::Context`]; each is a *command* with a place. Whenever the
//! program waits, the commands that it issued are written in one transaction, synced where one of them has an effect, and
//! only then done. What comes of them is given to the program one completion at a time, whenever it waits, and written in
//! that order with whatever the program asks for next. So a program's execution is a function of its input and of the
//! recorded completions: resuming is executing it again over the record (`resume`), and what it asks for is compared with
//! what is recorded (`replay`).
//!
//! An act that was begun and not completed is done again when it is safe or keyed, and told to the program otherwise.
//!
//! # Where a run is
//! Queued: in the journal. At work: in memory, with one of a limited number of places. Waiting: in memory for a while,
//! then in the journal alone. [`Runtime`] moves it.

mod acts;
mod admit;
mod batch;
mod budget;
mod clock;
mod commit;
mod context;
mod control;
mod core;
mod drive;
mod limits;
pub mod programs;
mod random;
mod replay;
mod resident;
mod resume;
mod runtime;
mod settle;

pub use self::acts::Invoker;
pub use self::clock::{Clock, SystemClock};
pub use self::limits::Limits;
pub use self::runtime::{Runtime, RuntimeParts, Takes};
