//! What is asked of a command, and what came of it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::SpawnError;
use crate::marker::{LEAVES_VARIABLE, RUN_VARIABLE};
use crate::wire::LaunchSpec;

/// The longest single argument or `NAME=value` that Linux passes to a program, its final zero included.
pub const MAX_ARGUMENT_BYTES: usize = 128 * 1024;

/// One command and everything it may have.
#[derive(Debug, Clone)]
pub struct CommandSpec {
    /// The program: a path if it has a slash (relative to `cwd`), else a name looked up in `env`'s `PATH`.
    pub program: OsString,
    /// The arguments after the program's own name.
    pub args: Vec<OsString>,
    /// The working directory.
    pub cwd: PathBuf,
    /// The complete environment; nothing is inherited.
    pub env: BTreeMap<OsString, OsString>,
    /// What the command reads from.
    pub stdin: Stdio,
    /// Where the command's output goes.
    pub stdout: Stdio,
    /// Where the command's diagnostics go.
    pub stderr: Stdio,
    /// The run that the command belongs to, exported as `PENTAD_RUN` to find it again.
    pub run_marker: String,
    /// What the command may use.
    pub limits: Limits,
    /// Whether descendants may stay when the command itself ends by itself.
    pub leaves_processes: bool,
    /// How long the tree may react to SIGTERM before SIGKILL, whoever ends it.
    pub grace: Duration,
}

/// What one of the three standard streams is joined to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stdio {
    /// `/dev/null`.
    Null,
    /// A pipe whose other end the [`Child`](crate::Child) holds.
    Piped,
}

/// What a command may use; unset is unlimited.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limits {
    /// Time until the whole tree is ended.
    pub wall: Option<Duration>,
    /// Processor time of each process, in whole seconds, rounded up.
    pub cpu: Option<Duration>,
    /// Address space of each process, in bytes.
    pub memory: Option<u64>,
    /// Processes and threads of this *user*, for that is what the kernel counts.
    pub processes: Option<u64>,
    /// Descriptors of each process.
    pub open_files: Option<u64>,
}

impl CommandSpec {
    /// Returns a command without arguments, environment, streams or limits.
    pub fn new(program: impl Into<OsString>, cwd: impl Into<PathBuf>, run_marker: impl Into<String>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            cwd: cwd.into(),
            env: BTreeMap::new(),
            stdin: Stdio::Null,
            stdout: Stdio::Null,
            stderr: Stdio::Null,
            run_marker: run_marker.into(),
            limits: Limits::default(),
            leaves_processes: false,
            grace: Duration::from_secs(2),
        }
    }

    /// Checks what can be checked before anything starts and returns what the warden needs.
    pub(crate) fn to_launch(&self) -> Result<LaunchSpec, SpawnError> {
        let mut argv = vec![self.program.clone()];
        argv.extend(self.args.iter().cloned());
        let mut env: Vec<OsString> = self
            .env
            .iter()
            .filter(|(name, _)| *name != RUN_VARIABLE && *name != LEAVES_VARIABLE)
            .map(|(name, value)| variable(name, value))
            .collect();
        env.push(variable(OsStr::new(RUN_VARIABLE), OsStr::new(&self.run_marker)));
        if self.leaves_processes {
            env.push(variable(OsStr::new(LEAVES_VARIABLE), OsStr::new("1")));
        }
        self.check_words(&argv, &env)?;
        Ok(LaunchSpec {
            candidates: self.candidates(),
            argv,
            env,
            cwd: self.cwd.clone(),
            leaves_processes: self.leaves_processes,
            grace: self.grace,
            wall: self.limits.wall,
            cpu_seconds: self
                .limits
                .cpu
                .map(|time| time.as_secs() + u64::from(time.subsec_nanos() > 0)),
            memory_bytes: self.limits.memory,
            processes: self.limits.processes,
            open_files: self.limits.open_files,
        })
    }

    fn check_words(&self, argv: &[OsString], env: &[OsString]) -> Result<(), SpawnError> {
        let program = || self.program.to_string_lossy().into_owned();
        if self.program.is_empty() {
            return Err(SpawnError::NoProgram);
        }
        let named = (0..).map(Word::Argument).zip(argv);
        let set = env.iter().map(|entry| (Word::of_variable(entry), entry));
        let cwd = std::iter::once((Word::Cwd, &self.cwd));
        let mut total = 0;
        for (word, text) in named
            .chain(set)
            .map(|(word, text)| (word, text.as_os_str()))
            .chain(cwd.map(|(word, path)| (word, path.as_os_str())))
        {
            if text.as_bytes().contains(&0) {
                return Err(SpawnError::Nul {
                    program: program(),
                    word,
                });
            }
            if text.len() >= MAX_ARGUMENT_BYTES {
                let (length, limit) = (text.len(), MAX_ARGUMENT_BYTES - 1);
                return Err(SpawnError::TooLong {
                    program: program(),
                    word,
                    length,
                    limit,
                });
            }
            total += text.len() + 1 + size_of::<usize>();
        }
        let limit = total_limit();
        if total > limit {
            return Err(SpawnError::TooLongInAll {
                program: program(),
                length: total,
                limit,
            });
        }
        Ok(())
    }

    fn candidates(&self) -> Vec<PathBuf> {
        if self.program.as_bytes().contains(&b'/') {
            return vec![PathBuf::from(&self.program)];
        }
        std::env::split_paths(self.path())
            // An empty entry means the working directory to a shell; too surprising to follow.
            .filter(|directory| !directory.as_os_str().is_empty())
            .map(|directory| directory.join(&self.program))
            .collect()
    }

    /// Returns the search path that the command's environment has.
    pub(crate) fn path(&self) -> &OsStr {
        self.env
            .get(OsStr::new("PATH"))
            .map(OsString::as_os_str)
            .unwrap_or_default()
    }

    /// Returns the working directory.
    pub(crate) fn cwd(&self) -> &Path {
        &self.cwd
    }
}

