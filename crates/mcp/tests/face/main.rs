//! The server face in both revisions, as raw JSON lines over pipes in memory.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod calls;
mod ending;
mod opening;
mod support;
