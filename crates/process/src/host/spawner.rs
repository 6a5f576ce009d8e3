//! The process that starts all others.
//!
//! It has one thread and stays small, so that a fork is cheap and safe whatever the client is doing, and so
//! that a warden's parent-death signal (which follows a *thread*) means the end of this process. Its only
//! children are wardens; any other child is an orphan of a dead warden and is killed.

use std::collections::BTreeMap;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketType, recvmsg, send, sockopt,
};
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, setsid, wait};

use super::exec::Failure;
use super::signals::{self, Signals};
use super::warden::{self, Inherited};
use super::{after, death, fds, sys, until};
use crate::channel;
use crate::wire::{Cause, ORDER_BYTES, Order, Report, Stage};

/// How long the trees may take to end when the client is gone and nobody waits.
const ORPHANED_LIMIT: Duration = Duration::from_secs(30);
/// How often orphans are looked for while some are left.
const ORPHAN_STEP: Duration = Duration::from_millis(10);

/// Runs the spawner on the socket that its standard input is.
///
/// The binary calls this for its spawner argument before it starts any thread or runtime. It returns when
/// the client is gone or asked for the end, and every tree has ended.
#[must_use]
pub fn spawner_main() -> ExitCode {
    let spawner = match Spawner::set_up() {
        Ok(spawner) => spawner,
        Err(error) => {
            use std::io::Write as _;
            let _ = writeln!(
                io::stderr(),
                "The spawner is started by the program itself, with a socket as standard input: {error}."
            );
            return ExitCode::FAILURE;
        }
    };
    spawner.serve();
    ExitCode::SUCCESS
}

/// How far a shutdown has come; each step is taken once, at its time.
#[derive(Debug, Clone, Copy)]
struct Ending {
    force: Option<Instant>,
    kill: Option<Instant>,
    leave: Option<Instant>,
}

struct Spawner {
    main: Option<OwnedFd>,
    signals: Signals,
    alive: OwnedFd,
    /// Never written: wardens wait for its end.
    _alive_write: OwnedFd,
    /// A copy of each warden's control socket, so that the client sees its end only when the tree is gone.
    wardens: BTreeMap<i32, OwnedFd>,
    /// Control sockets of wardens that died before their work was done.
    mourned: Vec<OwnedFd>,
    ending: Option<Ending>,
}

