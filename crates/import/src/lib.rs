//! Takes over the MCP servers that other clients configured.

pub mod client;
pub mod syntax;
