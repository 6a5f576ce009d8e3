//! The secrets that an import makes: which there are, which are new, which must be asked for.

use std::collections::BTreeMap;

use pentad_keeper::{SecretError, SecretName, SecretValue, Secrets};

/// A secret whose value the client's file does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Its name in the store.
    pub name: SecretName,
    /// What to ask a person.
    pub question: String,
}

/// The secrets of a home together with those that are to come.
#[derive(Debug, Clone, Default)]
pub struct Vault {
    stored: BTreeMap<SecretName, SecretValue>,
    /// New ones with their values.
    pub fresh: BTreeMap<SecretName, SecretValue>,
    /// New ones without a value.
    pub asked: Vec<Asked>,
}

impl Vault {
    /// Reads what a home has.
    ///
    /// # Errors
    /// Fails when the store cannot be read.
    pub fn open(secrets: &Secrets) -> Result<Self, SecretError> {
        let mut stored = BTreeMap::new();
        for name in secrets.list()? {
            if let Some(value) = secrets.get(&name)? {
                stored.insert(name, value);
            }
        }
        Ok(Self {
            stored,
            ..Self::default()
        })
    }

    /// Returns a value, stored or to come.
    #[must_use]
    pub fn get(&self, name: &SecretName) -> Option<&SecretValue> {
        self.stored.get(name).or_else(|| self.fresh.get(name))
    }

    /// Keeps a value under `word`, or under the next free name of its kind; the same value is kept once.
    ///
    /// The name is made of names only: an id must never hold a piece of what it stands for.
    #[must_use]
    pub fn keep(&mut self, word: &str, value: &str) -> Option<SecretName> {
        for candidate in candidates(word) {
            let name: SecretName = candidate.parse().ok()?;
            match self.get(&name) {
                Some(found) if found.reveal() == value => return Some(name),
                Some(_) => {}
                None if self.asked.iter().any(|asked| asked.name == name) => {}
                None => {
                    self.fresh
                        .insert(name.clone(), SecretValue::new(value.to_owned()));
                    return Some(name);
                }
            }
        }
        None
    }

    /// Returns the name of a secret that the client would ask for; one that is stored already is not asked for.
    #[must_use]
    pub fn ask(&mut self, word: &str, question: &str) -> Option<SecretName> {
        let name: SecretName = word.parse().ok()?;
        if self.get(&name).is_none() && self.asked.iter().all(|asked| asked.name != name) {
            self.asked.push(Asked {
                name: name.clone(),
                question: question.to_owned(),
            });
        }
        Some(name)
    }
}

fn candidates(word: &str) -> impl Iterator<Item = String> {
    let numbered = (2..1_000).map({
        let word = word.to_owned();
        move |n| format!("{word}-{n}")
    });
    std::iter::once(word.to_owned()).chain(numbered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s14_names_are_made_of_names_and_a_value_is_kept_once() {
        let mut vault = Vault::default();
        let first = vault.keep("github-token", "canary-one").unwrap();
        assert_eq!(vault.keep("github-token", "canary-one").unwrap(), first);
        let second = vault.keep("github-token", "canary-two").unwrap();
        assert_eq!(
            (first.as_str(), second.as_str()),
            ("github-token", "github-token-2")
        );
        assert_eq!(vault.ask("asked", "Which?").unwrap().as_str(), "asked");
        assert_eq!(vault.ask("github-token", "Which?").unwrap(), first);
        assert_eq!(vault.asked.len(), 1);
        assert!(!format!("{vault:?}").contains("canary"));
    }
}
