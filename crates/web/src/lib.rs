//! The HTTP face: the one way in as JSON and as MCP, the journal as a stream, attachments.
//!
//! It translates and decides nothing. What it does by itself is to keep strangers out: Host and Origin are judged before
//! anything else, and every request below `/api` and `/mcp` needs a token that says who is calling.

mod answer;
mod attachments;
mod events;
mod face;
mod guard;
mod hosts;
mod invoke;
mod log;
mod mcp;
mod router;
mod serve;
mod tokens;

pub use self::attachments::Attachments;
pub use self::face::{Access, Face};
pub use self::hosts::Hosts;
pub use self::serve::{ServeError, listen, serve};
pub use self::tokens::{Bearer, Tokens};
