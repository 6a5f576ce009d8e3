//! Children: spawner, wardens, limits, bounded capture with spill.
//!
//! Every command runs under a *warden*, a small process that ends and reaps the command's whole tree when it
//! is told to, when the wall limit is reached, and when its client or its spawner is gone in whatever way.
//! Wardens are forked by one single-threaded *spawner*, so that no multi-threaded process ever forks.
//!
//! ```text
//! client (async) ──main socket──▶ spawner ──fork──▶ warden ──fork, exec──▶ command ─▶ …
//!    └──────────────── control socket of one tree ────┘
//! ```
//!
//! | who dies | what ends the tree |
//! |---|---|
//! | client | both the warden's and the spawner's socket end |
//! | spawner | parent-death signal and the end of the spawner's pipe, in every warden |
//! | client and spawner | any of the above |
//! | warden | the command gets SIGKILL (parent death); the spawner, as subreaper, kills the rest |
//! | warden and spawner | the client, as subreaper, kills the rest |
//! | all three | the sweep at the next start, by pid, start time, boot id and `PENTAD_RUN` |
//!
//! On Unix systems without subreapers and parent-death signals a tree is its process group; see
//! `host::tree` and `host::death`.

mod adopt;
mod capture;
mod channel;
mod child;
mod command;
mod environment;
mod error;
mod host;
#[cfg(target_os = "linux")]
mod ledger;
mod marker;
mod run;
mod spawner;
#[cfg(target_os = "linux")]
mod sweep;
mod wire;

pub use capture::{CaptureLimits, Captured, capture, capture_until};
pub use child::{Child, ChildOutput, ChildStdin};
pub use command::{CommandExit, CommandSpec, EndedBy, Exit, Limits, MAX_ARGUMENT_BYTES, Stdio, Word};
pub use environment::{clean_env, passes_always};
pub use error::{LaunchError, SpawnError};
pub use host::spawner_main;
pub use marker::{LEAVES_VARIABLE, RUN_VARIABLE};
pub use run::{Finished, Limit, OutputLimits, run_to_end};
pub use spawner::{ShutdownEnd, Spawner, SpawnerProgram};
#[cfg(target_os = "linux")]
pub use sweep::{Leftover, sweep};
