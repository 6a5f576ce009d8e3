//! How pages are fetched: limits, look-up, extra resolvers.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pentad_model::Refusal;
use pentad_model::options::Options;
use pentad_model::outcome::Product;
use url::Url;

use super::resolve::{HostResolver, SystemResolver};
use crate::scene::Scene;

/// Reads addresses of the web that it knows better than the plain reader, for example a wiki or hypermedia.
#[async_trait]
pub trait PageResolver: Send + Sync {
    /// Reads `url`, or returns `None` when it is not one of its own; the next resolver is asked then.
    ///
    /// # Errors
    /// Refuses when the page is its own and cannot be read; no other resolver is asked.
    async fn resolve(&self, scene: &Scene, url: &Url, options: &Options) -> Result<Option<Product>, Refusal>;
}

/// How pages are fetched.
#[derive(Clone)]
pub struct WebPolicy {
    /// Limit of looking a name up, connecting and the handshake.
    pub connect_limit: Duration,
    /// Limit of one page, redirects and body included.
    pub page_limit: Duration,
    /// Limit of turning a page into Markdown.
    pub convert_limit: Duration,
    /// Limit of waiting for the next bytes of a download.
    pub stall_limit: Duration,
    /// Limit of a whole download.
    pub download_limit: Duration,
    /// Largest body of a page, decompressed.
    pub body_bytes: u64,
    /// Most redirects that are followed.
    pub redirects: usize,
    /// What the reader calls itself.
    pub user_agent: String,
    /// Certificates (PEM) that are trusted besides the platform's.
    pub extra_roots: Vec<Vec<u8>>,
    /// Looks host names up.
    pub resolver: Arc<dyn HostResolver>,
    /// Asked in order before the plain reader.
    pub page_resolvers: Vec<Arc<dyn PageResolver>>,
}

impl Default for WebPolicy {
    fn default() -> Self {
        Self {
            connect_limit: Duration::from_secs(15),
            page_limit: Duration::from_secs(30),
            convert_limit: Duration::from_secs(10),
            stall_limit: Duration::from_secs(60),
            download_limit: Duration::from_secs(600),
            body_bytes: 10 << 20,
            redirects: 5,
            user_agent: concat!("pentad/", env!("CARGO_PKG_VERSION")).to_owned(),
            extra_roots: Vec::new(),
            resolver: Arc::new(SystemResolver),
            page_resolvers: Vec::new(),
        }
    }
}
