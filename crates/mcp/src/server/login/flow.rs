//! A login by a person in a browser: authorization code with PKCE.

use std::path::Path;
use std::sync::Arc;

use rmcp::transport::auth::{AuthError, AuthorizationCallback, OAuthClientConfig};
use url::Url;

use super::super::config::ServerConfig;
use super::discovery::{CLIENT_NAME, Discovery};
use super::kept::TokenStore;
use super::outcome::{LoginError, LoginResult, foreign, read_back, shown};

/// A login that waits for a person.
pub struct Login {
    discovery: Discovery,
    authorization_url: String,
}

impl Login {
    /// Finds out where to log in, registers this client if needed, and prepares the page for the person.
    ///
    /// # Errors
    /// [`LoginError`] says what cannot be used and what to do.
    pub async fn begin(
        config: &ServerConfig,
        home_key: &[u8],
        cache_dir: &Path,
        tokens: Arc<dyn TokenStore>,
        redirect_uri: &str,
    ) -> Result<Self, LoginError> {
        let mut discovery = Discovery::of(config, home_key, cache_dir, tokens).await?;
        let client = client(&mut discovery, redirect_uri).await?;
        let keeping = discovery.keeping(&client);
        discovery.manager.set_credential_store(keeping);
        let configured = discovery.manager.configure_client(client);
        configured.map_err(|error| discovery.failed(shown(&error)))?;
        let words: Vec<&str> = discovery.scopes.iter().map(String::as_str).collect();
        let page = discovery.manager.get_authorization_url(&words).await;
        let authorization_url = page.map_err(|error| discovery.failed(shown(&error)))?;
        Ok(Self {
            discovery,
            authorization_url,
        })
    }

    /// Returns the page that the person opens.
    #[must_use]
    pub fn authorization_url(&self) -> &str {
        &self.authorization_url
    }

    /// Takes the address that the browser was sent back to, gets the tokens and keeps them.
    ///
    /// # Errors
    /// [`LoginError`]; nothing is kept then.
    pub async fn finish(self, callback: &str) -> Result<LoginResult, LoginError> {
        let Self { discovery, .. } = self;
        if let Some(reason) = denial(callback) {
            return Err(LoginError::Denied {
                server: discovery.server,
                reason,
            });
        }
        let callback = AuthorizationCallback::from_redirect_url(callback)
            .map_err(|error| discovery.failed(shown(&error)))?;
        discovery
            .manager
            .exchange_code_for_token_with_issuer(
                &callback.code,
                &callback.csrf_token,
                callback.issuer.as_deref(),
            )
            .await
            .map_err(|error| discovery.failed(shown(&error)))?;
        let result = read_back(&discovery.tokens, &discovery.server, &discovery.url).await?;
        discovery.board.note(None);
        Ok(result)
    }
}

/// Returns who this client is: as configured, by its metadata document, or newly registered.
async fn client(discovery: &mut Discovery, redirect_uri: &str) -> Result<OAuthClientConfig, LoginError> {
    if let Some(client) = discovery.known_client(redirect_uri) {
        return Ok(client);
    }
    let words: Vec<&str> = discovery.scopes.iter().map(String::as_str).collect();
    let registered = discovery
        .manager
        .register_client(CLIENT_NAME, redirect_uri, &words)
        .await;
    registered.map_err(|error| match error {
        AuthError::RegistrationFailed(reason) => LoginError::Unregistered {
            server: discovery.server.clone(),
            reason: foreign(&reason),
        },
        other => LoginError::NoAuthorization {
            server: discovery.server.clone(),
            reason: shown(&other),
        },
    })
}

/// Returns what the authorization server said instead of giving a code.
fn denial(callback: &str) -> Option<String> {
    let url = Url::parse(callback).ok()?;
    let find = |wanted: &str| {
        url.query_pairs()
            .find(|(key, _)| key == wanted)
            .map(|(_, value)| value.into_owned())
    };
    let error = find("error")?;
    let words = match find("error_description") {
        Some(description) => format!("{error} ({description})"),
        None => error,
    };
    Some(foreign(&words))
}
