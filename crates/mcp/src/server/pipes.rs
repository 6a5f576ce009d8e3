//! The standard streams of a server's process.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::ErrorCode;
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, RunningService, serve_client_with_lifecycle_and_ct,
};
use tokio_util::sync::CancellationToken;

use super::client::ClientEnd;
use super::config::CommandLine;
use super::core::Core;
use super::guard::{DEPTH_VARIABLE, resolve};
use super::launch::{LaunchFailure, LaunchSpec, Launched, ServerProcess};
use super::log::stderr_line;
use super::routes::Routes;
use super::stderr::StderrTail;
use crate::lines::LineTransport;

/// How long a server may take to end by itself once its input is closed.
const AFTER_EOF: Duration = Duration::from_millis(1_000);
/// How long it may take after the polite signal.
const GRACE: Duration = Duration::from_millis(1_000);
/// How long its end is waited for in all.
const END_LIMIT: Duration = Duration::from_millis(3_500);

/// A process with its streams.
pub struct Pipes {
    pub process: Arc<dyn ServerProcess>,
    pub lines: LineTransport,
    pub stderr: Arc<StderrTail>,
}

impl Pipes {
    /// Starts the server's process in `cwd`; what it writes to stderr during a call belongs to the call.
    ///
    /// # Errors
    /// Says why the program could not be started.
    pub async fn launch(
        core: &Core,
        line: &CommandLine,
        cwd: PathBuf,
        routes: &Arc<Routes>,
    ) -> Result<Self, LaunchFailure> {
        let (name, runtime) = (&core.config.name, &core.runtime);
        let mut env = runtime.env.clone();
        env.extend(line.env.clone());
        env.insert(DEPTH_VARIABLE.to_owned(), (runtime.depth + 1).to_string());
        let own = runtime.own_executable.as_deref();
        let spec = LaunchSpec {
            name: name.clone(),
            program: resolve(name, &line.program, &env, own, runtime.depth)?,
            args: line.args.clone(),
            env,
            cwd,
        };
        let Launched {
            stdin,
            stdout,
            stderr: diagnostics,
            process,
        } = runtime.launcher.launch(spec).await?;
        let stderr = Arc::new(StderrTail::new(core.mask()));
        let tail = Arc::clone(&stderr);
        // Ends with the stream, which ends with the process.
        let (routes, mask) = (Arc::clone(routes), core.mask());
        core.tasks.spawn(async move {
            let tell = |said: &[u8]| routes.log(stderr_line(said, &mask));
            tail.follow(diagnostics, tell).await;
        });
        Ok(Self {
            process,
            lines: LineTransport::server(stdout, stdin, core.config.limits.max_message_bytes),
            stderr,
        })
    }

    /// Opens the connection once; a failed attempt leaves the pipes usable for another.
    pub async fn attempt(
        &self,
        end: &ClientEnd,
        mode: ClientLifecycleMode,
        ct: &CancellationToken,
    ) -> Result<RunningService<RoleClient, ClientEnd>, ClientInitializeError> {
        serve_client_with_lifecycle_and_ct(end.clone(), self.lines.clone(), mode, ct.clone()).await
    }

    /// Tells whether the server answered that it does not know this opening, so that the connection is sound.
    pub fn is_answered(error: &ClientInitializeError) -> bool {
        match error {
            ClientInitializeError::JsonRpcError(error) => {
                error.code != ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY
                    && error.code != ErrorCode::INTERNAL_ERROR
            }
            ClientInitializeError::NoCompatibleProtocolVersion { .. } => true,
            _ => false,
        }
    }

    /// Closes the server's input and ends what does not end by itself, within a limit.
    pub async fn end(&self) {
        self.lines.close_output().await;
        let ended = tokio::time::timeout(END_LIMIT, async {
            self.process.end(AFTER_EOF, GRACE).await;
            self.process.wait().await
        });
        if ended.await.is_err() {
            tracing::warn!(
                pid = self.process.pid(),
                "a server has not ended within its limit; its launcher still owns it"
            );
        }
    }
}
