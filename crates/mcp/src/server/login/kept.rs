//! What is kept of a login.

use std::fmt;

use async_trait::async_trait;
use rmcp::transport::auth::StoredCredentials;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use url::Url;

/// A login as a store keeps it: three secrets, each of its own, and the rest, which is none.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct KeptLogin {
    /// Everything that is no secret, as JSON.
    pub facts: String,
    /// What is sent along with every request.
    pub access_token: Option<String>,
    /// What renews the access token.
    pub refresh_token: Option<String>,
    /// What the authorization server gave to this client when it registered.
    pub client_secret: Option<String>,
}

impl fmt::Debug for KeptLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptLogin")
            .field("facts", &self.facts)
            .field("access_token", &self.access_token.is_some())
            .field("refresh_token", &self.refresh_token.is_some())
            .field("client_secret", &self.client_secret.is_some())
            .finish()
    }
}

/// Why a store failed. The text holds no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the login of server '{server}' could not be {act}: {reason}")]
pub struct TokenStoreError {
    /// The server's name.
    pub server: String,
    /// What was tried: `read`, `kept`, `locked`.
    pub act: &'static str,
    /// What happened.
    pub reason: String,
}

/// Keeps logins where only their owner can read them. Every act reads anew: another process may have logged in.
#[async_trait]
pub trait TokenStore: Send + Sync {
    /// Returns the login at a server.
    ///
    /// # Errors
    /// Fails when the store cannot be read.
    async fn load(&self, server: &str) -> Result<Option<KeptLogin>, TokenStoreError>;

    /// Keeps a login, durably, all of it or nothing.
    ///
    /// # Errors
    /// Fails when the store cannot be written.
    async fn save(&self, server: &str, login: &KeptLogin) -> Result<(), TokenStoreError>;

    /// Forgets the login at a server; tells whether there was one.
    ///
    /// # Errors
    /// Fails when the store cannot be written.
    async fn remove(&self, server: &str) -> Result<bool, TokenStoreError>;

    /// Keeps other processes from renewing the same login until the value is dropped.
    ///
    /// # Errors
    /// Fails when the lock cannot be had within the store's own limit.
    async fn exclusive(&self, server: &str) -> Result<Box<dyn Send>, TokenStoreError>;
}

/// A store for a home that has no logins.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoTokens;

#[async_trait]
impl TokenStore for NoTokens {
    async fn load(&self, _server: &str) -> Result<Option<KeptLogin>, TokenStoreError> {
        Ok(None)
    }

    async fn save(&self, server: &str, _login: &KeptLogin) -> Result<(), TokenStoreError> {
        Err(TokenStoreError {
            server: server.to_owned(),
            act: "kept",
            reason: "there is no store for it".to_owned(),
        })
    }

    async fn remove(&self, _server: &str) -> Result<bool, TokenStoreError> {
        Ok(false)
    }

    async fn exclusive(&self, _server: &str) -> Result<Box<dyn Send>, TokenStoreError> {
        Ok(Box::new(()))
    }
}

/// The part of a login that is no secret.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Facts {
    /// The server that the login is for; it is sent nowhere else.
    pub url: String,
    pub client_id: String,
    pub redirect_uri: String,
    #[serde(default)]
    pub issuer: Option<String>,
    #[serde(default)]
    pub scopes: Vec<String>,
    #[serde(default)]
    pub received_at: Option<u64>,
    #[serde(default)]
    pub expires_in: Option<u64>,
}

impl KeptLogin {
    /// Returns the facts, if the login is for `url`.
    pub(in crate::server) fn facts_for(&self, url: &Url) -> Option<Facts> {
        let facts: Facts = serde_json::from_str(&self.facts).ok()?;
        (facts.url == url.as_str()).then_some(facts)
    }

    pub(in crate::server) fn new(facts: &Facts, client_secret: Option<String>) -> Self {
        Self {
            facts: serde_json::to_string(facts).unwrap_or_default(),
            client_secret,
            ..Self::default()
        }
    }

    /// Returns the login in the form of the protocol library.
    pub(in crate::server) fn credentials(&self, facts: &Facts) -> Option<StoredCredentials> {
        let access = self.access_token.as_ref()?;
        let mut tokens = json!({"access_token": access, "token_type": "bearer"});
        if let Some(refresh) = &self.refresh_token {
            tokens["refresh_token"] = json!(refresh);
        }
        if let Some(seconds) = facts.expires_in {
            tokens["expires_in"] = json!(seconds);
        }
        serde_json::from_value(json!({
            "client_id": facts.client_id,
            "token_response": tokens,
            "granted_scopes": facts.scopes,
            "token_received_at": facts.received_at,
            "issuer": facts.issuer,
        }))
        .ok()
    }

    /// Takes over what the protocol library got.
    pub(in crate::server) fn taken(&self, facts: &Facts, credentials: &StoredCredentials) -> Self {
        let tokens = serde_json::to_value(&credentials.token_response).unwrap_or_default();
        let text = |key: &str| tokens.get(key).and_then(Value::as_str).map(str::to_owned);
        let facts = Facts {
            client_id: credentials.client_id.clone(),
            issuer: credentials.issuer.clone(),
            scopes: credentials.granted_scopes.clone(),
            received_at: credentials.token_received_at,
            expires_in: tokens.get("expires_in").and_then(Value::as_u64),
            ..facts.clone()
        };
        Self {
            access_token: text("access_token"),
            refresh_token: text("refresh_token"),
            ..Self::new(&facts, self.client_secret.clone())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_survives_the_way_through_the_library() {
        let facts = Facts {
            url: "https://a.example/mcp".into(),
            client_id: "me".into(),
            redirect_uri: "http://127.0.0.1:1/callback".into(),
            issuer: Some("https://auth.example".into()),
            scopes: vec!["a".into(), "b".into()],
            received_at: Some(7),
            expires_in: Some(3_600),
        };
        let kept = KeptLogin {
            access_token: Some("canary-access".into()),
            refresh_token: Some("canary-refresh".into()),
            ..KeptLogin::new(&facts, Some("canary-client".into()))
        };
        let credentials = kept.credentials(&facts).unwrap();
        assert_eq!(kept.taken(&facts, &credentials), kept);
        assert_eq!(kept.facts_for(&Url::parse(&facts.url).unwrap()), Some(facts));
        assert_eq!(
            kept.facts_for(&Url::parse("https://b.example/mcp").unwrap()),
            None
        );
        assert!(!format!("{kept:?}").contains("canary"));
        assert!(!kept.facts.contains("canary"));
    }
}
