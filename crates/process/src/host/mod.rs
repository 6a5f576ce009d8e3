//! The single-threaded side: the spawner and its wardens.
//!
//! Nothing here knows an async runtime, takes a lock or starts a thread, so that a plain `fork` is safe and
//! a forked warden can go on in the same program.

pub(crate) mod death;
mod exec;
pub(crate) mod fds;
pub(crate) mod signals;
mod spawner;
pub(crate) mod sys;
pub(crate) mod tree;
mod warden;

pub use spawner::spawner_main;

use std::time::{Duration, Instant};

/// Returns a poll timeout until the nearest of these moments.
fn until(moments: impl IntoIterator<Item = Option<Instant>>) -> Option<rustix::event::Timespec> {
    let nearest = moments.into_iter().flatten().min()?;
    let left = nearest.saturating_duration_since(Instant::now());
    // Rounded up by a millisecond: waking early would only poll again.
    rustix::event::Timespec::try_from(left + Duration::from_millis(1)).ok()
}

/// Returns the moment after this time, or none when it lies beyond what the clock can hold.
fn after(time: Duration) -> Option<Instant> {
    Instant::now().checked_add(time)
}
