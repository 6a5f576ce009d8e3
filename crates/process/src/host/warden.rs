//! The guard of one tree of processes.
//!
//! Every descendant of the command that loses its parent becomes the warden's child, so the warden knows
//! that the tree is gone when it has no child left. It ends the tree on an order, on the end of either
//! pipe to its owners (client and spawner), on a signal, and when the wall limit is reached. The order of
//! an ending is: end of standard input (done by the client), SIGTERM, SIGKILL, reap.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv, send};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, getppid, setsid, wait};

use super::exec::{Command, Failure};
use super::signals::{self, Signals};
use super::{after, death, fds, sys, tree, until};
use crate::channel;
use crate::wire::{Cause, EndTree, Ending, LaunchSpec, MAX_SPEC_BYTES, ORDER_BYTES, Report, Stage};

/// How long the client may take to send the specification after asking for the warden.
const SPEC_LIMIT: Duration = Duration::from_secs(30);
/// How long descendants may outlive a command that ended by itself.
const LEFTOVER_LIMIT: Duration = Duration::from_secs(2);
/// How long SIGKILL may take before the survivors are reported; only uninterruptible sleep takes longer.
const KILL_LIMIT: Duration = Duration::from_secs(10);
/// How often the tree is walked again while it is being killed.
const KILL_STEP: Duration = Duration::from_millis(10);

/// What the spawner hands to a warden that it just forked.
pub(crate) struct Inherited<'a> {
    pub(crate) control: OwnedFd,
    pub(crate) stdio: [OwnedFd; 3],
    /// The pipe whose other end only the spawner holds.
    pub(crate) alive: &'a OwnedFd,
    pub(crate) spawner: Pid,
}

/// Runs the warden in a process just forked, with all signals blocked.
pub(crate) fn run(inherited: Inherited<'_>) -> ! {
    let code = Warden::set_up(inherited).map_or(1, Warden::guard);
    sys::exit_now(code)
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    AwaitingSpec {
        until: Option<Instant>,
    },
    Running,
    /// The command ended, descendants of it have not.
    Lingering {
        until: Option<Instant>,
    },
    /// Standard input is closed; the tree may end by itself.
    Closing {
        until: Option<Instant>,
        grace: Duration,
    },
    Terminating {
        until: Option<Instant>,
    },
    Killing {
        until: Option<Instant>,
        reported: bool,
    },
    /// The command ended and what it left may stay.
    Left,
}

struct Guarded {
    command: Pid,
    /// Open until the exec succeeded or failed.
    status: Option<OwnedFd>,
    exited: bool,
    grace: Duration,
    wall: Option<Instant>,
    leaves_processes: bool,
}

struct Warden<'a> {
    control: Option<OwnedFd>,
    alive: Option<&'a OwnedFd>,
    signals: Signals,
    stdio: Option<[OwnedFd; 3]>,
    inbox: Vec<u8>,
    guarded: Option<Guarded>,
    failed: Option<Failure>,
    phase: Phase,
    cause: Cause,
    leftovers: BTreeSet<i32>,
}

impl<'a> Warden<'a> {
    fn set_up(inherited: Inherited<'a>) -> io::Result<Self> {
        death::signal_on_parent_death(Signal::TERM)?;
        if getppid() != Some(inherited.spawner) {
            return Err(io::ErrorKind::NotConnected.into());
        }
        setsid()?;
        death::become_subreaper()?;
        let [stdin, stdout, stderr] = &inherited.stdio;
        fds::close_all_except(&[
            inherited.control.as_fd(),
            inherited.alive.as_fd(),
            stdin.as_fd(),
            stdout.as_fd(),
            stderr.as_fd(),
        ])?;
        let signals = Signals::install()?;
        signals::unblock_all();
        #[cfg(target_os = "linux")]
        let _ = rustix::thread::set_name(c"pentad-warden");
        Ok(Self {
            control: Some(inherited.control),
            alive: Some(inherited.alive),
            signals,
            stdio: Some(inherited.stdio),
            inbox: Vec::new(),
            guarded: None,
            failed: None,
            phase: Phase::AwaitingSpec {
                until: after(SPEC_LIMIT),
            },
            cause: Cause::Nothing,
            leftovers: BTreeSet::new(),
        })
    }

    fn guard(mut self) -> i32 {
        loop {
            let caught = self.signals.take();
            self.read_control();
            self.read_alive();
            self.read_status();
            if caught.end || caught.force {
                // What was left on purpose needs no guard once the spawner wants to end.
                self.alive = self.alive.filter(|_| !matches!(self.phase, Phase::Left));
            }
            if caught.end {
                self.begin_end(Cause::OwnerGone, Duration::ZERO, self.default_grace());
            }
            if caught.force {
                self.begin_end(Cause::OwnerGone, Duration::ZERO, Duration::ZERO);
            }
            let childless = self.reap();
            if let Some(code) = self.advance(childless) {
                return code;
            }
            self.wait();
        }
    }

