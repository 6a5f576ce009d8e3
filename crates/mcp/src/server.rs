//! Connected MCP servers as sources of tools.
//!
//! A server is *configured* → *indexed* (its manifest is on disk) → *started* by the first call → stopped when idle.
//! Its tools are found from the manifest in every state; nothing waits for a server but a call of its tools.

mod acting;
mod config;
mod connection;
mod core;
mod document;
mod fingerprint;
mod guard;
mod instance;
mod launch;
mod listing;
mod manifest;
mod opening;
mod output;
mod process;
mod routes;
mod start;
mod stderr;
mod stdio;
mod supervise;
mod task;

pub use self::acting::ResourceRead;
pub use self::config::{ServerConfig, ServerLimits, Share, ToolTrust};
pub use self::core::ServerRuntime;
pub use self::guard::{DEPTH_VARIABLE, MAX_DEPTH};
pub use self::launch::{LaunchFailure, LaunchSpec, Launched, ServerLauncher, ServerProcess};
pub use self::process::SpawnerLauncher;
pub use self::stdio::{ServerError, StdioServer};
