//! The address families from the outside, over a journal in memory.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod durable;
mod files;
mod hostile;
mod journal;
mod memory;
mod pages;
mod runs;
mod runs_support;
mod ssrf;
mod support;
