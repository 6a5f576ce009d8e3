//! Carrying a plan out: secrets, then our configuration, then the client's file. Whatever stops it on the way leaves
//! the client with all that it had.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pentad_keeper::edit::EditRefused;
use pentad_keeper::lock::{WRITER_LIMIT, WriterLock};
use pentad_keeper::{ConfigError, Home, SecretError, SecretName, SecretValue, Secrets, edit_config};
use toml_edit::{Array, DocumentMut, Item, Table, value};

use crate::file::{FileError, Snapshot, SnapshotError};
use crate::plan::{Fate, Plan};
use crate::record::{Record, RecordError, digest};
use crate::replace::{ReplaceError, Replacement, back_up};

/// Why a plan was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The client's file is not what the plan was made from.
    #[error(
        "{path} was changed since it was shown; nothing was changed\nNext: repeat, and look at the plan again"
    )]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// A secret of the same name was set meanwhile.
    #[error(
        "the secret '{name}' was set to something else meanwhile; nothing was changed\nNext: repeat, and look at the plan again"
    )]
    SecretTaken {
        /// The secret.
        name: SecretName,
    },
    /// Another import works in this home.
    #[error("{path} is locked: another import works in this home\nNext: wait for it, then repeat")]
    Locked {
        /// The lock.
        path: PathBuf,
    },
    /// The client's file cannot be read or changed.
    #[error(transparent)]
    File(#[from] FileError),
    /// The client's file cannot be replaced.
    #[error(transparent)]
    Replace(#[from] ReplaceError),
    /// The secret store cannot be written.
    #[error(transparent)]
    Secrets(#[from] SecretError),
    /// Our configuration cannot be written.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The import could not be remembered.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The last step failed: everything but the client's file is done.
    #[error(
        "the servers are in {config}, but the client's file is as it was: {source}\nNext: repeat; servers that are there already are not added twice"
    )]
    LastStep {
        /// Our configuration.
        config: PathBuf,
        /// What stopped it.
        source: Box<Self>,
    },
}

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// The file that was changed.
    pub file: PathBuf,
    /// Its old content.
    pub backup: PathBuf,
    /// The servers that were added.
    pub servers: Vec<String>,
    /// The secrets that were stored.
    pub secrets: Vec<SecretName>,
    /// The secrets that are still to be set.
    pub missing: Vec<SecretName>,
}

/// Carries `plan` out; `answers` are the values of secrets that a person was asked for.
///
/// # Errors
/// Fails before anything is changed when the client's file was changed, is read-only, or cannot be kept; the texts say
/// what was done otherwise.
pub fn apply(
    home: &Home,
    plan: &Plan,
    answers: &BTreeMap<SecretName, SecretValue>,
) -> Result<Applied, ApplyError> {
    let _lock = lock(home)?;
    let file = &plan.file;
    unchanged(plan)?;
    let text = plan.changed_text()?;
    let replacement = Replacement::prepare(&file.target, text.as_bytes(), file.mode, file.owner)?;
    let secrets = Secrets::of(home);
    let values: BTreeMap<&SecretName, &SecretValue> = plan.vault.fresh.iter().chain(answers).collect();
    free(&secrets, &values)?;
    let (backup, number) = back_up(&file.target, file.text.as_bytes())?;
    let servers = added(plan);
    let record = Record {
        target: file.target.clone(),
        backup: backup.clone(),
        number,
        before: digest(file.text.as_bytes()),
        written: digest(text.as_bytes()),
        syntax: file.syntax,
        changes: plan.changes(),
        servers: servers.clone(),
    };
    let kept = store(home, &secrets, &values, plan).and_then(|()| Ok(record.store(home)?));
    if let Err(error) = kept {
        // Nothing of the client's was touched, so the copy is not needed.
        let _ = std::fs::remove_file(&backup);
        return Err(error);
    }
    let last = unchanged(plan).and_then(|()| Ok(replacement.commit()?));
    if let Err(error) = last {
        let _ = record.forget(home);
        let _ = std::fs::remove_file(&backup);
        return Err(ApplyError::LastStep {
            config: home.config_file(),
            source: Box::new(error),
        });
    }
    let missing = plan.asked().iter().map(|asked| asked.name.clone());
    Ok(Applied {
        file: file.path.clone(),
        backup,
        servers,
        secrets: values.keys().map(|name| (*name).clone()).collect(),
        missing: missing.filter(|name| !answers.contains_key(name)).collect(),
    })
}

