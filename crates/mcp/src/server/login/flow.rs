//! A login by a person in a browser: authorization code with PKCE.

use std::path::Path;
use std::sync::Arc;

use pentad_model::text;
use rmcp::transport::auth::{AuthError, AuthorizationCallback, AuthorizationManager, OAuthClientConfig};
use url::Url;

use super::super::config::{Reach, ServerConfig};
use super::super::endpoint::{Endpoint, LoginSettings};
use super::super::fingerprint::fingerprint;
use super::super::http::install_tls;
use super::authorizer::KeptCredentials;
use super::kept::{Facts, TokenStore, TokenStoreError};
use super::need::{LoginBoard, LoginNeed};

/// The scope that asks for a refresh token.
const OFFLINE: &str = "offline_access";
/// How much of an authorization server's own words is shown.
const SHOWN_BYTES: usize = 400;

/// Why a login did not come about. No variant holds a token, a code or a secret.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// The entry starts a program, which has no login of ours.
    #[error("server '{0}' is a program, which has its own way to log in; --login is for servers with a url")]
    NoUrl(String),
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

/// A login that waits for a person.
pub struct Login {
    server: String,
    url: Url,
    tokens: Arc<dyn TokenStore>,
    board: LoginBoard,
    manager: AuthorizationManager,
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
        let Reach::Url(endpoint) = &config.reach else {
            return Err(LoginError::NoUrl(config.name.clone()));
        };
        if endpoint.brings_credentials() {
            return Err(LoginError::OwnCredentials(config.name.clone()));
        }
        let board = LoginBoard::load(cache_dir, &config.name, &fingerprint(config, home_key));
        Self::prepare(&config.name, endpoint, board, tokens, redirect_uri).await
    }

    async fn prepare(
        server: &str,
        endpoint: &Endpoint,
        board: LoginBoard,
        tokens: Arc<dyn TokenStore>,
        redirect_uri: &str,
    ) -> Result<Self, LoginError> {
        install_tls();
        let url = endpoint.url().clone();
        let need = board.need();
        let unusable = |error: AuthError| LoginError::NoAuthorization {
            server: server.to_owned(),
            reason: shown(&error),
        };
        let mut manager = AuthorizationManager::new(url.as_str()).await.map_err(unusable)?;
        let challenge = need.as_ref().and_then(|need| need.challenge.as_deref());
        let found = manager
            .resolve_metadata_from_challenge(challenge)
            .await
            .map_err(unusable)?;
        let offline = found
            .metadata
            .scopes_supported
            .as_ref()
            .is_some_and(|scopes| scopes.iter().any(|scope| scope == OFFLINE));
        let takes_documents = found
            .metadata
            .additional_fields
            .get("client_id_metadata_document_supported")
            .is_some_and(|supported| supported.as_bool() == Some(true));
        manager.set_metadata(found.metadata);
        let kept = tokens.load(server).await?;
        let granted = kept
            .and_then(|kept| kept.facts_for(&url))
            .map_or_else(Vec::new, |facts| facts.scopes);
        let asked = manager.select_initial_scopes(&[]).await;
        let scopes = scopes(&endpoint.login, need.as_ref(), asked, granted, offline);
        let words: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let client = client(
            server,
            &endpoint.login,
            &mut manager,
            redirect_uri,
            &words,
            takes_documents,
        )
        .await?;
        let facts = Facts {
            url: url.to_string(),
            client_id: client.client_id.clone(),
            redirect_uri: redirect_uri.to_owned(),
            ..Facts::default()
        };
        manager.set_credential_store(KeptCredentials {
            server: server.to_owned(),
            url: url.clone(),
            facts,
            // A configured secret stays where the person put it.
            client_secret: client
                .client_secret
                .clone()
                .filter(|_| endpoint.login.client_secret.is_none()),
            tokens: Arc::clone(&tokens),
        });
        let failed = |error: AuthError| LoginError::Failed {
            server: server.to_owned(),
            reason: shown(&error),
        };
        manager.configure_client(client).map_err(failed)?;
        let authorization_url = manager.get_authorization_url(&words).await.map_err(failed)?;
        Ok(Self {
            server: server.to_owned(),
            tokens,
            board,
            manager,
            authorization_url,
            url,
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
        let failed = |reason: String| LoginError::Failed {
            server: self.server.clone(),
            reason,
        };
        if let Some(reason) = denial(callback) {
            return Err(LoginError::Denied {
                server: self.server.clone(),
                reason,
            });
        }
        let callback =
            AuthorizationCallback::from_redirect_url(callback).map_err(|error| failed(shown(&error)))?;
        self.manager
            .exchange_code_for_token_with_issuer(
                &callback.code,
                &callback.csrf_token,
                callback.issuer.as_deref(),
            )
            .await
            .map_err(|error| failed(shown(&error)))?;
        let kept = self.tokens.load(&self.server).await?.unwrap_or_default();
        let facts = kept
            .facts_for(&self.url)
            .ok_or_else(|| failed("what was granted is not in the store".to_owned()))?;
        self.board.note(None);
        Ok(LoginResult {
            scopes: facts.scopes,
            expires_in: facts.expires_in,
            renewable: kept.refresh_token.is_some(),
        })
    }
}

/// Returns what to ask for: what the person configured, else what the server says it needs; and never less than before
/// when the server asked for more.
fn scopes(
    settings: &LoginSettings,
    need: Option<&LoginNeed>,
    asked: Vec<String>,
    granted: Vec<String>,
    offline: bool,
) -> Vec<String> {
    let more = need.is_some_and(|need| need.more);
    let mut scopes = settings.scopes.clone();
    if more {
        scopes.extend(granted);
    }
    if more || settings.scopes.is_empty() {
        scopes.extend(asked);
    }
    // Asked for nothing, the authorization server decides.
    if offline && !scopes.is_empty() {
        scopes.push(OFFLINE.to_owned());
    }
    let mut seen = std::collections::BTreeSet::new();
    scopes.retain(|scope| seen.insert(scope.clone()));
    scopes
}

/// Returns who this client is: as configured, by its metadata document, or newly registered.
async fn client(
    server: &str,
    settings: &LoginSettings,
    manager: &mut AuthorizationManager,
    redirect_uri: &str,
    scopes: &[&str],
    takes_documents: bool,
) -> Result<OAuthClientConfig, LoginError> {
    let document = settings.client_metadata_url.as_ref().filter(|_| takes_documents);
    if let Some(id) = settings.client_id.as_ref().or(document) {
        let mut client = OAuthClientConfig::new(id, redirect_uri);
        client.client_secret.clone_from(&settings.client_secret);
        return Ok(client);
    }
    manager
        .register_client("Pentad", redirect_uri, scopes)
        .await
        .map_err(|error| match error {
            AuthError::RegistrationFailed(reason) => LoginError::Unregistered {
                server: server.to_owned(),
                reason: text::excerpt(&text::visible(&reason), SHOWN_BYTES),
            },
            other => LoginError::NoAuthorization {
                server: server.to_owned(),
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
    Some(text::excerpt(&text::visible(&words), SHOWN_BYTES))
}

fn shown(error: &AuthError) -> String {
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
    text::excerpt(&text::visible(&words), SHOWN_BYTES)
}
