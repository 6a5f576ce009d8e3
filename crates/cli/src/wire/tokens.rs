//! Logins at servers, kept among the secrets of a home.
//!
//! Each token is a secret of its own, so that each is masked wherever it might be shown.

use std::io;

use async_trait::async_trait;
use pentad_keeper::lock::WriterLock;
use pentad_keeper::secrets::SecretError;
use pentad_keeper::{Home, SecretName, SecretValue, Secrets};
use pentad_mcp::{KeptLogin, TokenStore, TokenStoreError};

/// How long another process may take to renew the same login.
const RENEWAL_LIMIT: std::time::Duration = std::time::Duration::from_secs(30);

/// The logins of one home.
#[derive(Debug, Clone)]
pub struct HomeTokens {
    secrets: Secrets,
    keys: std::path::PathBuf,
}

impl HomeTokens {
    /// Returns the logins of `home`.
    pub fn of(home: &Home) -> Self {
        Self {
            secrets: Secrets::of(home),
            keys: home.keys(),
        }
    }

    /// Does blocking work on a thread for it.
    async fn blocking<T: Send + 'static>(
        &self,
        server: &str,
        act: &'static str,
        work: impl FnOnce(Self, [SecretName; 4]) -> Result<T, SecretError> + Send + 'static,
    ) -> Result<T, TokenStoreError> {
        let failed = |reason: String| TokenStoreError {
            server: server.to_owned(),
            act,
            reason,
        };
        let names = names(server).map_err(|error| failed(error.to_string()))?;
        let this = self.clone();
        match tokio::task::spawn_blocking(move || work(this, names)).await {
            Ok(done) => done.map_err(|error| failed(error.to_string())),
            Err(error) => Err(failed(error.to_string())),
        }
    }
}

/// The names of the parts, in the order of [`KeptLogin`]'s fields.
fn names(server: &str) -> Result<[SecretName; 4], pentad_model::actor::NameError> {
    let name = |part: &str| format!("mcp.{server}.{part}").parse();
    Ok([
        name("login")?,
        name("access-token")?,
        name("refresh-token")?,
        name("client-secret")?,
    ])
}

#[async_trait]
impl TokenStore for HomeTokens {
    async fn load(&self, server: &str) -> Result<Option<KeptLogin>, TokenStoreError> {
        self.blocking(server, "read", |this, names| {
            let mut values = this.secrets.get_all(&names)?.into_iter();
            let mut next = || values.next().flatten().map(|value| value.reveal().to_owned());
            let facts = next();
            let (access_token, refresh_token, client_secret) = (next(), next(), next());
            Ok(facts.map(|facts| KeptLogin {
                facts,
                access_token,
                refresh_token,
                client_secret,
            }))
        })
        .await
    }

    async fn save(&self, server: &str, login: &KeptLogin) -> Result<(), TokenStoreError> {
        let login = login.clone();
        self.blocking(server, "kept", move |this, names| {
            let values = [
                Some(login.facts),
                login.access_token,
                login.refresh_token,
                login.client_secret,
            ];
            let changes: Vec<_> = names
                .into_iter()
                .zip(values)
                .map(|(name, value)| (name, value.map(SecretValue::new)))
                .collect();
            this.secrets.change(&changes)
        })
        .await
    }

    async fn remove(&self, server: &str) -> Result<bool, TokenStoreError> {
        self.blocking(server, "forgotten", |this, names| {
            let was = this.secrets.get_all(&names)?.iter().any(Option::is_some);
            if was {
                this.secrets.change(&names.map(|name| (name, None)))?;
            }
            Ok(was)
        })
        .await
    }

    async fn exclusive(&self, server: &str) -> Result<Box<dyn Send>, TokenStoreError> {
        let path = self.keys.join(format!("login-{server}.lock"));
        let taken = tokio::task::spawn_blocking(move || WriterLock::take(&path, RENEWAL_LIMIT)).await;
        let taken = taken.unwrap_or_else(|error| Err(io::Error::other(error)));
        match taken {
            Ok(lock) => Ok(Box::new(lock)),
            Err(error) => Err(TokenStoreError {
                server: server.to_owned(),
                act: "locked",
                reason: error.to_string(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_login_comes_back_whole_and_each_token_is_a_secret() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::locate(Some(dir.path()), None, None).unwrap();
        home.prepare().unwrap();
        let tokens = HomeTokens::of(&home);
        assert_eq!(tokens.load("docs").await.unwrap(), None);
        let login = KeptLogin {
            facts: "{\"url\":\"https://a.example/\"}".to_owned(),
            access_token: Some("access".to_owned()),
            refresh_token: None,
            client_secret: Some("secret".to_owned()),
        };
        tokens.save("docs", &login).await.unwrap();
        assert_eq!(tokens.load("docs").await.unwrap(), Some(login));
        let names: Vec<String> = Secrets::of(&home)
            .list()
            .unwrap()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            names,
            [
                "mcp.docs.access-token",
                "mcp.docs.client-secret",
                "mcp.docs.login"
            ]
        );
        drop(tokens.exclusive("docs").await.unwrap());
        assert!(tokens.remove("docs").await.unwrap());
        assert!(!tokens.remove("docs").await.unwrap());
        assert_eq!(tokens.load("docs").await.unwrap(), None);
    }
}