impl Spawner {
    fn set_up() -> io::Result<Self> {
        let stdin = io::stdin();
        if sockopt::socket_type(&stdin)? != SocketType::STREAM {
            return Err(io::ErrorKind::Unsupported.into());
        }
        #[cfg(target_os = "linux")]
        if std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() > 1) {
            return Err(io::Error::other("other threads run already"));
        }
        let main = fcntl_dupfd_cloexec(&stdin, 3)?;
        // Fails for a group leader, which has no terminal to be hung up by either.
        let _ = setsid();
        std::env::set_current_dir("/")?;
        fds::stdio_to_null()?;
        fds::close_all_except(&[main.as_fd()])?;
        death::become_subreaper()?;
        let (alive, alive_write) = channel::pipe()?;
        let signals = Signals::install()?;
        signals::unblock_all();
        #[cfg(target_os = "linux")]
        let _ = rustix::thread::set_name(c"pentad-spawner");
        Ok(Self {
            main: Some(main),
            signals,
            alive,
            _alive_write: alive_write,
            wardens: BTreeMap::new(),
            mourned: Vec::new(),
            ending: None,
        })
    }

    fn serve(mut self) {
        loop {
            let caught = self.signals.take();
            if caught.end || caught.force {
                // The client sees the hang-up and starts another spawner at its next command.
                self.main = None;
                self.begin_end(if caught.force {
                    Duration::ZERO
                } else {
                    ORPHANED_LIMIT
                });
            }
            self.read_orders();
            self.reap();
            self.end_orphans();
            if self.finished() {
                return;
            }
            self.wait();
        }
    }

    fn finished(&mut self) -> bool {
        let Some(ending) = &mut self.ending else {
            return false;
        };
        if self.wardens.is_empty() && self.mourned.is_empty() {
            return true;
        }
        let now = Instant::now();
        let due = |moment: &mut Option<Instant>| moment.take_if(|moment| *moment <= now).is_some();
        let (force, kill, leave) = (
            due(&mut ending.force),
            due(&mut ending.kill),
            due(&mut ending.leave),
        );
        if force {
            self.signal_wardens(Signal::USR1);
        }
        if kill {
            self.signal_wardens(Signal::KILL);
        }
        leave
    }

    fn wait(&self) {
        let step = (!self.mourned.is_empty()).then(|| after(ORPHAN_STEP)).flatten();
        let steps = self
            .ending
            .map_or([None; 3], |ending| [ending.force, ending.kill, ending.leave]);
        let timeout = until(steps.into_iter().chain([step]));
        let mut polled = vec![PollFd::from_borrowed_fd(self.signals.fd(), PollFlags::IN)];
        if let Some(main) = &self.main {
            polled.push(PollFd::new(main, PollFlags::IN));
        }
        let _ = poll(&mut polled, timeout.as_ref());
    }

    fn read_orders(&mut self) {
        loop {
            let Some(main) = &self.main else { return };
            match receive(main) {
                Ok(Some((Order::Launch, fds))) => self.launch(fds),
                Ok(Some((Order::Shutdown { limit }, _))) => self.begin_end(limit),
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => {}
                Ok(None) | Err(_) => {
                    self.main = None;
                    self.begin_end(ORPHANED_LIMIT);
                }
            }
        }
    }

    fn launch(&mut self, fds: Vec<OwnedFd>) {
        // A message with too few descriptors: the client had none left to attach, and sees the end of its
        // control socket.
        let Ok([control, stdin, stdout, stderr]) = <[OwnedFd; 4]>::try_from(fds) else {
            return;
        };
        if self.ending.is_some() {
            return;
        }
        let spawner = getpid();
        signals::block_all();
        match sys::fork() {
            Ok(sys::Forked::Child) => warden::run(Inherited {
                control,
                stdio: [stdin, stdout, stderr],
                alive: &self.alive,
                spawner,
            }),
            Ok(sys::Forked::Parent(pid)) => {
                self.wardens.insert(pid.as_raw_nonzero().get(), control);
            }
            Err(error) => {
                let Failure { stage, errno } = Failure::new(Stage::Fork, &error);
                let report = Report::Failed { stage, errno }.encode();
                let _ = send(&control, &report, channel::SEND | SendFlags::DONTWAIT);
            }
        }
        signals::unblock_all();
    }

    /// Asks every warden to end its tree; the limit only ever becomes shorter.
    fn begin_end(&mut self, limit: Duration) {
        let share = |parts: u32| after(limit / 10 * parts);
        let sooner = |old: Option<Instant>, new: Option<Instant>| old.into_iter().chain(new).min();
        self.ending = Some(match self.ending {
            None => {
                self.signal_wardens(Signal::TERM);
                Ending {
                    force: share(5),
                    kill: share(7),
                    leave: share(9),
                }
            }
            Some(old) => Ending {
                force: sooner(old.force, share(5)),
                kill: sooner(old.kill, share(7)),
                leave: sooner(old.leave, share(9)),
            },
        });
    }

    fn signal_wardens(&self, signal: Signal) {
        for pid in self.wardens.keys().filter_map(|raw| Pid::from_raw(*raw)) {
            let _ = kill_process(pid, signal);
        }
    }

    fn reap(&mut self) {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    let control = self.wardens.remove(&pid.as_raw_nonzero().get());
                    if status.exit_status() != Some(0) {
                        self.mourned.extend(control);
                    }
                }
                Err(Errno::INTR) => {}
                Ok(None) | Err(_) => return,
            }
        }
    }

    /// Kills what dead wardens left, and lets the client know once nothing is left.
    fn end_orphans(&mut self) {
        if self.mourned.is_empty() {
            return;
        }
        let orphans = self.orphans();
        for pid in &orphans {
            let _ = kill_process(*pid, Signal::KILL);
        }
        if orphans.is_empty() {
            // In the warden's name: an end without this report means that the spawner died too.
            let report = Report::Gone {
                cause: Cause::OwnerGone,
                leftovers: 0,
                survivors: 0,
            }
            .encode();
            for control in self.mourned.drain(..) {
                let _ = send(&control, &report, channel::SEND | SendFlags::DONTWAIT);
            }
        }
    }

    #[cfg(target_os = "linux")]
    fn orphans(&self) -> Vec<Pid> {
        use super::tree;
        let heads = tree::children(getpid())
            .into_iter()
            .filter(|pid| !self.wardens.contains_key(&pid.as_raw_nonzero().get()))
            .filter(|pid| !crate::marker::may_stay(*pid));
        heads
            .flat_map(|head| std::iter::once(head).chain(tree::descendants(head)))
            .collect()
    }

    #[cfg(not(target_os = "linux"))]
    fn orphans(&self) -> Vec<Pid> {
        Vec::new()
    }
}

/// Takes one order off the main socket; `None` is its end.
fn receive(main: &OwnedFd) -> Result<Option<(Order, Vec<OwnedFd>)>, Errno> {
    let mut bytes = [0u8; ORDER_BYTES];
    let mut filled = 0;
    let mut fds = Vec::new();
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        #[cfg(target_os = "linux")]
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        #[cfg(not(target_os = "linux"))]
        let flags = RecvFlags::DONTWAIT;
        match recvmsg(main, &mut [IoSliceMut::new(rest)], &mut ancillary, flags) {
            Ok(message) if message.bytes == 0 => return Ok(None),
            Ok(message) => filled += message.bytes,
            // The rest of an order that was begun is on its way.
            Err(Errno::INTR | Errno::AGAIN) if filled > 0 => continue,
            Err(error) => return Err(error),
        }
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = message {
                fds.extend(received);
            }
        }
    }
    #[cfg(not(target_os = "linux"))]
    for fd in &fds {
        rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::CLOEXEC)?;
    }
    // Standard descriptors are never free here, so nothing received can be one of them.
    Ok(Order::decode(bytes).map(|order| (order, fds)))
}
