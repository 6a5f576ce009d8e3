//! One command from start to end, with its input and its bounded output.

use std::fmt;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::AsyncWriteExt as _;
use tokio_util::sync::CancellationToken;

use crate::capture::{CaptureLimits, Captured, capture_until};
use crate::child::{Child, ChildStdin};
use crate::command::{CommandSpec, EndedBy, Exit, Limits, Stdio};
use crate::error::SpawnError;
use crate::spawner::Spawner;

/// How long the output may stay open once the tree is gone; only a process that was left on purpose, or
/// one that was handed the pipe from outside the tree, can hold it.
const DRAIN_LIMIT: Duration = Duration::from_millis(500);

/// How much of each output stream is kept.
#[derive(Debug, Clone)]
pub struct OutputLimits {
    /// For standard output.
    pub stdout: CaptureLimits,
    /// For standard error.
    pub stderr: CaptureLimits,
}

/// A limit that ended a command; it names itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// The time on the wall.
    Wall(Duration),
    /// The processor time.
    Cpu(Duration),
}

impl fmt::Display for Limit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wall(limit) => write!(out, "wall limit {limit:?}"),
            Self::Cpu(limit) => write!(out, "cpu limit {limit:?}"),
        }
    }
}

/// What came of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// How the tree ended.
    pub exit: Exit,
    /// Its output.
    pub stdout: Captured,
    /// Its diagnostics.
    pub stderr: Captured,
    /// The limit that ended it, if one did.
    pub limit_hit: Option<Limit>,
}

/// Runs a command to the end of its whole tree.
///
/// Output is always captured; input is `/dev/null` without `input`. On `cancel` the tree is ended with the
/// command's grace, and this still returns only when it is gone. Dropping the future ends the tree too.
pub async fn run_to_end(
    spawner: &Spawner,
    mut spec: CommandSpec,
    input: Option<Bytes>,
    output: OutputLimits,
    cancel: &CancellationToken,
) -> Result<Finished, SpawnError> {
    spec.stdin = if input.is_some() {
        Stdio::Piped
    } else {
        Stdio::Null
    };
    (spec.stdout, spec.stderr) = (Stdio::Piped, Stdio::Piped);
    let (limits, grace) = (spec.limits.clone(), spec.grace);
    let mut child = spawner.spawn(spec).await?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let stop = CancellationToken::new();
    let captures = async {
        tokio::join!(
            capture_if(stdout, output.stdout, &stop),
            capture_if(stderr, output.stderr, &stop)
        )
    };
    let mut captures = Box::pin(captures);
    let mut ending = Box::pin(end(&child, feed(stdin, input), cancel, grace));
    let (exit, captured) = tokio::select! {
        exit = &mut ending => (exit, None),
        captured = &mut captures => (ending.await, Some(captured)),
    };
    let (stdout, stderr) = match captured {
        Some(captured) => captured,
        None => {
            if let Ok(captured) = tokio::time::timeout(DRAIN_LIMIT, &mut captures).await {
                captured
            } else {
                stop.cancel();
                captures.await
            }
        }
    };
    Ok(Finished {
        exit,
        stdout,
        stderr,
        limit_hit: limit_hit(&limits, &exit),
    })
}

async fn capture_if(
    reader: Option<crate::ChildOutput>,
    limits: CaptureLimits,
    stop: &CancellationToken,
) -> Captured {
    match reader {
        Some(reader) => capture_until(reader, limits, stop).await,
        None => Captured::default(),
    }
}

/// Feeds the command and waits for the end of its tree; the input ends before the tree is ended.
async fn end(
    child: &Child,
    feed: impl Future<Output = ()>,
    cancel: &CancellationToken,
    grace: Duration,
) -> Exit {
    {
        let mut feed = Box::pin(feed);
        let mut fed = false;
        loop {
            tokio::select! {
                exit = child.wait() => return exit,
                () = cancel.cancelled() => break,
                () = &mut feed, if !fed => fed = true,
            }
        }
    }
    child.terminate(grace).await;
    child.wait().await
}

/// Writes the input and closes it; a command that does not read it all is no error.
async fn feed(stdin: Option<ChildStdin>, input: Option<Bytes>) {
    let (Some(mut stdin), Some(input)) = (stdin, input) else {
        return;
    };
    match stdin.write_all(&input).await {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            tracing::debug!(%error, "a command's input could not be written");
        }
        Ok(()) | Err(_) => {}
    }
}

fn limit_hit(limits: &Limits, exit: &Exit) -> Option<Limit> {
    match exit.ended_by {
        EndedBy::WallLimit => limits.wall.map(Limit::Wall),
        EndedBy::Nothing if exit.signal == Some(libc::SIGXCPU) => limits.cpu.map(Limit::Cpu),
        EndedBy::Nothing | EndedBy::Cancel | EndedBy::OwnerGone => None,
    }
}
