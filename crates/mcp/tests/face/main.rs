//! The server face in both revisions, as raw JSON lines over pipes in memory.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]
// A `json!` at the call reads better than a reference to one.
#![allow(clippy::needless_pass_by_value)]

mod asking;
mod asking_clients;
mod calls;
mod ending;
mod opening;
mod resources;
mod routing;
mod support;
