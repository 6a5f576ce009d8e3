//! What all connections to one server share: the HTTP client and the login.

use std::sync::Arc;
use std::time::Duration;

use reqwest::{Client, redirect};

use super::super::endpoint::Endpoint;
use super::super::login::{Authorizer, TokenStore};

/// How long a connection may take to be made.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// How long an unused connection is kept: less than the five seconds after which common servers close theirs, so that no
/// request meets a connection that is just ending.
const POOL_IDLE: Duration = Duration::from_secs(4);
/// Redirects that are followed for one request.
const MAX_REDIRECTS: usize = 3;

/// The HTTP client of a server, and its login if a person did not configure one.
#[derive(Clone)]
pub struct Remote {
    pub http: Client,
    pub authorizer: Option<Arc<Authorizer>>,
}

impl Remote {
    /// Creates the client.
    ///
    /// # Errors
    /// Says why the TLS library or its certificates cannot be used.
    pub fn new(server: &str, endpoint: &Endpoint, tokens: &Arc<dyn TokenStore>) -> Result<Self, String> {
        let http = http_client(endpoint)?;
        let authorizer = (!endpoint.brings_credentials())
            .then(|| Arc::new(Authorizer::new(server, endpoint, Arc::clone(tokens))));
        Ok(Self { http, authorizer })
    }
}

fn http_client(endpoint: &Endpoint) -> Result<Client, String> {
    install_tls();
    let mut builder = Client::builder()
        .user_agent(concat!("pentad/", env!("CARGO_PKG_VERSION")))
        .redirect(same_origin())
        .referer(false)
        .connect_timeout(CONNECT_LIMIT)
        .pool_idle_timeout(POOL_IDLE);
    if endpoint.is_loopback() {
        // A proxy would look for the server on its own machine.
        builder = builder.no_proxy();
    }
    builder
        .build()
        .map_err(|error| format!("the HTTP client could not be made: {error}"))
}

/// Makes ring the TLS provider of the process. Whoever comes first decides; it is the same everywhere.
pub fn install_tls() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Follows what keeps method, body and origin. Anything else would lose the message, or carry headers and tokens to a
/// place that the person did not name.
fn same_origin() -> redirect::Policy {
    redirect::Policy::custom(|attempt| {
        let keeps_body = matches!(attempt.status().as_u16(), 307 | 308);
        let same = attempt
            .previous()
            .first()
            .is_some_and(|first| first.origin() == attempt.url().origin());
        if !keeps_body || !same {
            attempt.stop()
        } else if attempt.previous().len() > MAX_REDIRECTS {
            attempt.error("the server redirects in a circle")
        } else {
            attempt.follow()
        }
    })
}
