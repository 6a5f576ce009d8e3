//! Starting a server's process: the seam to whoever owns processes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite};

/// A process to be started with its three standard streams piped.
#[derive(Clone)]
pub struct LaunchSpec {
    /// The server's name, for marks and messages.
    pub name: String,
    /// The program: an absolute path.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its whole environment; nothing is inherited.
    pub env: BTreeMap<String, String>,
    /// Its working folder.
    pub cwd: PathBuf,
}

/// A started process.
pub struct Launched {
    /// Its input.
    pub stdin: Box<dyn AsyncWrite + Send + Unpin>,
    /// Its output.
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
    /// Its diagnostics.
    pub stderr: Box<dyn AsyncRead + Send + Unpin>,
    /// Its life.
    pub process: Arc<dyn ServerProcess>,
}

/// Why a process did not start. The text names the program and the next step.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct LaunchFailure(pub String);

/// A process and everything that it started.
#[async_trait]
pub trait ServerProcess: Send + Sync {
    /// Returns its process id.
    fn pid(&self) -> Option<i32>;

    /// Waits until its whole tree is gone and says how it ended, for example `exit code 3`.
    /// May be called often and at once, and be dropped.
    async fn wait(&self) -> String;

    /// Asks for the end of the tree: a polite signal after `after_eof`, the last one after `grace`. Its input is
    /// closed by the caller.
    async fn end(&self, after_eof: Duration, grace: Duration);
}

/// Starts processes.
#[async_trait]
pub trait ServerLauncher: Send + Sync {
    /// Starts one process; it belongs to the launcher's owner and never outlives it.
    ///
    /// # Errors
    /// Says why the program could not be started.
    async fn launch(&self, spec: LaunchSpec) -> Result<Launched, LaunchFailure>;
}
