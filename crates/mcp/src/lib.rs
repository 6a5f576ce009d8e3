//! The Model Context Protocol in both directions; the only crate that knows rmcp.
//!
//! [`serve`] offers the five verbs to any MCP client over a pair of byte streams, [`HttpFace`] over streamable HTTP.
//! [`StdioServer`] makes a configured MCP server a source of tools.

mod face;
mod http;
mod lines;
mod server;

pub use face::{FaceEnd, FaceLimits, FaceOptions, LazyVerbs, serve};
pub use http::{HttpBody, HttpCaller, HttpFace, HttpLimits, HttpService};
pub use lines::{FACE_MESSAGE_BYTES, LineReport, SERVER_MESSAGE_BYTES};
pub use server::{
    DEPTH_VARIABLE, LaunchFailure, LaunchSpec, Launched, MAX_DEPTH, ResourceRead, ServerConfig, ServerError,
    ServerLauncher, ServerLimits, ServerProcess, ServerRuntime, Share, SpawnerLauncher, StdioServer,
    ToolTrust,
};