fn variable(name: &OsStr, value: &OsStr) -> OsString {
    let mut entry = name.to_os_string().into_vec();
    entry.push(b'=');
    entry.extend(value.as_bytes());
    OsString::from_vec(entry)
}

/// Returns how much the kernel takes for arguments and environment together: a quarter of the stack limit,
/// at least 128 KiB and at most 6 MiB on Linux.
fn total_limit() -> usize {
    const CEILING: u64 = 6 * 1024 * 1024;
    let stack = rustix::process::getrlimit(rustix::process::Resource::Stack).current;
    let limit = stack.map_or(CEILING, |stack| (stack / 4).clamp(128 * 1024, CEILING));
    usize::try_from(limit).unwrap_or(usize::MAX)
}

/// A part of a command that an error is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Word {
    /// The argument with this number; 0 is the program.
    Argument(usize),
    /// The environment variable with this name.
    Variable(String),
    /// The working directory.
    Cwd,
}

impl Word {
    fn of_variable(entry: &OsStr) -> Self {
        let name = entry
            .as_bytes()
            .split(|byte| *byte == b'=')
            .next()
            .unwrap_or_default();
        Self::Variable(String::from_utf8_lossy(name).into_owned())
    }
}

impl fmt::Display for Word {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Argument(number) => write!(out, "argument {number}"),
            Self::Variable(name) => write!(out, "environment variable {name}"),
            Self::Cwd => out.write_str("the working directory"),
        }
    }
}

/// How the command itself ended; its descendants may still live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommandExit {
    /// The exit code, if it exited.
    pub code: Option<i32>,
    /// The signal, if one ended it.
    pub signal: Option<i32>,
}

/// How a whole tree ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// The command's exit code, if it exited.
    pub code: Option<i32>,
    /// The signal that ended the command, if one did.
    pub signal: Option<i32>,
    /// Who ended the command.
    pub ended_by: EndedBy,
    /// How many descendants outlived a command that ended by itself, and were ended.
    pub leftovers_ended: u32,
    /// How many processes not even SIGKILL could end yet; zero unless the kernel holds them. As long as
    /// this is not zero nobody may say that the tree is gone.
    pub survivors: u32,
}

impl Exit {
    /// Returns whether the command ended by itself with code 0.
    #[must_use]
    pub fn success(&self) -> bool {
        self.code == Some(0) && self.ended_by == EndedBy::Nothing
    }
}

/// Who ended a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndedBy {
    /// Nobody: it ended by itself, or by a signal that was not ours.
    Nothing,
    /// The caller.
    Cancel,
    /// The wall limit.
    WallLimit,
    /// The loss of the client, the spawner or the warden.
    OwnerGone,
}
