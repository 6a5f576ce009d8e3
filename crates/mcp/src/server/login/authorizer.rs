//! The token of a connection: taken from the store, renewed when it expires or is rejected.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, CredentialRefreshGuard, CredentialStore, OAuthClientConfig,
    StoredCredentials,
};
use tokio::sync::Mutex;
use url::Url;

use super::super::endpoint::{Endpoint, LoginSettings};
use super::super::http::install_tls;
use super::kept::{Facts, KeptLogin, TokenStore, TokenStoreError};

/// A token that ends within this time is renewed before it is used.
const AHEAD: Duration = Duration::from_secs(30);

/// Gives out the token of one server.
pub struct Authorizer {
    server: String,
    url: Url,
    settings: LoginSettings,
    tokens: Arc<dyn TokenStore>,
    /// One renewal at a time; whoever waits finds the new token in the store.
    renewing: Mutex<()>,
}

impl Authorizer {
    /// Creates the authorizer of a server.
    pub fn new(server: &str, endpoint: &Endpoint, tokens: Arc<dyn TokenStore>) -> Self {
        Self {
            server: server.to_owned(),
            url: endpoint.url().clone(),
            settings: endpoint.login.clone(),
            tokens,
            renewing: Mutex::new(()),
        }
    }

    /// Returns the token to send, if there is a login.
    ///
    /// # Errors
    /// Fails when the store cannot be read, or when the renewal fails for a reason that may pass.
    pub async fn token(&self) -> Result<Option<String>, AuthError> {
        match self.kept().await? {
            Some((kept, facts)) if is_ending(&facts) && kept.refresh_token.is_some() => {
                self.renewed(kept.access_token.as_deref().unwrap_or_default())
                    .await
            }
            Some((kept, _)) => Ok(kept.access_token),
            None => Ok(None),
        }
    }

    /// Returns a token in the place of one that the server rejected or that ends; `None` when a person has to log in.
    ///
    /// # Errors
    /// Fails when the store cannot be used, or for a reason that may pass.
    pub async fn renewed(&self, old: &str) -> Result<Option<String>, AuthError> {
        let _one = self.renewing.lock().await;
        let Some((kept, facts)) = self.kept().await? else {
            return Ok(None);
        };
        // Somebody else has renewed it, or a person has logged in again.
        if kept.access_token.as_deref().is_some_and(|token| token != old) {
            return Ok(kept.access_token);
        }
        if kept.refresh_token.is_none() {
            return Ok(None);
        }
        let Some(manager) = self.manager(&kept, facts).await? else {
            return Ok(None);
        };
        match manager.refresh_token().await {
            Ok(_) => Ok(self.kept().await?.and_then(|(kept, _)| kept.access_token)),
            Err(AuthError::TokenRefreshRejected(_) | AuthError::AuthorizationRequired) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Finds the authorization server again and takes the login up with it. `None` when the login belongs to another
    /// authorization server than the one that the server names today.
    async fn manager(
        &self,
        kept: &KeptLogin,
        facts: Facts,
    ) -> Result<Option<AuthorizationManager>, AuthError> {
        install_tls();
        let mut manager = AuthorizationManager::new(self.url.as_str()).await?;
        let (client_id, redirect_uri) = (facts.client_id.clone(), facts.redirect_uri.clone());
        manager.set_credential_store(KeptCredentials {
            server: self.server.clone(),
            url: self.url.clone(),
            facts,
            client_secret: kept.client_secret.clone(),
            tokens: Arc::clone(&self.tokens),
        });
        if !manager.initialize_from_store().await? {
            return Ok(None);
        }
        let mut client = OAuthClientConfig::new(client_id, redirect_uri);
        client.client_secret = self
            .settings
            .client_secret
            .clone()
            .or_else(|| kept.client_secret.clone());
        manager.configure_client(client)?;
        Ok(Some(manager))
    }

    async fn kept(&self) -> Result<Option<(KeptLogin, Facts)>, AuthError> {
        let kept = self
            .tokens
            .load(&self.server)
            .await
            .map_err(|error| store_error(&error))?;
        // A login for another URL is none: the server of that name may be another one by now.
        Ok(kept.and_then(|kept| kept.facts_for(&self.url).map(|facts| (kept, facts))))
    }
}

fn is_ending(facts: &Facts) -> bool {
    let (Some(received), Some(lasts)) = (facts.received_at, facts.expires_in) else {
        return false;
    };
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    let left = lasts.saturating_sub(now.saturating_sub(received));
    // A token that lasts for seconds only is not renewed at every request.
    left < AHEAD.as_secs().min(lasts / 2).max(1)
}

fn store_error(error: &TokenStoreError) -> AuthError {
    AuthError::CredentialStoreError(error.to_string())
}

/// The store as the protocol library sees it.
pub struct KeptCredentials {
    pub server: String,
    pub url: Url,
    /// What the store has no place for in the library's form.
    pub facts: Facts,
    pub client_secret: Option<String>,
    pub tokens: Arc<dyn TokenStore>,
}

#[async_trait]
impl CredentialStore for KeptCredentials {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        let kept = self
            .tokens
            .load(&self.server)
            .await
            .map_err(|error| store_error(&error))?;
        Ok(kept.and_then(|kept| kept.credentials(&kept.facts_for(&self.url)?)))
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        let login = KeptLogin::new(&self.facts, self.client_secret.clone()).taken(&self.facts, &credentials);
        self.tokens
            .save(&self.server, &login)
            .await
            .map_err(|error| store_error(&error))
    }

    async fn clear(&self) -> Result<(), AuthError> {
        self.tokens
            .remove(&self.server)
            .await
            .map(drop)
            .map_err(|error| store_error(&error))
    }

    async fn acquire_refresh_guard(&self) -> Result<Option<CredentialRefreshGuard>, AuthError> {
        let guard = self
            .tokens
            .exclusive(&self.server)
            .await
            .map_err(|error| store_error(&error))?;
        Ok(Some(CredentialRefreshGuard::new(guard)))
    }
}
