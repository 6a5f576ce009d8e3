//! Counts the lines of a connection that could not be read.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

/// How many unreadable bytes may come between two readable messages.
const FLOOD_BYTES: u64 = 64 << 20;
/// How many unreadable lines may come between two readable messages.
const FLOOD_LINES: u64 = 200_000;
/// How many unreadable lines are kept to show.
const SAMPLES: usize = 8;
/// How many bytes of each are kept.
const SAMPLE_BYTES: usize = 200;

/// What a connection skipped, for a person to read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LineReport {
    /// Lines that were no message.
    pub skipped: u64,
    /// The first of them, cut and with control characters shown.
    pub samples: Vec<String>,
    /// Whether the peer was given up because it wrote nothing else.
    pub flooded: bool,
}

/// The counters behind a [`LineReport`].
#[derive(Debug, Default)]
pub struct LineMeter {
    skipped: AtomicU64,
    lines_since_good: AtomicU64,
    bytes_since_good: AtomicU64,
    samples: Mutex<Vec<String>>,
}

impl LineMeter {
    /// Notes a readable message.
    pub fn good(&self) {
        self.lines_since_good.store(0, Ordering::Relaxed);
        self.bytes_since_good.store(0, Ordering::Relaxed);
    }

    /// Notes an unreadable line.
    pub fn bad(&self, line: &[u8]) {
        self.skipped.fetch_add(1, Ordering::Relaxed);
        self.lines_since_good.fetch_add(1, Ordering::Relaxed);
        self.bytes_since_good
            .fetch_add(line.len() as u64, Ordering::Relaxed);
        let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        if samples.len() < SAMPLES {
            let cut = line.get(..line.len().min(SAMPLE_BYTES)).unwrap_or_default();
            samples.push(String::from_utf8_lossy(cut).escape_debug().to_string());
        }
    }

    /// Tells whether the peer has written too much that is no message.
    pub fn is_flooded(&self) -> bool {
        self.lines_since_good.load(Ordering::Relaxed) > FLOOD_LINES
            || self.bytes_since_good.load(Ordering::Relaxed) > FLOOD_BYTES
    }

    /// Returns the counters as they stand.
    pub fn report(&self) -> LineReport {
        LineReport {
            skipped: self.skipped.load(Ordering::Relaxed),
            samples: self
                .samples
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone(),
            flooded: self.is_flooded(),
        }
    }
}
