//! The Model Context Protocol in both directions; the only crate that knows rmcp.
//!
//! [`serve`] offers the five verbs to any MCP client over a pair of byte streams, [`HttpFace`] over streamable HTTP.
//! [`ConnectedServer`] makes a configured MCP server a source of tools, be it a process or a URL.

mod face;
mod http;
mod lines;
mod server;

pub use face::{FaceEnd, FaceLimits, FaceOptions, LazyVerbs, StateKey, serve};
pub use http::{HttpBody, HttpCaller, HttpFace, HttpLimits, HttpService};
pub use lines::{FACE_MESSAGE_BYTES, LineReport, SERVER_MESSAGE_BYTES};
pub use server::{
    Asking, CommandLine, ConnectedServer, DEPTH_VARIABLE, DeviceLogin, DevicePrompt, Elicitor, Endpoint,
    EndpointError, FilledPrompt, KeptLogin, LaunchFailure, LaunchSpec, Launched, LogLine, LogStream, Login,
    LoginError, LoginResult, LoginSettings, LoopbackRedirect, MAX_DEPTH, Misfit, NoTokens, Offers, Origin,
    PromptArgument, PromptOffer, Reach, RedirectError, ResourceOffer, ResourceRead, ServerConfig,
    ServerError, ServerLauncher, ServerLimits, ServerLog, ServerProcess, ServerRuntime, Share,
    SpawnerLauncher, TokenStore, TokenStoreError, ToolTrust, misfits,
};
