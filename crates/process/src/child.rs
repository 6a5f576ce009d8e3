//! A command that runs, as its client sees it.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pentad_fail::{Point, point};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::sync::watch;

use crate::adopt;
use crate::command::{CommandExit, EndedBy, Exit};
use crate::wire::{Cause, EndTree, Ending, REPORT_BYTES, Report, Stage};

/// The writing end of a command's standard input.
pub type ChildStdin = pipe::Sender;
/// The reading end of a command's output or diagnostics.
pub type ChildOutput = pipe::Receiver;

/// A command that runs under a warden.
///
/// Dropping it hangs up on the warden, which then ends the tree: nothing here has to run for that, the
/// kernel closes the socket whatever way the owner goes.
#[derive(Debug)]
pub struct Child {
    /// The command's standard input, if piped; drop it to signal the end of input.
    pub stdin: Option<ChildStdin>,
    /// The command's output, if piped.
    pub stdout: Option<ChildOutput>,
    /// The command's diagnostics, if piped.
    pub stderr: Option<ChildOutput>,
    pub(crate) pid: i32,
    pub(crate) warden: i32,
    pub(crate) spawner: u32,
    pub(crate) run_marker: String,
    pub(crate) control: Control,
}

impl Child {
    /// Returns the command's process id.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Returns the command's process group, which it leads.
    #[must_use]
    pub fn pgid(&self) -> i32 {
        self.pid
    }

    /// Returns the process id of the warden.
    #[must_use]
    pub fn warden(&self) -> i32 {
        self.warden
    }

    /// Waits until the command itself has ended, or the warden is lost.
    ///
    /// Its descendants may still live; [`wait`](Self::wait) waits for them too.
    pub async fn exited(&self) -> CommandExit {
        self.control
            .until(|seen| {
                let over = seen.gone.is_some() || seen.closed;
                seen.exited
                    .map(CommandExit::from)
                    .or_else(|| over.then(CommandExit::unknown))
            })
            .await
    }

    /// Waits until no process of the tree is left.
    ///
    /// Safe to cancel and to call again, and from several tasks at once. The wait is as long as the command
    /// runs: give it a wall limit, or call [`terminate`](Self::terminate).
    pub async fn wait(&self) -> Exit {
        let (exited, gone) = self
            .control
            .until(|seen| (seen.gone.is_some() || seen.closed).then_some((seen.exited, seen.gone)))
            .await;
        let CommandExit { code, signal } = exited.map_or_else(CommandExit::unknown, CommandExit::from);
        if let Some(Gone {
            cause,
            leftovers,
            survivors,
        }) = gone
        {
            return Exit {
                code,
                signal,
                ended_by: cause.into(),
                leftovers_ended: leftovers,
                survivors,
            };
        }
        let survivors = adopt::end_adopted(&self.run_marker, [self.warden, self.spawner.cast_signed()]).await;
        Exit {
            code,
            signal,
            ended_by: EndedBy::OwnerGone,
            leftovers_ended: 0,
            survivors,
        }
    }

    /// Asks for the end of the tree: SIGTERM now, SIGKILL after the grace; then [`wait`](Self::wait).
    ///
    /// A later call with a shorter grace shortens it. A tree that is gone already takes no notice.
    pub async fn terminate(&self, grace: Duration) {
        self.control
            .end_tree(EndTree {
                after_eof: Duration::ZERO,
                grace,
            })
            .await;
    }

    /// Ends standard input and asks for the end of the tree: SIGTERM after `after_eof`, SIGKILL after the
    /// grace. This is how a server that speaks over standard input is told to go.
    pub async fn close(&mut self, after_eof: Duration, grace: Duration) {
        self.stdin = None;
        self.control.end_tree(EndTree { after_eof, grace }).await;
    }
}

impl CommandExit {
    fn unknown() -> Self {
        Self {
            code: None,
            signal: None,
        }
    }
}

