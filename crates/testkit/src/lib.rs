//! Fixtures for tests: servers, witnesses, process trees, kill harness.

pub mod client;
pub mod process;
