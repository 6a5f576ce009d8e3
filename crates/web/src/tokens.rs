//! Tokens: who is calling. Generated at each start, kept as keyed digests, compared in constant time.

use std::fmt;

use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use hmac::{Hmac, KeyInit, Mac};
use pentad_model::{Actor, Name};
use sha2::Sha256;

/// Bytes of a generated token.
const TOKEN_BYTES: usize = 32;
/// Shortest token that a person may configure.
const MIN_CONFIGURED_BYTES: usize = 16;

/// Why there are no tokens.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The system gives no random bytes.
    #[error("the system gives no random numbers: {0}")]
    NoRandom(String),
    /// A configured token that can be guessed.
    #[error(
        "the configured token has {0} bytes; it needs at least {MIN_CONFIGURED_BYTES}\nNext: pentad secret set http with a longer one, for example from openssl rand -hex 32"
    )]
    TooShort(usize),
}

/// Who a token stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bearer {
    /// The actor.
    pub actor: Actor,
    /// An id for logs and threads: a keyed hash, never a part of the token.
    pub id: String,
}

struct Entry {
    actor: Actor,
    digest: [u8; 32],
    /// For the ready lines; absent for a configured token, which its owner knows.
    printable: Option<String>,
}

/// The tokens of one start.
pub struct Tokens {
    key: [u8; 32],
    entries: Vec<Entry>,
    configured: bool,
}

impl Tokens {
    /// Generates a token for a person and one for each client.
    ///
    /// # Errors
    /// Fails when the system gives no random bytes.
    pub fn generate(clients: impl IntoIterator<Item = Name>) -> Result<Self, TokenError> {
        let mut tokens = Self {
            key: random()?,
            entries: Vec::new(),
            configured: false,
        };
        let actors = std::iter::once(Actor::User).chain(clients.into_iter().map(Actor::Client));
        for actor in actors {
            let text = BASE64URL_NOPAD.encode(&random::<TOKEN_BYTES>()?);
            let digest = tokens.digest(text.as_bytes());
            tokens.entries.push(Entry {
                actor,
                digest,
                printable: Some(text),
            });
        }
        Ok(tokens)
    }

    /// Adds a person's token that stays the same over restarts. Only with one may other machines be served.
    ///
    /// # Errors
    /// Refuses one that is short enough to be guessed.
    pub fn add_person(&mut self, token: &str) -> Result<(), TokenError> {
        if token.len() < MIN_CONFIGURED_BYTES {
            return Err(TokenError::TooShort(token.len()));
        }
        let digest = self.digest(token.as_bytes());
        self.entries.push(Entry {
            actor: Actor::User,
            digest,
            printable: None,
        });
        self.configured = true;
        Ok(())
    }

    /// Returns each generated token with the kind that it stands for, `person` or a client's name.
    #[must_use]
    pub fn printable(&self) -> Vec<(String, String)> {
        let kind = |actor: &Actor| match actor {
            Actor::User => "person".to_owned(),
            Actor::Client(name) => name.to_string(),
            other => other.to_string(),
        };
        self.entries
            .iter()
            .filter_map(|entry| Some((kind(&entry.actor), entry.printable.clone()?)))
            .collect()
    }

    /// Tells whether a person configured a token.
    #[must_use]
    pub const fn is_configured(&self) -> bool {
        self.configured
    }

    /// Finds who a presented token stands for. Looks at every entry, whatever it finds.
    #[must_use]
    pub fn bearer(&self, presented: &str) -> Option<Bearer> {
        let digest = self.digest(presented.as_bytes());
        let mut found = None;
        for entry in &self.entries {
            // Digests under a random key tell a listener nothing about the token, even where their prefixes agree.
            let difference = entry
                .digest
                .iter()
                .zip(&digest)
                .fold(0_u8, |difference, (a, b)| difference | (a ^ b));
            if difference == 0 {
                found = Some(entry);
            }
        }
        found.map(|entry| Bearer {
            actor: entry.actor.clone(),
            id: self.id(&entry.digest),
        })
    }

    fn digest(&self, bytes: &[u8]) -> [u8; 32] {
        keyed(&self.key, b"token", bytes)
    }

    fn id(&self, digest: &[u8; 32]) -> String {
        let hash = keyed(&self.key, b"id", digest);
        HEXLOWER.encode(hash.get(..6).unwrap_or(&hash))
    }
}

fn keyed(key: &[u8; 32], purpose: &[u8], bytes: &[u8]) -> [u8; 32] {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else {
        // HMAC takes keys of any length.
        return [0; 32];
    };
    mac.update(purpose);
    mac.update(&[0]);
    mac.update(bytes);
    mac.finalize().into_bytes().into()
}

fn random<const N: usize>() -> Result<[u8; N], TokenError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| TokenError::NoRandom(error.to_string()))?;
    Ok(bytes)
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tokens({})", self.entries.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_names_its_bearer_and_nothing_else_does() {
        let client: Name = "claude-code".parse().unwrap();
        let mut tokens = Tokens::generate([client.clone()]).unwrap();
        let printed = tokens.printable();
        assert_eq!(
            printed.iter().map(|(kind, _)| kind.as_str()).collect::<Vec<_>>(),
            ["person", "claude-code"]
        );
        assert_eq!(tokens.bearer(&printed[0].1).unwrap().actor, Actor::User);
        assert_eq!(tokens.bearer(&printed[1].1).unwrap().actor, Actor::Client(client));
        for wrong in [
            "",
            "x",
            printed[0].1.get(1..).unwrap(),
            &format!("{}x", printed[0].1),
        ] {
            assert_eq!(tokens.bearer(wrong), None);
        }
        assert!(!tokens.is_configured());
        assert!(tokens.add_person("short").is_err());
        tokens.add_person("a-long-enough-token").unwrap();
        assert!(tokens.is_configured());
        assert_eq!(tokens.bearer("a-long-enough-token").unwrap().actor, Actor::User);
        assert_eq!(tokens.printable().len(), 2);
    }

    #[test]
    fn s14_ids_are_keyed_hashes_and_debug_shows_nothing() {
        let tokens = Tokens::generate([]).unwrap();
        let text = tokens.printable().remove(0).1;
        let id = tokens.bearer(&text).unwrap().id;
        assert_eq!(id.len(), 12);
        assert!(!text.contains(&id) && !text.starts_with(id.get(..4).unwrap()));
        assert_eq!(format!("{tokens:?}"), "Tokens(1)");
        let mut other = Tokens::generate([]).unwrap();
        other.add_person(&text).unwrap();
        assert_ne!(other.bearer(&text).unwrap().id, id);
    }
}
