//! Variables: what this process has, what faces send, and what of it commands and servers see.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::sync::{Arc, PoisonError, RwLock};

use pentad_model::{Refusal, RefusalKind};
use pentad_process::clean_env;
use pentad_recipe::{Environment, Job};

/// The variables of this process, and what of a caller's counts. They live in memory only.
pub struct Variables {
    own: BTreeMap<OsString, OsString>,
    /// Names that the configuration declares.
    declared: RwLock<Vec<String>>,
}

impl Variables {
    /// Returns the variables of this process; `declared` are names that commands may see besides the standard ones.
    pub fn of_process(declared: Vec<String>) -> Arc<Self> {
        Arc::new(Self {
            own: std::env::vars_os().collect(),
            declared: RwLock::new(declared),
        })
    }

    /// Takes the names that the configuration declares by now.
    pub fn declare(&self, names: Vec<String>) {
        *self.declared.write().unwrap_or_else(PoisonError::into_inner) = names;
    }

    /// Returns the names that the configuration declares.
    pub fn declared(&self) -> Vec<String> {
        self.declared
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Returns the variables of this process: those of calls that bring none.
    pub const fn own(&self) -> &BTreeMap<OsString, OsString> {
        &self.own
    }
}

/// Returns the environment of each call's commands: made from the caller's own variables, or from this process's.
pub fn of_commands(variables: Arc<Variables>) -> Arc<Environment> {
    Arc::new(move |job: &Job| match &job.environment {
        Some(sent) => visible(&sent.0, &variables.declared(), job),
        None => visible(variables.own(), &variables.declared(), job),
    })
}

fn visible(
    face: &BTreeMap<OsString, OsString>,
    declared: &[String],
    job: &Job,
) -> Result<BTreeMap<OsString, OsString>, Refusal> {
    let missing = |name: &&String| !face.contains_key(OsStr::new(name.as_str()));
    if let Some(missing) = job.env.iter().find(missing) {
        let message = format!("The recipe needs the environment variable {missing}, which is not set here.");
        return Err(
            Refusal::new(RefusalKind::Invalid, missing.as_str(), message).next_step(format!(
                "set {missing} where pentad is started, then repeat the call"
            )),
        );
    }
    let declared: Vec<String> = declared.iter().chain(&job.env).cloned().collect();
    Ok(clean_env(face, &declared))
}
