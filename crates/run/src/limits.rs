//! How much is executed at once, and how far a tree of runs may grow.

use std::time::Duration;

/// Limits of a runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Runs at work at once; others stay queued.
    pub active: usize,
    /// Runs that wait in memory at once, beside those at work; others are parked at once.
    pub resident: usize,
    /// How long a waiting run stays in memory.
    pub linger: Duration,
    /// Generations below a root.
    pub depth: u16,
    /// Children of one run, over all its time.
    pub children: u64,
    /// Runs of one tree that have not ended.
    pub tree: u64,
    /// Largest result that stands in a run's journal; a larger one is a blob.
    pub inline_bytes: usize,
    /// Largest result of one command.
    pub result_bytes: usize,
    /// Commands of one run; beyond them it must continue as new.
    pub commands: u32,
    /// How often an executor says that it lives.
    pub beat: Duration,
    /// How long another executor may be silent before its runs are taken over.
    pub lapse: Duration,
    /// How long acts may take to end when the process does.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            active: 64,
            resident: 256,
            linger: Duration::from_secs(30),
            depth: 8,
            children: 10_000,
            tree: 10_000,
            inline_bytes: 64 * 1024,
            result_bytes: 16 * 1024 * 1024,
            commands: 1_000_000,
            beat: Duration::from_secs(5),
            lapse: Duration::from_secs(30),
            grace: Duration::from_secs(5),
        }
    }
}
