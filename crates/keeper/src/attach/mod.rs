//! How faces reach the keeper of a home: one socket, one attach frame, then calls in both directions.
//!
//! The frame and everything after it are JSON-RPC 2.0, one message a line. Both ends call: the face asks for acts, the
//! keeper asks the face for what only the face has (a person's answer, a variable). MCP is spoken at the edges, by the
//! stdio face and over HTTP; here travel whole outcomes, which is what a shell needs too.

mod calls;
mod desk;
mod find;
mod frame;
mod link;
mod listen;
mod peer;
mod remote;
mod session;

pub use self::desk::{Desk, Explanation, HttpAsk, HttpReady, OpenForm};
pub use self::find::{FindError, Found, Launch, find};
pub use self::frame::{Attach, Build, PROTOCOL, Role, Welcome};
pub use self::listen::{Doorway, Idle, ListenError, listen};
pub use self::peer::Peer;
pub use self::remote::{Remote, RemoteParts};
