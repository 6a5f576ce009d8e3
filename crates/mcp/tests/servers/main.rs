//! Connected servers as real processes, well and badly behaved.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod calls;
mod lifecycle;
mod manifests;
mod people;
mod results;
mod support;
