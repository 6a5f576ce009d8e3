//! Logging in to servers: OAuth as the protocol profiles it.
//!
//! A run never logs in: it meets a refusal that names the command with which a person does ([`Login`]). What comes of a
//! login lies in a [`TokenStore`], bound to the server's URL; the [`Authorizer`] of a connection takes tokens from there
//! and renews them.

mod authorizer;
mod device;
mod discovery;
mod flow;
mod kept;
mod listener;
mod need;
mod outbound;
mod outcome;
mod registration;

pub use self::authorizer::Authorizer;
pub use self::device::{DeviceLogin, DevicePrompt};
pub use self::flow::Login;
pub use self::kept::{KeptLogin, NoTokens, TokenStore, TokenStoreError};
pub use self::listener::{LoopbackRedirect, RedirectError};
pub use self::need::{LoginBoard, LoginNeed};
pub use self::outcome::{LoginError, LoginResult};