/// Takes the lock under which one import at a time works in a home.
pub(crate) fn lock(home: &Home) -> Result<WriterLock, ApplyError> {
    let path = home.state().join("import.lock");
    WriterLock::take(&path, WRITER_LIMIT).map_err(|_| ApplyError::Locked { path })
}

/// Reads the file anew and compares it with what was shown, behind the same links.
fn unchanged(plan: &Plan) -> Result<(), ApplyError> {
    let file = &plan.file;
    let changed = || ApplyError::Changed {
        path: file.path.clone(),
    };
    let unreadable = |source| FileError::Unreadable {
        path: file.path.clone(),
        source,
    };
    let target = std::fs::canonicalize(&file.path).map_err(unreadable)?;
    let now = Snapshot::take(&target).map_err(|error| match error {
        SnapshotError::Unreadable(source) => unreadable(source).into(),
        SnapshotError::NotAFile | SnapshotError::TooLarge => changed(),
    })?;
    if target == file.target && now.bytes == file.text.as_bytes() {
        Ok(())
    } else {
        Err(changed())
    }
}

/// Refuses when a name got another value since the plan was made.
fn free(secrets: &Secrets, values: &BTreeMap<&SecretName, &SecretValue>) -> Result<(), ApplyError> {
    for (name, value) in values {
        if secrets.get(name)?.is_some_and(|found| found != **value) {
            return Err(ApplyError::SecretTaken {
                name: (*name).clone(),
            });
        }
    }
    Ok(())
}

fn added(plan: &Plan) -> Vec<String> {
    let names = plan.servers.iter().filter_map(|one| match &one.fate {
        Fate::Added { name, .. } => Some(name.clone()),
        Fate::Reused { .. } | Fate::Stays { .. } | Fate::Pentad => None,
    });
    names.collect()
}

/// Stores secrets and configuration; secrets that were new go again when the configuration does not take the servers.
fn store(
    home: &Home,
    secrets: &Secrets,
    values: &BTreeMap<&SecretName, &SecretValue>,
    plan: &Plan,
) -> Result<(), ApplyError> {
    let mut fresh = Vec::new();
    let mut stored = || -> Result<(), ApplyError> {
        for (name, value) in values {
            if !secrets.set(name, value)? {
                fresh.push(*name);
            }
        }
        Ok(edit_config(home, |document| write(document, plan))?)
    };
    let result = stored();
    if result.is_err() {
        for name in fresh {
            let _ = secrets.remove(name);
        }
    }
    result
}

fn write(document: &mut DocumentMut, plan: &Plan) -> Result<(), EditRefused> {
    let again = "repeat, and look at the plan again";
    let refused = |message: String| EditRefused {
        message,
        next: again.to_owned(),
    };
    for one in &plan.servers {
        if let Fate::Added { name, entry, .. } = &one.fate {
            let servers = section(document, "servers")?;
            if servers.contains_key(name) {
                return Err(refused(format!("a server '{name}' was added meanwhile")));
            }
            servers.insert(name, Item::Table(entry.table()));
        }
    }
    let Some(client) = plan.file.client.filter(|_| !plan.grants.is_empty()) else {
        return Ok(());
    };
    let clients = section(document, "clients")?;
    let client = clients
        .entry(client.word())
        .or_insert_with(|| Item::Table(Table::new()));
    let client = client.as_table_like_mut().ok_or_else(|| {
        refused(format!(
            "'clients.{}' is not a table",
            plan.file.client.map_or("", |c| c.word())
        ))
    })?;
    let grants = client.entry("grants").or_insert_with(|| value(Array::new()));
    let grants = grants
        .as_array_mut()
        .ok_or_else(|| refused("its grants are not a list".to_owned()))?;
    for grant in &plan.grants {
        if grants.iter().all(|known| known.as_str() != Some(grant)) {
            grants.push(grant);
        }
    }
    Ok(())
}

fn section<'d>(
    document: &'d mut DocumentMut,
    key: &str,
) -> Result<&'d mut dyn toml_edit::TableLike, EditRefused> {
    let item = document.entry(key).or_insert_with(|| {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    });
    item.as_table_like_mut().ok_or_else(|| EditRefused {
        message: format!("'{key}' is not a table"),
        next: format!("write {key} as [{key}.NAME] sections"),
    })
}
