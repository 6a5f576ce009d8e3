//! The home's secrets: names and values in one private file.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;

use toml_edit::{DocumentMut, value};

use crate::durable::replace_file;
use crate::home::Home;
use crate::lock::{WRITER_LIMIT, WriterLock};

/// Longest value of a secret in bytes.
pub const MAX_SECRET_BYTES: usize = 64 * 1024;

/// A secret's name: the characters of any name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecretName(pentad_model::Name);

impl SecretName {
    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl fmt::Display for SecretName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for SecretName {
    type Err = pentad_model::actor::NameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

/// A value that never shows itself: neither `Debug` nor `Display` has its text.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretValue(String);

impl SecretValue {
    /// Wraps a value.
    #[must_use]
    pub const fn new(text: String) -> Self {
        Self(text)
    }

    /// Returns the text; every use of it is found by this name.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretValue(…)")
    }
}

impl fmt::Display for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// Why a secret could not be read or written. No variant holds a value or a line of the file.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The file cannot be read.
    #[error("{path} cannot be read: {source}\nNext: check its owner and mode (it should be 0600)")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is not what we write. It is kept as it is.
    #[error(
        "{path} line {line} is not valid: expected NAME = \"value\"; the file was left as it is\nNext: repair that line, or move the file away and set the secrets again"
    )]
    Broken {
        /// The file.
        path: PathBuf,
        /// Where.
        line: usize,
    },
    /// The file cannot be written.
    #[error(
        "{path} could not be written: {source}; nothing was changed\nNext: free space or check permissions, then repeat"
    )]
    NotWritten {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A value that cannot be stored.
    #[error("the value of '{name}' {reason}")]
    BadValue {
        /// The secret.
        name: String,
        /// Why.
        reason: &'static str,
    },
}

/// The secrets of one home. Reads the file each time: another process may have changed it.
#[derive(Debug, Clone)]
pub struct Secrets {
    path: PathBuf,
    lock: PathBuf,
}

impl Secrets {
    /// Returns the secrets of `home`, whose directories exist.
    #[must_use]
    pub fn of(home: &Home) -> Self {
        Self {
            path: home.secrets_file(),
            lock: home.keys().join("secrets.lock"),
        }
    }

    /// Returns the file that holds them.
    #[must_use]
    pub fn file(&self) -> &std::path::Path {
        &self.path
    }

    /// Returns the names in order.
    ///
    /// # Errors
    /// Fails when the file cannot be read.
    pub fn list(&self) -> Result<Vec<SecretName>, SecretError> {
        let document = self.load()?;
        let mut names: Vec<SecretName> = document
            .iter()
            .filter_map(|(name, _)| name.parse().ok())
            .collect();
        names.sort();
        Ok(names)
    }

    /// Returns a value, if it is set.
    ///
    /// # Errors
    /// Fails when the file cannot be read.
    pub fn get(&self, name: &SecretName) -> Result<Option<SecretValue>, SecretError> {
        let document = self.load()?;
        let found = document.get(name.as_str()).and_then(toml_edit::Item::as_str);
        Ok(found.map(|text| SecretValue::new(text.to_owned())))
    }

    /// Sets a value, durably; tells whether there was one before.
    ///
    /// # Errors
    /// Refuses empty, oversized and NUL-carrying values; fails when the file cannot be read or written.
    pub fn set(&self, name: &SecretName, secret: &SecretValue) -> Result<bool, SecretError> {
        check(name, secret)?;
        self.update(|document| document.insert(name.as_str(), value(secret.reveal())).is_some())
    }

    /// Sets and removes several values at once, durably: all of them, or none.
    ///
    /// # Errors
    /// Refuses as [`Self::set`] does; fails when the file cannot be read or written.
    pub fn change(&self, changes: &[(SecretName, Option<SecretValue>)]) -> Result<(), SecretError> {
        for (name, secret) in changes {
            if let Some(secret) = secret {
                check(name, secret)?;
            }
        }
        self.update(|document| {
            for (name, secret) in changes {
                match secret {
                    Some(secret) => drop(document.insert(name.as_str(), value(secret.reveal()))),
                    None => drop(document.remove(name.as_str())),
                }
            }
        })
    }

    /// Returns the values of these names that are set, from one reading of the file.
    ///
    /// # Errors
    /// Fails when the file cannot be read.
    pub fn get_all(&self, names: &[SecretName]) -> Result<Vec<Option<SecretValue>>, SecretError> {
        let document = self.load()?;
        let found = |name: &SecretName| {
            let text = document.get(name.as_str()).and_then(toml_edit::Item::as_str)?;
            Some(SecretValue::new(text.to_owned()))
        };
        Ok(names.iter().map(found).collect())
    }

