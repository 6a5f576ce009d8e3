//! Takes over the MCP servers that other clients configured.

pub mod client;
pub mod dialect;
pub mod itself;
pub mod secrecy;
pub mod syntax;
pub mod text;
pub mod file;
pub mod maps;
pub mod names;
pub mod entry;
pub mod vault;
