//! Starts the commands of a recipe as guarded process trees.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use pentad_model::invocation::Workspace;
use pentad_model::{Caller, Refusal, RunId};
use pentad_process::{
    CaptureLimits, Captured, CommandSpec, EndedBy, OutputLimits, SpawnError, Spawner, run_to_end,
};
use pentad_template::{Input, LaunchRequest, Launched, Launcher, Stream};
use tokio_util::sync::CancellationToken;

/// Describes the call whose commands are to be started.
#[derive(Debug, Clone)]
pub struct Job {
    /// Marks every process.
    pub run: RunId,
    /// Takes long output.
    pub run_dir: PathBuf,
    /// Is where commands run.
    pub workspace: Workspace,
    /// Says who calls.
    pub caller: Caller,
    /// Are names of environment variables that the recipe declares.
    pub env: Vec<String>,
    /// Are the caller's own variables, when it is another process.
    pub environment: Option<Arc<pentad_program::Environment>>,
    /// Lets processes outlive the command.
    pub leaves_processes: bool,
}

/// Holds what the commands of one call are started with.
#[derive(Clone)]
pub struct Opened {
    /// Starts them.
    pub launcher: Arc<dyn Launcher>,
    /// Is the `PATH` in which interpreters of scripts are found.
    pub path: String,
    /// Is the home directory that `~` stands for.
    pub home: Option<PathBuf>,
}

/// Makes launchers for calls.
pub trait Launchers: Send + Sync {
    /// Returns a launcher for the commands of one call; refuses, for example, when a declared variable is missing.
    fn open(&self, job: &Job) -> Result<Opened, Refusal>;
}

/// Returns the whole environment of a call's commands.
pub type Environment = dyn Fn(&Job) -> Result<BTreeMap<OsString, OsString>, Refusal> + Send + Sync;

/// Bounds what is kept of the output of one command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputBounds {
    /// Are the first bytes kept in memory.
    pub head_bytes: usize,
    /// Are the last bytes kept in memory.
    pub tail_bytes: usize,
    /// Is the most that the file with everything may take.
    pub spill_cap: u64,
}

impl Default for OutputBounds {
    fn default() -> Self {
        Self {
            head_bytes: 512 * 1024,
            tail_bytes: 512 * 1024,
            spill_cap: 1024 * 1024 * 1024,
        }
    }
}

/// Makes launchers over one spawner.
#[derive(Clone)]
pub struct ProcessLaunchers {
    spawner: Arc<Spawner>,
    environment: Arc<Environment>,
    bounds: OutputBounds,
}

impl ProcessLaunchers {
    /// Returns launchers that start commands with this environment.
    pub fn new(spawner: Arc<Spawner>, environment: Arc<Environment>, bounds: OutputBounds) -> Self {
        Self {
            spawner,
            environment,
            bounds,
        }
    }
}

impl Launchers for ProcessLaunchers {
    fn open(&self, job: &Job) -> Result<Opened, Refusal> {
        let env = (self.environment)(job)?;
        let value = |name: &str| {
            env.get(std::ffi::OsStr::new(name))
                .map(|value| value.to_string_lossy().into_owned())
        };
        let path = value("PATH").unwrap_or_default();
        let home = value("HOME").map(PathBuf::from);
        let launcher = Arc::new(ProcessLauncher {
            spawner: Arc::clone(&self.spawner),
            env,
            job: job.clone(),
            bounds: self.bounds,
            count: AtomicU32::new(0),
        });
        Ok(Opened { launcher, path, home })
    }
}

struct ProcessLauncher {
    spawner: Arc<Spawner>,
    env: BTreeMap<OsString, OsString>,
    job: Job,
    bounds: OutputBounds,
    count: AtomicU32,
}

impl ProcessLauncher {
    fn limits(&self, number: u32, stream: &str) -> CaptureLimits {
        CaptureLimits {
            head_bytes: self.bounds.head_bytes,
            tail_bytes: self.bounds.tail_bytes,
            spill: Some(self.job.run_dir.join(format!("command-{number:03}.{stream}"))),
            spill_cap: self.bounds.spill_cap,
        }
    }