    fn wait(&self) {
        let (deadline, step) = match self.phase {
            Phase::AwaitingSpec { until } | Phase::Lingering { until } => (until, None),
            Phase::Closing { until, .. } | Phase::Terminating { until } => (until, None),
            Phase::Running => (self.guarded.as_ref().and_then(|guarded| guarded.wall), None),
            Phase::Killing { .. } => (None, after(KILL_STEP)),
            Phase::Left => (None, None),
        };
        let timeout = until([deadline, step]);
        let mut polled = vec![PollFd::from_borrowed_fd(self.signals.fd(), PollFlags::IN)];
        let status = self.guarded.as_ref().and_then(|guarded| guarded.status.as_ref());
        for fd in [self.control.as_ref(), self.alive, status].into_iter().flatten() {
            polled.push(PollFd::new(fd, PollFlags::IN));
        }
        // An interruption is a signal, which the next round takes.
        let _ = poll(&mut polled, timeout.as_ref());
    }

    fn read_control(&mut self) {
        loop {
            let Some(control) = &self.control else { return };
            let mut chunk = [0u8; 16 * 1024];
            match recv(control, &mut chunk[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => break,
                Ok((count, _)) => self.inbox.extend(chunk.iter().take(count)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return self.obey(),
                Err(_) => break,
            }
        }
        // A specification that arrived whole from an owner that is gone is not started.
        self.control = None;
        self.begin_end(Cause::OwnerGone, Duration::ZERO, self.default_grace());
    }

    /// Acts on every whole message in the inbox.
    fn obey(&mut self) {
        if matches!(self.phase, Phase::AwaitingSpec { .. }) {
            self.take_spec();
        }
        while self.guarded.is_some() {
            let Some(order) = self.inbox.first_chunk::<ORDER_BYTES>().copied() else {
                return;
            };
            self.inbox.drain(..ORDER_BYTES);
            let EndTree { after_eof, grace } = EndTree::decode(order);
            self.begin_end(Cause::Cancel, after_eof, grace);
        }
    }

    fn take_spec(&mut self) {
        let Some(length) = self.inbox.first_chunk::<4>().copied().map(u32::from_le_bytes) else {
            return;
        };
        let Some(end) = usize::try_from(length)
            .ok()
            .map(|length| length.saturating_add(4))
        else {
            return;
        };
        if length > MAX_SPEC_BYTES {
            return self.fail(Failure {
                stage: Stage::Setup,
                errno: libc::E2BIG,
            });
        }
        let Some(bytes) = self.inbox.get(4..end) else {
            return;
        };
        let spec = LaunchSpec::decode(bytes);
        self.inbox.drain(..end);
        match spec {
            Some(spec) => self.launch(&spec),
            None => self.fail(Failure {
                stage: Stage::Setup,
                errno: libc::EPROTO,
            }),
        }
    }

    fn launch(&mut self, spec: &LaunchSpec) {
        self.report(Report::Accepted);
        let Some(stdio) = self.stdio.take() else { return };
        let started = Command::prepare(spec).and_then(|command| {
            command
                .start(&stdio)
                .map_err(|error| Failure::new(Stage::Fork, &error))
        });
        match started {
            Ok((command, status)) => {
                self.phase = Phase::Running;
                self.guarded = Some(Guarded {
                    command,
                    status: Some(status),
                    exited: false,
                    grace: spec.grace,
                    wall: spec.wall.and_then(after),
                    leaves_processes: spec.leaves_processes,
                });
            }
            Err(failure) => self.fail(failure),
        }
    }

    fn fail(&mut self, failure: Failure) {
        self.failed = Some(failure);
        self.report(Report::Failed {
            stage: failure.stage,
            errno: failure.errno,
        });
    }

    fn read_alive(&mut self) {
        let Some(alive) = self.alive else { return };
        let mut polled = [PollFd::new(alive, PollFlags::IN)];
        let now = rustix::event::Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        if matches!(poll(&mut polled, Some(&now)), Ok(1..)) {
            self.alive = None;
            self.begin_end(Cause::OwnerGone, Duration::ZERO, self.default_grace());
        }
    }

    /// Learns whether the exec succeeded: the pipe then ends without a word.
    fn read_status(&mut self) {
        let Some(guarded) = &mut self.guarded else { return };
        let Some(status) = &guarded.status else { return };
        let mut polled = [PollFd::new(status, PollFlags::IN)];
        let now = rustix::event::Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        if !matches!(poll(&mut polled, Some(&now)), Ok(1..)) {
            return;
        }
        let mut bytes = [0u8; 8];
        let count = match rustix::io::read(status, &mut bytes[..]) {
            Err(Errno::INTR) => return,
            other => other.unwrap_or(0),
        };
        guarded.status = None;
        let pid = guarded.command.as_raw_nonzero().get();
        match Failure::decode(bytes).filter(|_| count == bytes.len()) {
            Some(failure) => self.fail(failure),
            None => self.report(Report::Started {
                pid,
                warden: getpid().as_raw_nonzero().get(),
            }),
        }
    }

    fn default_grace(&self) -> Duration {
        self.guarded
            .as_ref()
            .map_or(Duration::ZERO, |guarded| guarded.grace)
    }

    /// Starts to end the tree, or shortens an ending that has begun; the first cause stays.
    fn begin_end(&mut self, cause: Cause, after_eof: Duration, grace: Duration) {
        match self.phase {
            Phase::AwaitingSpec { .. } => {
                self.phase = Phase::AwaitingSpec {
                    until: Some(Instant::now()),
                }
            }
            Phase::Running | Phase::Closing { .. } | Phase::Lingering { .. } => {
                if self.cause == Cause::Nothing && matches!(self.phase, Phase::Running) {
                    self.cause = cause;
                }
                match self.phase {
                    Phase::Running if !after_eof.is_zero() => {
                        self.phase = Phase::Closing {
                            until: after(after_eof),
                            grace,
                        };
                    }
                    Phase::Closing { .. } if !after_eof.is_zero() => {}
                    _ => self.terminate(grace),
                }
            }
            Phase::Terminating { until } => {
                let sooner = after(grace).into_iter().chain(until).min();
                self.phase = Phase::Terminating { until: sooner };
            }
            Phase::Killing { .. } | Phase::Left => {}
        }
    }

    fn terminate(&mut self, grace: Duration) {
        if grace.is_zero() {
            self.phase = Phase::Killing {
                until: after(KILL_LIMIT),
                reported: false,
            };
            return;
        }
        self.signal(Signal::TERM);
        // A stopped process sees SIGTERM only once it goes on.
        self.signal(Signal::CONT);
        self.phase = Phase::Terminating { until: after(grace) };
    }

    fn signal(&mut self, signal: Signal) {
        let Some(guarded) = &self.guarded else { return };
        let reached = tree::signal_descendants(getpid(), guarded.command, signal);
        if self.cause == Cause::Nothing {
            self.leftovers
                .extend(reached.into_iter().map(|pid| pid.as_raw_nonzero().get()));
        }
    }

    /// Collects every dead child and returns whether none is left.
    fn reap(&mut self) -> bool {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => self.note_death(pid, status),
                Ok(None) => return false,
                Err(Errno::INTR) => {}
                Err(_) => return true,
            }
        }
    }

