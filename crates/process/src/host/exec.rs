//! The few steps between a warden's fork and the command's exec.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::process::{Pid, Resource, Rlimit, Signal, chdir, getpid, getppid, getrlimit, setrlimit, setsid};

use super::{death, signals, sys};
use crate::channel;
use crate::wire::{LaunchSpec, Stage};

/// A launch that failed: the step and the kernel's error number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) stage: Stage,
    pub(crate) errno: i32,
}

impl Failure {
    pub(crate) fn new(stage: Stage, error: &io::Error) -> Self {
        Self {
            stage,
            errno: error.raw_os_error().unwrap_or(libc::EINVAL),
        }
    }

    fn encode(self) -> [u8; 8] {
        let [a, b, c, d] = self.stage.code().to_le_bytes();
        let [e, f, g, h] = self.errno.to_le_bytes();
        [a, b, c, d, e, f, g, h]
    }

    /// Reads what a failed child wrote into its status pipe.
    pub(crate) fn decode(bytes: [u8; 8]) -> Option<Self> {
        let [a, b, c, d, e, f, g, h] = bytes;
        Some(Self {
            stage: Stage::from_code(u32::from_le_bytes([a, b, c, d]))?,
            errno: i32::from_le_bytes([e, f, g, h]),
        })
    }
}

/// A command made ready: all memory that the child needs is there before the fork.
pub(crate) struct Command {
    paths: Vec<CString>,
    argv: Vec<CString>,
    env: Vec<CString>,
    cwd: CString,
    limits: Vec<(Resource, Rlimit)>,
}

impl Command {
    pub(crate) fn prepare(spec: &LaunchSpec) -> Result<Self, Failure> {
        let invalid = |_| Failure {
            stage: Stage::Setup,
            errno: libc::EINVAL,
        };
        let strings = |list: &[std::ffi::OsString]| {
            list.iter()
                .map(|text| c_string(text))
                .collect::<Result<Vec<_>, _>>()
                .map_err(invalid)
        };
        Ok(Self {
            paths: spec
                .candidates
                .iter()
                .map(|path| c_string(path.as_os_str()))
                .collect::<Result<_, _>>()
                .map_err(invalid)?,
            argv: strings(&spec.argv)?,
            env: strings(&spec.env)?,
            cwd: c_string(spec.cwd.as_os_str()).map_err(invalid)?,
            limits: limits(spec),
        })
    }

    /// Forks the command; the pipe returned yields a [`Failure`], or its end once the program runs.
    pub(crate) fn start(&self, stdio: &[OwnedFd; 3]) -> io::Result<(Pid, OwnedFd)> {
        let (status, status_write) = channel::pipe()?;
        let (argv, env) = (
            sys::PointerArray::new(&self.argv),
            sys::PointerArray::new(&self.env),
        );
        let warden = getpid();
        signals::block_all();
        match sys::fork() {
            Ok(sys::Forked::Parent(pid)) => {
                signals::unblock_all();
                Ok((pid, status))
            }
            Ok(sys::Forked::Child) => {
                let failure = self.become_command(stdio, warden, &argv, &env);
                let _ = rustix::io::write(&status_write, &failure.encode());
                sys::exit_now(127)
            }
            Err(error) => {
                signals::unblock_all();
                Err(error)
            }
        }
    }

    fn become_command(
        &self,
        stdio: &[OwnedFd; 3],
        warden: Pid,
        argv: &sys::PointerArray<'_>,
        env: &sys::PointerArray<'_>,
    ) -> Failure {
        let prepared = || -> io::Result<()> {
            // A session of its own: pgid == pid, no terminal, and no member can join the warden's group.
            setsid()?;
            death::signal_on_parent_death(Signal::KILL)?;
            if getppid() != Some(warden) {
                sys::exit_now(127);
            }
            for (number, fd) in (0..).zip(stdio) {
                sys::set_stdio(fd.as_fd(), number)?;
            }
            Ok(())
        };
        if let Err(error) = prepared() {
            return Failure::new(Stage::Setup, &error);
        }
        if let Err(error) = chdir(&self.cwd) {
            return Failure::new(Stage::Cwd, &error.into());
        }
        for (resource, limit) in &self.limits {
            if let Err(error) = setrlimit(*resource, *limit) {
                return Failure::new(Stage::Limit, &error.into());
            }
        }
        signals::reset_all();
        self.search(argv, env)
    }

    /// Tries every candidate as a shell would: what is missing is passed over, what is refused is kept.
    fn search(&self, argv: &sys::PointerArray<'_>, env: &sys::PointerArray<'_>) -> Failure {
        let mut refused = None;
        for path in &self.paths {
            let error = sys::exec(path, argv, env);
            match error.raw_os_error() {
                Some(libc::ENOENT | libc::ENOTDIR) => {
                    if rustix::fs::access(path, rustix::fs::Access::EXISTS).is_ok() {
                        return Failure::new(Stage::Interpreter, &error);
                    }
                }
                Some(libc::EACCES) => refused = Some(Failure::new(Stage::Exec, &error)),
                _ => return Failure::new(Stage::Exec, &error),
            }
        }
        refused.unwrap_or(Failure {
            stage: Stage::Missing,
            errno: libc::ENOENT,
        })
    }
}

fn c_string(text: &OsStr) -> Result<CString, std::ffi::NulError> {
    CString::new(text.as_bytes())
}

fn limits(spec: &LaunchSpec) -> Vec<(Resource, Rlimit)> {
    // SIGXCPU at the limit names its reason; the hard limit behind it ends whoever ignores that.
    const CPU_MARGIN: u64 = 2;
    [
        (Resource::Cpu, spec.cpu_seconds, CPU_MARGIN),
        (Resource::As, spec.memory_bytes, 0),
        (Resource::Nproc, spec.processes, 0),
        (Resource::Nofile, spec.open_files, 0),
    ]
    .into_iter()
    .filter_map(|(resource, value, margin)| {
        let value = value?;
        let ceiling = getrlimit(resource).maximum;
        let capped = |wanted: u64| Some(ceiling.map_or(wanted, |ceiling| wanted.min(ceiling)));
        let limit = Rlimit {
            current: capped(value),
            maximum: capped(value.saturating_add(margin)),
        };
        Some((resource, limit))
    })
    .collect()
}