    fn spec(&self, request: &LaunchRequest) -> CommandSpec {
        let mut argv = request.argv.iter();
        let program = argv.next().cloned().unwrap_or_default();
        let mut spec = CommandSpec::new(program, &self.job.workspace.cwd, self.job.run.to_string());
        spec.args = argv.map(OsString::from).collect();
        spec.env.clone_from(&self.env);
        spec.limits.wall = request.timeout;
        spec.leaves_processes = self.job.leaves_processes;
        spec
    }
}

#[async_trait]
impl Launcher for ProcessLauncher {
    async fn launch(&self, request: LaunchRequest, cancel: &CancellationToken) -> Launched {
        let number = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        let output = OutputLimits {
            stdout: self.limits(number, "stdout"),
            stderr: self.limits(number, "stderr"),
        };
        let input = match &request.stdin {
            Input::None => None,
            Input::Bytes(bytes) => Some(bytes.to_vec().into()),
        };
        let finished = Box::pin(run_to_end(
            &self.spawner,
            self.spec(&request),
            input,
            output,
            cancel,
        ))
        .await;
        match finished {
            Ok(finished) => Launched {
                code: finished.exit.code.unwrap_or(1),
                signal: finished.exit.signal,
                killed: finished.exit.ended_by != EndedBy::Nothing || finished.limit_hit.is_some(),
                stdout: stream(finished.stdout),
                stderr: stream(finished.stderr),
            },
            Err(error) => Launched {
                code: code_of(&error),
                stderr: Stream::complete(error.to_string()),
                ..Launched::default()
            },
        }
    }

    async fn read_all(&self, stream: &Stream, limit: u64) -> io::Result<Vec<u8>> {
        if stream.total_bytes > limit {
            return Err(io::Error::other(format!(
                "the output has {} bytes; the next step can read at most {limit}",
                stream.total_bytes
            )));
        }
        match &stream.file {
            Some(file) if stream.truncated => {
                let bytes = tokio::fs::read(file).await?;
                let whole = u64::try_from(bytes.len()).is_ok_and(|length| length == stream.total_bytes);
                if whole {
                    Ok(bytes)
                } else {
                    Err(io::Error::other("a part of the output was not kept"))
                }
            }
            _ if stream.truncated => Err(io::Error::other("a part of the output was not kept")),
            _ => Ok(stream.head.clone()),
        }
    }
}

/// Returns the code that a shell gives: 127 if there is no such command, 126 if it cannot be run.
fn code_of(error: &SpawnError) -> i32 {
    match error {
        SpawnError::NotFound { .. } | SpawnError::NoSuchFile { .. } => 127,
        _ => 126,
    }
}

fn stream(captured: Captured) -> Stream {
    let truncated = captured.omitted_bytes() > 0;
    let (total_bytes, file) = (captured.total_bytes, captured.spilled);
    if truncated {
        return Stream {
            head: captured.head,
            tail: captured.tail,
            total_bytes,
            truncated,
            file,
        };
    }
    let mut head = captured.head;
    head.extend(captured.tail);
    Stream {
        head,
        tail: Vec::new(),
        total_bytes,
        truncated,
        file,
    }
}

/// Returns where the interpreters of scripts are, for a site.
pub(crate) fn site(opened: &Opened, cwd: &Path, recipe_dir: Option<&Path>) -> pentad_template::Site {
    pentad_template::Site {
        cwd: cwd.to_owned(),
        home: opened.home.clone(),
        recipe_dir: recipe_dir.map(Path::to_owned),
        interpreters: pentad_template::Interpreters::find(&opened.path),
    }
}

/// Is the time after which a call without a limit of its own is ended.
pub(crate) const LONGEST_CALL: Duration = Duration::from_secs(24 * 60 * 60);
