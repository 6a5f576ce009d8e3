//! Fixtures for tests: servers, witnesses, process trees, kill harness.

pub mod binaries;
pub mod client;
pub mod conformance;
pub mod process;