impl From<Ending> for CommandExit {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Code(code) => Self {
                code: Some(code),
                signal: None,
            },
            Ending::Signal(signal) => Self {
                code: None,
                signal: Some(signal),
            },
        }
    }
}

impl From<Cause> for EndedBy {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::Nothing => Self::Nothing,
            Cause::Cancel => Self::Cancel,
            Cause::WallLimit => Self::WallLimit,
            Cause::OwnerGone => Self::OwnerGone,
        }
    }
}

/// What a warden said when its tree was gone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gone {
    cause: Cause,
    leftovers: u32,
    survivors: u32,
}

/// Everything that a warden has said so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Seen {
    pub(crate) accepted: bool,
    pub(crate) started: Option<(i32, i32)>,
    pub(crate) failed: Option<(Stage, i32)>,
    exited: Option<Ending>,
    gone: Option<Gone>,
    pub(crate) closed: bool,
}

impl Seen {
    fn note(&mut self, report: Report) {
        match report {
            Report::Accepted => self.accepted = true,
            Report::Started { pid, warden } => self.started = Some((pid, warden)),
            Report::Failed { stage, errno } => self.failed = Some((stage, errno)),
            Report::Exited(ending) => self.exited = Some(ending),
            Report::Gone {
                cause,
                leftovers,
                survivors,
            } => {
                self.gone.get_or_insert(Gone {
                    cause,
                    leftovers,
                    survivors,
                });
            }
        }
    }
}

/// The client's end of a control socket.
///
/// There is no task that reads it: whoever waits reads what is there and tells the other waiters. What
/// nobody waits for stays in the socket's buffer, a hundred bytes at most.
#[derive(Debug)]
pub(crate) struct Control {
    stream: UnixStream,
    inbox: Mutex<Vec<u8>>,
    seen: watch::Sender<Seen>,
}

impl Control {
    pub(crate) fn new(stream: UnixStream) -> Self {
        Self {
            stream,
            inbox: Mutex::default(),
            seen: watch::Sender::default(),
        }
    }

    /// Sends the whole specification; an error means that the warden is gone.
    pub(crate) async fn send(&self, mut bytes: &[u8]) -> io::Result<()> {
        point(Point::ProcessFrameBefore);
        while !bytes.is_empty() {
            match self.stream.try_write(bytes) {
                Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.stream.writable().await?,
                Err(error) => return Err(error),
            }
        }
        point(Point::ProcessFrameAfter);
        Ok(())
    }

    async fn end_tree(&self, order: EndTree) {
        if let Err(error) = self.send(&order.encode()).await {
            tracing::debug!(%error, "the warden of a tree to be ended is gone already");
        }
    }

    /// Waits until this finds what it looks for; it must accept a closed socket.
    pub(crate) async fn until<T>(&self, mut pick: impl FnMut(&Seen) -> Option<T>) -> T {
        // Subscribed before the first look, so that what another waiter reads meanwhile is not missed.
        let mut changes = self.seen.subscribe();
        loop {
            self.absorb();
            let seen = *changes.borrow_and_update();
            if let Some(found) = pick(&seen) {
                return found;
            }
            tokio::select! {
                _ = changes.changed() => {}
                _ = self.stream.readable() => {}
            }
        }
    }

    /// Reads everything that is there.
    fn absorb(&self) {
        let mut inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        let mut chunk = [0u8; 256];
        let mut closed = false;
        loop {
            match self.stream.try_read(&mut chunk) {
                Ok(0) => closed = true,
                Ok(count) => {
                    inbox.extend(chunk.iter().take(count));
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => closed = true,
            }
            break;
        }
        let mut reports = Vec::new();
        while let Some(bytes) = inbox.first_chunk::<REPORT_BYTES>().copied() {
            inbox.drain(..REPORT_BYTES);
            reports.extend(Report::decode(&bytes));
        }
        if closed || !reports.is_empty() {
            self.seen.send_modify(|seen| {
                reports.into_iter().for_each(|report| seen.note(report));
                seen.closed |= closed;
            });
        }
    }
}
