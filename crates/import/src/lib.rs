//! Takes over the MCP servers that other clients configured.
//!
//! [`plan::Planner`] reads a client's file and says what would become of each of its servers; [`apply::apply`] does it,
//! in an order in which a crash between any two steps leaves the client working; [`undo::undo`] puts the file back byte
//! for byte. Files of clients are full of keys: no type of this crate shows a value, in errors, plans or `Debug`.

pub mod apply;
pub mod client;
pub mod dialect;
pub mod entry;
pub mod file;
pub mod itself;
pub mod maps;
pub mod measure;
pub mod names;
pub mod plan;
pub mod record;
pub mod replace;
pub mod secrecy;
pub mod show;
pub mod syntax;
pub mod text;
pub mod undo;
pub mod vault;

pub use apply::{Applied, ApplyError, apply};
pub use client::{Client, Scope, Surroundings};
pub use file::{ClientFile, FileError};
pub use measure::{Payload, SchemaSize, ToolSchemas};
pub use plan::{Fate, Plan, PlanError, Planned, Planner};
pub use undo::{Insist, UndoError, Undone, undo, undo_path};
