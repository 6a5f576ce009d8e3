//! Finding out where a person logs in at a server, and what is asked for there.

use std::path::Path;
use std::sync::Arc;

use rmcp::transport::auth::{AuthError, AuthorizationManager, AuthorizationMetadata, OAuthClientConfig};
use url::Url;

use super::super::config::{Reach, ServerConfig};
use super::super::endpoint::LoginSettings;
use super::super::fingerprint::fingerprint;
use super::super::http::install_tls;
use super::authorizer::KeptCredentials;
use super::kept::{Facts, TokenStore};
use super::need::{LoginBoard, LoginNeed};
use super::outcome::{LoginError, shown};

/// The scope that asks for a refresh token.
const OFFLINE: &str = "offline_access";
/// The name under which this client registers.
pub const CLIENT_NAME: &str = "Pentad";

/// The authorization server of a server, and what to ask it for. Every way to log in begins here.
pub struct Discovery {
    pub server: String,
    pub url: Url,
    pub settings: LoginSettings,
    pub board: LoginBoard,
    pub tokens: Arc<dyn TokenStore>,
    pub manager: AuthorizationManager,
    pub metadata: AuthorizationMetadata,
    pub scopes: Vec<String>,
}

impl Discovery {
    /// Asks the server where its authorization server is, and that one what it can do.
    ///
    /// # Errors
    /// [`LoginError`] says what cannot be used and what to do.
    pub async fn of(
        config: &ServerConfig,
        home_key: &[u8],
        cache_dir: &Path,
        tokens: Arc<dyn TokenStore>,
    ) -> Result<Self, LoginError> {
        let reach = config
            .reach
            .from_here()
            .map_err(|refusal| LoginError::NotFromHere {
                server: config.name.clone(),
                reason: refusal.message,
            })?;
        let Reach::Url(endpoint) = &reach else {
            return Err(LoginError::NoUrl(config.name.clone()));
        };
        if endpoint.brings_credentials() {
            return Err(LoginError::OwnCredentials(config.name.clone()));
        }
        let board = LoginBoard::load(
            cache_dir,
            &config.name,
            &fingerprint(&config.reach.definition(), home_key),
        );
        install_tls();
        let server = config.name.clone();
        let url = endpoint.url().clone();
        let need = board.need();
        let unusable = |error: AuthError| LoginError::NoAuthorization {
            server: server.clone(),
            reason: shown(&error),
        };
        let mut manager = AuthorizationManager::new(url.as_str()).await.map_err(unusable)?;
        let challenge = need.as_ref().and_then(|need| need.challenge.as_deref());
        let found = manager.resolve_metadata_from_challenge(challenge).await;
        let metadata = found.map_err(unusable)?.metadata;
        let offline = metadata
            .scopes_supported
            .as_ref()
            .is_some_and(|scopes| scopes.iter().any(|scope| scope == OFFLINE));
        manager.set_metadata(metadata.clone());
        let kept = tokens.load(&server).await?;
        let granted = kept
            .and_then(|kept| kept.facts_for(&url))
            .map_or_else(Vec::new, |facts| facts.scopes);
        let asked = manager.select_initial_scopes(&[]).await;
        let scopes = scopes(&endpoint.login, need.as_ref(), asked, granted, offline);
        Ok(Self {
            server,
            url,
            settings: endpoint.login.clone(),
            board,
            tokens,
            manager,
            metadata,
            scopes,
        })
    }

    /// Returns who this client is, unless it has to register: as configured, or by its metadata document.
    pub fn known_client(&self, redirect_uri: &str) -> Option<OAuthClientConfig> {
        let takes_documents = self
            .metadata
            .additional_fields
            .get("client_id_metadata_document_supported")
            .is_some_and(|supported| supported.as_bool() == Some(true));
        let document = self.settings.client_metadata_url.as_ref();
        let document = document.filter(|_| takes_documents);
        let id = self.settings.client_id.as_ref().or(document)?;
        let mut client = OAuthClientConfig::new(id, redirect_uri);
        client.client_secret.clone_from(&self.settings.client_secret);
        Some(client)
    }

    /// Returns where the tokens of this client are kept.
    pub fn keeping(&self, client: &OAuthClientConfig) -> KeptCredentials {
        KeptCredentials {
            server: self.server.clone(),
            url: self.url.clone(),
            facts: Facts {
                url: self.url.to_string(),
                client_id: client.client_id.clone(),
                redirect_uri: client.redirect_uri.clone(),
                ..Facts::default()
            },
            // A configured secret stays where the person put it.
            client_secret: client
                .client_secret
                .clone()
                .filter(|_| self.settings.client_secret.is_none()),
            tokens: Arc::clone(&self.tokens),
        }
    }

    /// Returns the failure of a login that has begun.
    pub fn failed(&self, reason: String) -> LoginError {
        LoginError::Failed {
            server: self.server.clone(),
            reason,
        }
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
