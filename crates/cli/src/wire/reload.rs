//! Following configuration, policy and secrets while a home is open.

use std::sync::Arc;

use pentad_catalog::{Catalog, Gate};
use pentad_engine::Redactor;
use pentad_keeper::{Config, Home};
use pentad_recipe::Watch;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::servers::Servers;

/// Follows a home's own files until it is stopped.
pub struct Reload {
    watch: Option<Watch>,
    task: JoinHandle<()>,
}

/// What takes changes into force.
pub struct Followers {
    pub home: Home,
    pub servers: Arc<Servers>,
    pub catalog: Arc<Catalog>,
    pub gate: Arc<Gate>,
    pub redactor: Redactor,
}

impl Reload {
    /// Starts following. Where the system cannot watch, changes are taken at the next start, and a warning says so.
    pub fn start(followers: Followers) -> Self {
        let (changed, mut changes) = mpsc::channel(1);
        let roots = vec![followers.home.path().to_path_buf(), followers.home.keys()];
        let watch = Watch::start(
            roots,
            // A waiting signal is enough: whoever takes it reads everything.
            move || {
                let _ = changed.try_send(());
            },
            |reason| tracing::warn!(reason, "configuration is not followed any more"),
        );
        let watch = watch
            .inspect_err(|error| tracing::warn!(%error, "configuration is not followed"))
            .ok();
        let task = tokio::spawn(async move {
            while changes.recv().await.is_some() {
                followers.take().await;
            }
        });
        Self { watch, task }
    }

    /// Stops following.
    pub async fn stop(self) {
        if let Some(watch) = self.watch {
            // The watch's thread ends at its next look; the channel closes with it.
            let _ = tokio::task::spawn_blocking(move || watch.stop()).await;
        } else {
            self.task.abort();
        }
        let _ = self.task.await;
    }
}

impl Followers {
    /// Reads everything again. What cannot be read leaves in force what was before, and is reported.
    async fn take(&self) {
        match super::secret_values(&self.home) {
            Ok(values) => self.redactor.replace(values),
            Err(error) => tracing::warn!(%error, "secrets could not be read again"),
        }
        match std::fs::read_to_string(self.home.policy_file()) {
            Ok(text) => {
                if let Err(error) = self.gate.reload(&text) {
                    tracing::warn!(%error, "the changed policy is not taken; the one before stays in force");
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                // An absent policy is the default one; parsing nothing cannot fail.
                let _ = self.gate.reload("");
            }
            Err(error) => tracing::warn!(%error, "the policy could not be read again"),
        }
        match Config::load(&self.home) {
            Ok(config) => {
                if let Err(error) = self.servers.apply(&config, &self.catalog).await {
                    tracing::warn!(%error, "changed servers were not taken");
                }
            }
            Err(error) => tracing::warn!(%error, "the changed configuration is not taken"),
        }
    }
}
