//! The environment of commands: what a face may send, and what a recipe declares.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use pentad_model::{Refusal, RefusalKind};
use pentad_process::clean_env;
use pentad_recipe::{Environment, Job};

/// Returns the environment of each call's commands, made from a face's own.
pub fn of_commands(face: BTreeMap<OsString, OsString>, names: Vec<String>) -> Arc<Environment> {
    Arc::new(move |job: &Job| {
        if let Some(missing) = job
            .env
            .iter()
            .find(|name| !face.contains_key(OsStr::new(name.as_str())))
        {
            let message =
                format!("The recipe needs the environment variable {missing}, which is not set here.");
            return Err(
                Refusal::new(RefusalKind::Invalid, missing.as_str(), message).next_step(format!(
                    "set {missing} where pentad is started, then repeat the call"
                )),
            );
        }
        let declared: Vec<String> = names.iter().chain(&job.env).cloned().collect();
        Ok(clean_env(&face, &declared))
    })
}
