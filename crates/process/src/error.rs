//! Why a command could not be started.

use std::io;
use std::path::PathBuf;

use crate::command::{CommandSpec, Word};
use crate::wire::Stage;

/// Why a command could not be started, with the next step.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The program's name is empty.
    #[error("The command names no program. Write the program's name or path first.")]
    NoProgram,
    /// No such program.
    #[error(
        "{program}: no such program in PATH ({path}). Install it, give its path, or declare the PATH that has it."
    )]
    NotFound {
        /// The program.
        program: String,
        /// The search path that was used.
        path: String,
    },
    /// No such file.
    #[error("{program}: no such file (working directory {cwd}). Check the path.")]
    NoSuchFile {
        /// The program.
        program: String,
        /// The working directory that a relative path starts from.
        cwd: PathBuf,
    },
    /// The program's interpreter is missing.
    #[error(
        "{program}: the file exists, but the interpreter or loader it names does not. Check its `#!` line."
    )]
    NoInterpreter {
        /// The program.
        program: String,
    },
    /// The program may not be executed.
    #[error(
        "{program}: permission to execute is denied. Make it executable (chmod +x), or run it through its interpreter."
    )]
    NotExecutable {
        /// The program.
        program: String,
    },
    /// The file is no program.
    #[error(
        "{program}: the file is no program that this system can run. Add a `#!` line, or name its interpreter."
    )]
    NoProgramFile {
        /// The program.
        program: String,
    },
    /// The working directory cannot be entered.
    #[error("{program}: cannot enter the working directory {cwd}: {source}. Create it or choose another.")]
    Cwd {
        /// The program.
        program: String,
        /// The directory.
        cwd: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// One word is longer than the kernel takes.
    #[error(
        "{program}: {word} has {length} bytes; the limit is {limit} bytes. Pass long input on standard input or in a file."
    )]
    TooLong {
        /// The program.
        program: String,
        /// The word that is too long.
        word: Word,
        /// Its length.
        length: usize,
        /// The limit.
        limit: usize,
    },
    /// All words together are longer than the kernel takes.
    #[error(
        "{program}: arguments and environment have {length} bytes together; the limit is {limit} bytes. Pass long input on standard input or in a file."
    )]
    TooLongInAll {
        /// The program.
        program: String,
        /// Their length.
        length: usize,
        /// The limit.
        limit: usize,
    },
    /// A word holds a zero byte.
    #[error(
        "{program}: {word} holds a NUL byte, which no program can receive. Remove it or pass the value on standard input."
    )]
    Nul {
        /// The program.
        program: String,
        /// The word.
        word: Word,
    },
    /// The system is out of descriptors, processes or memory.
    #[error(
        "{program}: the system has no room for another process: {source}. End some runs, or raise the limit (ulimit -n, ulimit -u)."
    )]
    NoRoom {
        /// The program.
        program: String,
        /// The reason.
        source: io::Error,
    },
    /// A resource limit could not be set.
    #[error("{program}: a resource limit could not be set: {source}. Lower the limit or remove it.")]
    Limit {
        /// The program.
        program: String,
        /// The reason.
        source: io::Error,
    },
    /// The program could not be started for a reason without a name of its own.
    #[error("{program}: cannot start: {source}.")]
    Other {
        /// The program.
        program: String,
        /// The reason.
        source: io::Error,
    },
    /// The spawner died while it started the command.
    #[error(
        "{program}: the spawner died while it started the command, which may have run. Look at what it does before trying again."
    )]
    Interrupted {
        /// The program.
        program: String,
    },
    /// The spawner did not answer in time.
    #[error(
        "{program}: the spawner did not answer within {seconds} s. The machine may be overloaded; try again."
    )]
    NoAnswer {
        /// The program.
        program: String,
        /// The limit.
        seconds: u64,
    },
    /// The spawner itself could not be started.
    #[error(transparent)]
    Spawner(#[from] LaunchError),
}

/// Why the spawner could not be started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The spawner's program did not start.
    #[error("Cannot start the spawner {}: {source}. Check that the program is still installed.", exe.display())]
    Start {
        /// The program.
        exe: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The ledger could not be opened.
    #[error("Cannot write the ledger of processes {}: {source}. Check the directory's permissions and free space.", path.display())]
    Ledger {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The spawner has been shut down.
    #[error("The spawner has been shut down; no command starts any more.")]
    ShutDown,
}

impl SpawnError {
    /// Names what the warden reported.
    pub(crate) fn from_failure(spec: &CommandSpec, stage: Stage, errno: i32) -> Self {
        let program = spec.program.to_string_lossy().into_owned();
        let source = io::Error::from_raw_os_error(errno);
        let by_path = program.contains('/');
        match (stage, errno) {
            (Stage::Missing, _) if by_path => Self::NoSuchFile {
                program,
                cwd: spec.cwd().to_path_buf(),
            },
            (Stage::Missing, _) => Self::NotFound {
                program,
                path: spec.path().to_string_lossy().into_owned(),
            },
            (Stage::Interpreter, _) => Self::NoInterpreter { program },
            (Stage::Cwd, _) => Self::Cwd {
                program,
                cwd: spec.cwd().to_path_buf(),
                source,
            },
            (Stage::Limit, _) => Self::Limit { program, source },
            (Stage::Exec, libc::EACCES | libc::EPERM) => Self::NotExecutable { program },
            (Stage::Exec, libc::ENOEXEC) => Self::NoProgramFile { program },
            (Stage::Fork, _) | (_, libc::EMFILE | libc::ENFILE | libc::EAGAIN | libc::ENOMEM) => {
                Self::NoRoom { program, source }
            }
            (Stage::Setup | Stage::Exec, _) => Self::Other { program, source },
        }
    }

    /// Names a failure on our own side of the launch.
    pub(crate) fn from_io(spec: &CommandSpec, source: &io::Error) -> Self {
        Self::from_failure(spec, Stage::Setup, source.raw_os_error().unwrap_or(libc::EIO))
    }
}
