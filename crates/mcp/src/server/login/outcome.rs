//! What becomes of a login.

use std::sync::Arc;

use pentad_model::text;
use rmcp::transport::auth::AuthError;
use url::Url;

use super::kept::{TokenStore, TokenStoreError};

/// How much of an authorization server's own words is shown.
const SHOWN_BYTES: usize = 400;

/// Why a login did not come about. No variant holds a token, a code or a secret.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// The entry starts a program, which has no login of ours.
    #[error("server '{0}' is a program, which has its own way to log in; --login is for servers with a url")]
    NoUrl(String),
    /// A variable of its entry is missing here, or the entry cannot be used with it.
    #[error("server '{server}' cannot be reached from here: {reason}")]
    NotFromHere {
        /// The server.
        server: String,
        /// What is missing.
        reason: String,
    },
    /// The person configured the credentials themselves.
    #[error(
        "server '{0}' has an Authorization header in config.toml, which is used as it is; remove it to log in instead"
    )]
    OwnCredentials(String),
    /// The server does not say where to log in, or the place cannot be used.
    #[error("server '{server}' offers no login that can be used: {reason}")]
    NoAuthorization {
        /// The server.
        server: String,
        /// What was found.
        reason: String,
    },
    /// The authorization server does not register clients.
    #[error(
        "the authorization server of '{server}' does not register this client by itself ({reason}); register it there and put client_id, and client_secret if it gave one, into [servers.{server}.oauth]"
    )]
    Unregistered {
        /// The server.
        server: String,
        /// What the authorization server answered.
        reason: String,
    },
    /// The person or the authorization server said no.
    #[error("the login at server '{server}' was not granted: {reason}")]
    Denied {
        /// The server.
        server: String,
        /// What the authorization server said.
        reason: String,
    },
    /// The answer does not belong to this login, or its code was not taken.
    #[error("the login at server '{server}' failed: {reason}")]
    Failed {
        /// The server.
        server: String,
        /// What happened.
        reason: String,
    },
    /// The authorization server knows no codes.
    #[error(
        "the authorization server of '{0}' offers no login by code (it names no device_authorization_endpoint); pentad connect {0} --login, without --device, logs in with a browser on this machine"
    )]
    NoDevice(String),
    /// The authorization server does not let this client ask for codes.
    #[error(
        "the authorization server of '{server}' gives this client no codes ({reason}); allow the device grant where the client is registered, or log in with a browser: pentad connect {server} --login"
    )]
    NoDeviceGrant {
        /// The server.
        server: String,
        /// What the authorization server answered.
        reason: String,
    },
    /// The code ended before anybody granted the login.
    #[error(
        "the code for server '{0}' expired before the login was granted; nothing was changed; pentad connect {0} --login --device gives a new one"
    )]
    Expired(String),
    /// The person's own limit passed before anybody granted the login.
    #[error(
        "nobody granted the login at server '{server}' within {seconds} s; nothing was changed; pentad connect {server} --login --device gives a new code, and --wait SECONDS waits longer"
    )]
    TimedOut {
        /// The server.
        server: String,
        /// The limit.
        seconds: u64,
    },
    /// The login came about and could not be kept.
    #[error(transparent)]
    Store(#[from] TokenStoreError),
}

/// What a login brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginResult {
    /// What was granted.
    pub scopes: Vec<String>,
    /// How long the token lasts, in seconds.
    pub expires_in: Option<u64>,
    /// Whether it can be renewed without a person.
    pub renewable: bool,
}

/// Returns what another party said, fit to be shown.
pub fn foreign(words: &str) -> String {
    text::excerpt(&text::visible(words), SHOWN_BYTES)
}

/// Reads back what a login left in the store: what is not there was not kept.
///
/// # Errors
/// Fails when the store cannot be read or holds nothing for the server.
pub async fn read_back(
    tokens: &Arc<dyn TokenStore>,
    server: &str,
    url: &Url,
) -> Result<LoginResult, LoginError> {
    let kept = tokens.load(server).await?.unwrap_or_default();
    let facts = kept.facts_for(url).ok_or_else(|| LoginError::Failed {
        server: server.to_owned(),
        reason: "what was granted is not in the store".to_owned(),
    })?;
    Ok(LoginResult {
        scopes: facts.scopes,
        expires_in: facts.expires_in,
        renewable: kept.refresh_token.is_some(),
    })
}

/// Returns the words of an error and of its causes, fit to be shown.
pub fn shown(error: &AuthError) -> String {
    let mut words = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        let text = error.to_string();
        if !words.contains(&text) {
            words.push_str(": ");
            words.push_str(&text);
        }
        cause = error.source();
    }
    foreign(&words)
}