    fn note_death(&mut self, pid: Pid, status: WaitStatus) {
        let Some(guarded) = &mut self.guarded else { return };
        if guarded.command != pid || guarded.exited {
            return;
        }
        guarded.exited = true;
        // The child may have failed or run since the pipe was last looked at.
        self.read_status();
        if self.failed.is_some() {
            return;
        }
        let ending = match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Ending::Code(code),
            (None, signal) => Ending::Signal(signal.unwrap_or(0)),
        };
        self.report(Report::Exited(ending));
    }

    /// Moves to the next phase where it is time, and returns an exit code when the work is done.
    fn advance(&mut self, childless: bool) -> Option<i32> {
        let now = Instant::now();
        let due = |until: Option<Instant>| until.is_some_and(|until| until <= now);
        if childless && (self.guarded.is_some() || self.failed.is_some()) {
            if let Some(guarded) = self.guarded.as_ref().filter(|guarded| !guarded.leaves_processes) {
                tree::end_unseen(guarded.command);
            }
            if !matches!(self.phase, Phase::Left) {
                self.report_gone(0);
            }
            return Some(0);
        }
        let exited = self.guarded.as_ref().is_some_and(|guarded| guarded.exited);
        match self.phase {
            Phase::AwaitingSpec { until } => return due(until).then_some(1),
            Phase::Running if exited => self.linger(),
            Phase::Running => {
                if due(self.guarded.as_ref().and_then(|guarded| guarded.wall)) {
                    self.begin_end(Cause::WallLimit, Duration::ZERO, self.default_grace());
                }
            }
            Phase::Lingering { until } if due(until) => self.terminate(self.default_grace()),
            Phase::Closing { until, grace } if exited || due(until) => self.terminate(grace),
            Phase::Terminating { until } if due(until) => self.terminate(Duration::ZERO),
            Phase::Killing { until, reported } => {
                self.signal(Signal::KILL);
                if due(until) && !reported {
                    self.report_gone(u32::try_from(tree::descendants(getpid()).len()).unwrap_or(u32::MAX));
                    self.phase = Phase::Killing {
                        until,
                        reported: true,
                    };
                }
            }
            Phase::Left if self.alive.is_none() => return Some(0),
            Phase::Lingering { .. } | Phase::Closing { .. } | Phase::Terminating { .. } | Phase::Left => {}
        }
        None
    }

    fn linger(&mut self) {
        if self
            .guarded
            .as_ref()
            .is_some_and(|guarded| guarded.leaves_processes)
        {
            self.report_gone(0);
            self.phase = Phase::Left;
        } else {
            self.phase = Phase::Lingering {
                until: after(LEFTOVER_LIMIT),
            };
        }
    }

    fn report_gone(&self, survivors: u32) {
        let leftovers = u32::try_from(self.leftovers.len()).unwrap_or(u32::MAX);
        self.report(Report::Gone {
            cause: self.cause,
            leftovers,
            survivors,
        });
    }

    /// Tells the client; one that is gone is noticed when its end is read.
    fn report(&self, report: Report) {
        if let Some(control) = &self.control {
            let _ = send(control, &report.encode(), channel::SEND);
        }
    }
}
