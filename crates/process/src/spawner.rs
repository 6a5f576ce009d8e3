//! The client's handle on its spawner.

use std::ffi::OsString;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
#[cfg(target_os = "linux")]
use std::path::Path;
use std::path::PathBuf;
use std::process;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use pentad_fail::{Point, point};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, ioctl_fionbio, retry_on_intr};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, sendmsg};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;

use crate::adopt;
use crate::channel;
use crate::child::{Child, ChildOutput, ChildStdin, Control};
use crate::command::{CommandSpec, Stdio};
use crate::error::{LaunchError, SpawnError};
use crate::host::death;
#[cfg(target_os = "linux")]
use crate::ledger::Ledger;
use crate::wire::Order;

/// How long the start of a command may take, from the order to the program's first instruction.
const SPAWN_LIMIT: Duration = Duration::from_secs(30);
/// How long a spawner that closed its socket may take to be gone as a process.
const EXIT_STEP: Duration = Duration::from_millis(1);

/// The program that runs [`spawner_main`](crate::spawner_main): usually our own, with one argument.
#[derive(Debug, Clone)]
pub struct SpawnerProgram {
    /// The program.
    pub exe: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
}

/// How a shutdown went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShutdownEnd {
    /// Every tree had ended when the spawner did.
    Clean,
    /// The spawner had to be killed; its wardens end what is left.
    Killed,
}

/// Starts commands through one small process of its own.
///
/// A spawner that died is replaced at the next [`spawn`](Self::spawn). Dropping the handle, or the death of
/// this process in whatever way, ends every tree.
#[derive(Debug)]
pub struct Spawner {
    program: SpawnerProgram,
    current: tokio::sync::Mutex<Current>,
    #[cfg(target_os = "linux")]
    ledger: Option<Ledger>,
}

#[derive(Debug)]
enum Current {
    Live(Arc<Live>),
    Lost,
    ShutDown,
}

/// A spawner process that was alive when last looked at.
#[derive(Debug)]
struct Live {
    main: OwnedFd,
    /// Made when the socket is first full, because a spawner may start before the runtime that drives it.
    readiness: OnceLock<UnixStream>,
    process: Mutex<process::Child>,
}

/// The answer to one attempt at a launch.
enum Attempt {
    Started(Box<Child>),
    Failed(SpawnError),
    /// The spawner was gone before the command can have run.
    NotTaken,
}

impl Spawner {
    /// Starts the spawner.
    ///
    /// On Linux this process also becomes a subreaper, so that orphans of a killed spawner and warden come
    /// here and not to init.
    pub fn launch(program: SpawnerProgram) -> Result<Self, LaunchError> {
        let start = |source| LaunchError::Start {
            exe: program.exe.clone(),
            source,
        };
        death::become_subreaper().map_err(start)?;
        let live = Live::start(&program).map_err(start)?;
        Ok(Self {
            program,
            current: tokio::sync::Mutex::new(Current::Live(Arc::new(live))),
            #[cfg(target_os = "linux")]
            ledger: None,
        })
    }

    /// Starts the spawner and records its commands under this directory, for [`sweep`](crate::sweep).
    #[cfg(target_os = "linux")]
    pub fn launch_with_ledger(program: SpawnerProgram, state_dir: &Path) -> Result<Self, LaunchError> {
        let ledger = Ledger::create(state_dir).map_err(|source| LaunchError::Ledger {
            path: state_dir.to_path_buf(),
            source,
        })?;
        Ok(Self {
            ledger: Some(ledger),
            ..Self::launch(program)?
        })
    }

    /// Returns the spawner's process id, if it has not been lost.
    pub async fn pid(&self) -> Option<u32> {
        match &*self.current.lock().await {
            Current::Live(live) => Some(live.pid()),
            Current::Lost | Current::ShutDown => None,
        }
    }

    /// Starts a command and returns once the program runs.
    #[tracing::instrument(skip_all, fields(program = %spec.program.display(), run = %spec.run_marker))]
    pub async fn spawn(&self, spec: CommandSpec) -> Result<Child, SpawnError> {
        let launch = spec.to_launch()?.encode();
        #[cfg(target_os = "linux")]
        if let Some(ledger) = &self.ledger {
            return self.recorded(ledger, &spec, &launch).await;
        }
        self.start(&spec, &launch).await
    }

    #[cfg(target_os = "linux")]
    async fn recorded(
        &self,
        ledger: &Ledger,
        spec: &CommandSpec,
        launch: &[u8],
    ) -> Result<Child, SpawnError> {
        let unwritten = |source| LaunchError::Ledger {
            path: ledger.path().to_path_buf(),
            source,
        };
        let number = ledger.launch(&spec.run_marker).map_err(unwritten)?;
        match self.start(spec, launch).await {
            Ok(child) => {
                ledger
                    .started(number, &spec.run_marker, child.pid, child.warden)
                    .map_err(unwritten)?;
                Ok(child)
            }
            Err(error) => {
                ledger.failed(number);
                Err(error)
            }
        }
    }

