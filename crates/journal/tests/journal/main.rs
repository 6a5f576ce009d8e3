//! The journal as its callers see it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod approvals;
mod blobs;
mod chain;
mod disk;
mod durable;
mod durable_cancel;
mod durable_fence;
mod durable_kill;
mod durable_known;
mod durable_loss;
mod durable_model;
mod durable_plan;
mod durable_settle;
mod durable_steps;
mod durable_waits;
mod fixtures;
mod lists;
mod opening;
mod processes;
mod runs;
mod search;
