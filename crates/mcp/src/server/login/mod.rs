//! Logging in to servers: OAuth as the protocol profiles it.
//!
//! A run never logs in: it meets a refusal that names the command with which a person does ([`Login`]). What comes of a
//! login lies in a [`TokenStore`], bound to the server's URL; the [`Authorizer`] of a connection takes tokens from there
//! and renews them.

mod authorizer;
mod flow;
mod kept;
mod listener;
mod need;

pub use self::authorizer::Authorizer;
pub use self::flow::{Login, LoginError, LoginResult};
pub use self::kept::{KeptLogin, NoTokens, TokenStore, TokenStoreError};
pub use self::listener::{LoopbackRedirect, RedirectError};
pub use self::need::{LoginBoard, LoginNeed};