    async fn start(&self, spec: &CommandSpec, launch: &[u8]) -> Result<Child, SpawnError> {
        let attempts = async {
            for _ in 0..3 {
                let live = self.live().await?;
                match live.attempt(spec, launch).await {
                    Attempt::Started(child) => return Ok(*child),
                    Attempt::Failed(error) => return Err(error),
                    Attempt::NotTaken if live.is_gone().await => self.forget(&live).await,
                    // Alive and silent: it had no descriptor left for ours.
                    Attempt::NotTaken => {
                        let source = Errno::MFILE.into();
                        return Err(SpawnError::from_io(spec, &source));
                    }
                }
            }
            Err(SpawnError::Interrupted {
                program: spec.program.to_string_lossy().into_owned(),
            })
        };
        tokio::time::timeout(SPAWN_LIMIT, attempts)
            .await
            .unwrap_or_else(|_| {
                let program = spec.program.to_string_lossy().into_owned();
                Err(SpawnError::NoAnswer {
                    program,
                    seconds: SPAWN_LIMIT.as_secs(),
                })
            })
    }

    /// Ends every tree and the spawner within this limit; no command can be started afterwards.
    ///
    /// SIGTERM at once, SIGKILL to what is left after half of the limit.
    pub async fn shutdown(&self, limit: Duration) -> ShutdownEnd {
        let current = std::mem::replace(&mut *self.current.lock().await, Current::ShutDown);
        let Current::Live(live) = current else {
            return ShutdownEnd::Clean;
        };
        let orderly = async {
            if live.order(Order::Shutdown { limit }, &[]).await.is_ok() {
                while !live.reaped() {
                    tokio::time::sleep(EXIT_STEP).await;
                }
            }
        };
        if tokio::time::timeout(limit, orderly).await.is_ok() && live.reaped() {
            #[cfg(target_os = "linux")]
            self.ledger.iter().for_each(Ledger::remove);
            return ShutdownEnd::Clean;
        }
        tracing::warn!("the spawner did not end within {limit:?} and is killed");
        live.kill();
        ShutdownEnd::Killed
    }

    /// Reaps orphans that come to this process, until `stop`.
    ///
    /// For a process that is PID 1 of a container, or a subreaper: descendants it never started become its
    /// children and stay zombies for ever otherwise. A dead child is left alone for `patience`, so that
    /// whoever started it can take its status first, and the spawner is never touched.
    pub async fn reap_orphans(&self, patience: Duration, stop: &CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = adopt::reap_strangers(patience, || self.pid()) => {}
        }
    }

    async fn live(&self) -> Result<Arc<Live>, LaunchError> {
        let mut current = self.current.lock().await;
        match &*current {
            Current::Live(live) => Ok(Arc::clone(live)),
            Current::ShutDown => Err(LaunchError::ShutDown),
            Current::Lost => {
                let live = Live::start(&self.program).map_err(|source| LaunchError::Start {
                    exe: self.program.exe.clone(),
                    source,
                })?;
                let live = Arc::new(live);
                *current = Current::Live(Arc::clone(&live));
                Ok(live)
            }
        }
    }

    /// Gives up a spawner that died; the first who notices reports it.
    async fn forget(&self, lost: &Arc<Live>) {
        let mut current = self.current.lock().await;
        if matches!(&*current, Current::Live(live) if Arc::ptr_eq(live, lost)) {
            tracing::warn!("the spawner died; its commands are ended and a new one starts");
            *current = Current::Lost;
        }
    }
}

impl Live {
    fn start(program: &SpawnerProgram) -> io::Result<Self> {
        let (main, theirs) = stream_pair()?;
        // The spawner starts in the root directory, so that it keeps no other from being unmounted.
        let process = process::Command::new(std::path::absolute(&program.exe)?)
            .args(&program.args)
            .env_clear()
            .env("PENTAD_SPAWNER", process::id().to_string())
            .current_dir("/")
            .stdin(process::Stdio::from(theirs))
            .stdout(process::Stdio::null())
            .stderr(process::Stdio::null())
            .spawn()?;
        Ok(Self {
            main,
            readiness: OnceLock::new(),
            process: Mutex::new(process),
        })
    }

