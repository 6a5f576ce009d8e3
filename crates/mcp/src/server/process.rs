//! Servers as trees of processes under the spawner.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pentad_model::RunId;
use pentad_process::{Child, CommandSpec, EndedBy, Exit, Spawner, Stdio};
use tokio::time::timeout;

use super::launch::{LaunchFailure, LaunchSpec, Launched, ServerLauncher, ServerProcess};

/// Starts servers through the home's spawner, so that none outlives its owner, whatever way that goes.
#[derive(Debug, Clone)]
pub struct SpawnerLauncher {
    spawner: Arc<Spawner>,
}

impl SpawnerLauncher {
    /// Creates a launcher that uses `spawner`.
    #[must_use]
    pub fn new(spawner: Arc<Spawner>) -> Self {
        Self { spawner }
    }
}

#[async_trait]
impl ServerLauncher for SpawnerLauncher {
    async fn launch(&self, spec: LaunchSpec) -> Result<Launched, LaunchFailure> {
        // A server belongs to no run; its mark only has to find its tree again.
        let mark = format!("server.{}.{}", spec.name, RunId::generate());
        let mut command = CommandSpec::new(&spec.program, &spec.cwd, mark);
        command.args = spec.args.iter().map(Into::into).collect();
        command.env = spec
            .env
            .iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        command.stdin = Stdio::Piped;
        command.stdout = Stdio::Piped;
        command.stderr = Stdio::Piped;
        let failed =
            |text: String| LaunchFailure(format!("server '{}' could not be started: {text}", spec.name));
        let mut child = self
            .spawner
            .spawn(command)
            .await
            .map_err(|error| failed(error.to_string()))?;
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            child.terminate(Duration::ZERO).await;
            return Err(failed("its standard streams are missing".to_owned()));
        };
        Ok(Launched {
            stdin: Box::new(stdin),
            stdout: Box::new(stdout),
            stderr: Box::new(stderr),
            process: Arc::new(Tree(child)),
        })
    }
}

/// The tree of one server.
struct Tree(Child);

#[async_trait]
impl ServerProcess for Tree {
    fn pid(&self) -> Option<i32> {
        Some(self.0.pid())
    }

    async fn wait(&self) -> String {
        describe(&self.0.wait().await)
    }

    async fn end(&self, after_eof: Duration, grace: Duration) {
        if timeout(after_eof, self.0.wait()).await.is_err() {
            self.0.terminate(grace).await;
        }
    }
}

fn describe(exit: &Exit) -> String {
    let mut text = match (exit.code, exit.signal) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "its end was not seen".to_owned(),
    };
    match exit.ended_by {
        EndedBy::Nothing | EndedBy::Cancel => {}
        EndedBy::WallLimit => text.push_str(", at its time limit"),
        EndedBy::OwnerGone => text.push_str(", because the spawner was lost"),
    }
    if exit.survivors > 0 {
        text.push_str(&format!(
            "; {} of its processes could not be ended",
            exit.survivors
        ));
    }
    text
}