    /// Removes a value, durably; tells whether there was one.
    ///
    /// # Errors
    /// Fails when the file cannot be read or written.
    pub fn remove(&self, name: &SecretName) -> Result<bool, SecretError> {
        self.update(|document| document.remove(name.as_str()).is_some())
    }

    fn load(&self) -> Result<DocumentMut, SecretError> {
        let text = match std::fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(source) => {
                return Err(SecretError::Unreadable {
                    path: self.path.clone(),
                    source,
                });
            }
        };
        let broken = |at: usize| SecretError::Broken {
            path: self.path.clone(),
            line: crate::config::line_at(&text, at),
        };
        let document = toml_edit::Document::parse(text.as_str())
            .map_err(|error| broken(error.span().map_or(0, |span| span.start)))?;
        for (name, item) in document.as_table() {
            if !item.is_str() || name.parse::<SecretName>().is_err() {
                return Err(broken(item.span().map_or(0, |span| span.start)));
            }
        }
        Ok(document.into_mut())
    }

    fn update<T>(&self, change: impl FnOnce(&mut DocumentMut) -> T) -> Result<T, SecretError> {
        let not_written = |source| SecretError::NotWritten {
            path: self.path.clone(),
            source,
        };
        let _lock = WriterLock::take(&self.lock, WRITER_LIMIT).map_err(not_written)?;
        let mut document = self.load()?;
        let result = change(&mut document);
        replace_file(&self.path, document.to_string().as_bytes(), Some(0o600)).map_err(not_written)?;
        Ok(result)
    }
}

fn check(name: &SecretName, secret: &SecretValue) -> Result<(), SecretError> {
    let bad = |reason| SecretError::BadValue {
        name: name.to_string(),
        reason,
    };
    match secret.reveal() {
        "" => Err(bad("is empty; pentad secret rm removes a secret")),
        text if text.len() > MAX_SECRET_BYTES => Err(bad("is longer than 64 KiB")),
        text if text.contains('\0') => Err(bad("contains a NUL character")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(dir: &std::path::Path) -> Secrets {
        let home = Home::locate(Some(dir), None, None).unwrap();
        home.prepare().unwrap();
        Secrets::of(&home)
    }

    fn name(text: &str) -> SecretName {
        text.parse().unwrap()
    }

    #[test]
    fn values_come_back_and_the_file_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let secrets = secrets(dir.path());
        let odd = "multi\nline \"quoted\" \\ 日本 ${x}";
        assert!(
            !secrets
                .set(&name("a.b"), &SecretValue::new(odd.to_owned()))
                .unwrap()
        );
        assert!(
            secrets
                .set(&name("a.b"), &SecretValue::new(odd.to_owned()))
                .unwrap()
        );
        assert_eq!(secrets.get(&name("a.b")).unwrap().unwrap().reveal(), odd);
        assert_eq!(crate::home::mode_of(secrets.file()), Some(0o600));
        assert_eq!(secrets.list().unwrap(), [name("a.b")]);
        assert!(secrets.remove(&name("a.b")).unwrap());
        assert!(!secrets.remove(&name("a.b")).unwrap());
        assert_eq!(secrets.get(&name("a.b")).unwrap(), None);
        assert!(secrets.set(&name("x"), &SecretValue::new(String::new())).is_err());
    }

    #[test]
    fn several_values_change_together_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let secrets = secrets(dir.path());
        let value = |text: &str| Some(SecretValue::new(text.to_owned()));
        secrets
            .change(&[(name("a"), value("1")), (name("b"), value("2"))])
            .unwrap();
        let refused = secrets.change(&[(name("a"), value("3")), (name("c"), value(""))]);
        assert!(refused.is_err());
        secrets
            .change(&[(name("b"), None), (name("c"), value("4"))])
            .unwrap();
        let found = secrets.get_all(&[name("a"), name("b"), name("c")]).unwrap();
        assert_eq!(found, [value("1"), None, value("4")]);
    }

    #[test]
    fn f03_a_broken_file_is_kept_and_its_text_is_not_shown() {
        let dir = tempfile::tempdir().unwrap();
        let secrets = secrets(dir.path());
        let broken = "good = \"1\"\nbad = canary-value\n";
        std::fs::write(secrets.file(), broken).unwrap();
        let error = secrets
            .set(&name("new"), &SecretValue::new("x".to_owned()))
            .unwrap_err();
        assert!(error.to_string().contains("line 2"), "{error}");
        assert!(!format!("{error} {error:?}").contains("canary"), "{error:?}");
        assert_eq!(std::fs::read_to_string(secrets.file()).unwrap(), broken);
    }
}