    /// Sends one order with the descriptors that belong to it.
    async fn order(&self, order: Order, fds: &[std::os::fd::BorrowedFd<'_>]) -> io::Result<()> {
        point(Point::ProcessOrderBefore);
        let sent = match self.send(order, fds) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let stream = match self.readiness.get() {
                    Some(stream) => stream,
                    None => {
                        let made = UnixStream::from_std(self.main.try_clone()?.into())?;
                        self.readiness.get_or_init(|| made)
                    }
                };
                stream
                    .async_io(Interest::WRITABLE, || self.send(order, fds))
                    .await
            }
            done => done,
        };
        point(Point::ProcessOrderAfter);
        sent
    }

    fn send(&self, order: Order, fds: &[std::os::fd::BorrowedFd<'_>]) -> io::Result<()> {
        let bytes = order.encode();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(fds));
        }
        // Eight bytes go whole or not at all.
        retry_on_intr(|| sendmsg(&self.main, &[IoSlice::new(&bytes)], &mut ancillary, channel::SEND))?;
        Ok(())
    }

    async fn attempt(&self, spec: &CommandSpec, launch: &[u8]) -> Attempt {
        let ends = match Ends::make(spec) {
            Ok(ends) => ends,
            Err(source) => return Attempt::Failed(SpawnError::from_io(spec, &source)),
        };
        let Ends {
            control,
            stdin,
            stdout,
            stderr,
            theirs,
        } = ends;
        let fds = theirs.each_ref().map(AsFd::as_fd);
        if self.order(Order::Launch, &fds).await.is_err() {
            return Attempt::NotTaken;
        }
        drop(theirs);
        // A warden that is gone closes the socket, which the wait below sees.
        let _ = control.send(launch).await;
        let seen = control
            .until(|seen| (seen.started.is_some() || seen.failed.is_some() || seen.closed).then_some(*seen))
            .await;
        if let Some((stage, errno)) = seen.failed {
            return Attempt::Failed(SpawnError::from_failure(spec, stage, errno));
        }
        let Some((pid, warden)) = seen.started else {
            let program = || spec.program.to_string_lossy().into_owned();
            return if seen.accepted {
                Attempt::Failed(SpawnError::Interrupted { program: program() })
            } else {
                Attempt::NotTaken
            };
        };
        let run_marker = spec.run_marker.clone();
        let spawner = self.pid();
        Attempt::Started(Box::new(Child {
            stdin,
            stdout,
            stderr,
            pid,
            warden,
            spawner,
            run_marker,
            control,
        }))
    }

    fn pid(&self) -> u32 {
        self.process.lock().unwrap_or_else(PoisonError::into_inner).id()
    }

    fn reaped(&self) -> bool {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        !matches!(process.try_wait(), Ok(None))
    }

    /// Returns whether the process is gone; one that just closed its socket gets a moment.
    async fn is_gone(&self) -> bool {
        for _ in 0..100 {
            if self.reaped() {
                return true;
            }
            let mut polled = [PollFd::new(&self.main, PollFlags::empty())];
            let now = rustix::event::Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            if matches!(poll(&mut polled, Some(&now)), Ok(0)) {
                return false;
            }
            tokio::time::sleep(EXIT_STEP).await;
        }
        self.kill();
        true
    }

    fn kill(&self) {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = process.kill();
        let _ = process.wait();
    }
}

/// Both sides of everything that one command is joined to.
struct Ends {
    control: Control,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildOutput>,
    stderr: Option<ChildOutput>,
    /// Control, stdin, stdout, stderr of the warden.
    theirs: [OwnedFd; 4],
}

impl Ends {
    fn make(spec: &CommandSpec) -> io::Result<Self> {
        let (ours, their_control) = stream_pair()?;
        let control = Control::new(UnixStream::from_std(ours.into())?);
        let (stdin, their_stdin) = match spec.stdin {
            Stdio::Null => (None, null()?),
            Stdio::Piped => {
                let (read, write) = channel::pipe()?;
                (Some(ChildStdin::from_owned_fd(write)?), read)
            }
        };
        let (stdout, their_stdout) = output(spec.stdout)?;
        let (stderr, their_stderr) = output(spec.stderr)?;
        let theirs = [their_control, their_stdin, their_stdout, their_stderr];
        Ok(Self {
            control,
            stdin,
            stdout,
            stderr,
            theirs,
        })
    }
}

fn output(kind: Stdio) -> io::Result<(Option<ChildOutput>, OwnedFd)> {
    match kind {
        Stdio::Null => Ok((None, null()?)),
        Stdio::Piped => {
            let (read, write) = channel::pipe()?;
            Ok((Some(ChildOutput::from_owned_fd(read)?), write))
        }
    }
}

fn null() -> io::Result<OwnedFd> {
    Ok(std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/null")?
        .into())
}

/// Returns two joined sockets; the first, ours, does not block.
fn stream_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = channel::socket_pair()?;
    ioctl_fionbio(&ours, true)?;
    Ok((ours, theirs))
}
