//! Connected MCP servers as sources of tools.
//!
//! A server is *configured* → *indexed* (its manifest is on disk) → *started* by the first call → stopped when idle.
//! Its tools are found from the manifest in every state; nothing waits for a server but a call of its tools.

mod acting;
mod client;
mod config;
mod connection;
mod core;
mod document;
mod elicit;
mod endpoint;
mod fingerprint;
mod guard;
mod http;
mod instance;
mod launch;
mod listing;
mod log;
mod login;
mod manifest;
mod offers;
mod opening;
mod output;
mod party;
mod pause;
mod pipes;
mod process;
mod rounds;
mod routes;
mod source;
mod start;
mod stderr;
mod supervise;
mod task;
mod wire;

pub use self::acting::ResourceRead;
pub use self::config::{CommandLine, Reach, ServerConfig, ServerLimits, Share, ToolTrust};
pub use self::core::ServerRuntime;
pub use self::elicit::{Elicitor, Misfit, misfits};
pub use self::endpoint::{Endpoint, EndpointError, LoginSettings};
pub use self::guard::{DEPTH_VARIABLE, MAX_DEPTH};
pub use self::launch::{LaunchFailure, LaunchSpec, Launched, ServerLauncher, ServerProcess};
pub use self::log::{LogLine, LogStream, Origin, ServerLog};
pub use self::login::{
    DeviceLogin, DevicePrompt, KeptLogin, Login, LoginError, LoginResult, LoopbackRedirect, NoTokens,
    RedirectError, TokenStore, TokenStoreError,
};
pub use self::offers::{Asking, FilledPrompt, Offers, PromptArgument, PromptOffer, ResourceOffer};
pub use self::process::SpawnerLauncher;
pub use self::source::{ConnectedServer, ServerError};
