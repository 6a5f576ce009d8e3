//! Durable runs over a real journal.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod cancel;
mod damage;
mod life;
mod limits;
mod support;
mod waits;
