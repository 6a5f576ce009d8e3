//! Finding the keeper of a home, or starting one.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use pentad_model::Refusal;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::codec::{FramedRead, FramedWrite, LinesCodec};

use super::frame::{Attach, Build, PROTOCOL, Welcome};
use super::link::MAX_LINE;
use super::listen::{ListenError, check_length};
use crate::home::Home;
use crate::lock::WriterLock;

/// How long a face looks for a keeper, and how long a keeper may take to open its home.
const LIMIT: Duration = Duration::from_secs(30);
/// How long the keeper may take to answer the attach frame.
const WELCOME_LIMIT: Duration = Duration::from_secs(10);
/// First pause before another look; doubled up to [`LONGEST_PAUSE`].
const PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Why no keeper was found.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// No process keeps this home, and none was to be started.
    #[error("no keeper runs in this home")]
    NotRunning,
    /// The keeper turned the face away.
    #[error("{0}")]
    Refused(Box<Refusal>),
    /// A keeper was started and ended at once.
    #[error("the keeper of this home could not start: {0}")]
    NotStarted(String),
    /// The keeper's program could not be started.
    #[error("{program} could not be started as the keeper of this home: {source}")]
    NotLaunched {
        /// The program.
        program: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The keeper speaks a protocol that this build does not.
    #[error(
        "the keeper of this home speaks protocol {0}, and this build up to {PROTOCOL}\nNext: pentad stop with the build that started it"
    )]
    Protocol(u32),
    /// Something is there, and does not answer.
    #[error(
        "the keeper of this home does not answer within {limit} s ({socket})\nNext: pentad stop ends it; --in-process works without one",
        limit = LIMIT.as_secs()
    )]
    Silent {
        /// The socket.
        socket: PathBuf,
    },
    /// The socket's path does not fit into an address.
    #[error(transparent)]
    TooLong(ListenError),
    /// The socket cannot be used.
    #[error("the socket {socket} cannot be used: {source}")]
    Unusable {
        /// The socket.
        socket: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// How a keeper is started when there is none.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The program.
    pub program: PathBuf,
    /// Its arguments. It detaches itself, opens the home, and then prints one line: `ready`, `held` when another
    /// process has the home, or why it cannot, as a JSON string.
    pub args: Vec<OsString>,
    /// Its whole environment.
    pub env: BTreeMap<OsString, OsString>,
    /// Takes its standard error.
    pub log: PathBuf,
}

/// A connection on which the frames have been exchanged.
#[derive(Debug)]
pub struct Found {
    pub(super) read: FramedRead<OwnedReadHalf, LinesCodec>,
    pub(super) write: FramedWrite<OwnedWriteHalf, LinesCodec>,
    /// The keeper's process.
    pub pid: u32,
    /// The keeper's build.
    pub build: Build,
    /// What a person should know.
    pub notice: Option<String>,
}

enum Knock {
    In(Box<Found>),
    Nobody,
    Restarting,
}

/// Attaches to the keeper of a home; starts one by `launch` when there is none. Of many that look at once, one starts it.
///
/// # Errors
/// Fails when there is none and none can be started, when it refuses, and when it does not answer in time.
pub async fn find(
    home: &Home,
    runtime_dir: Option<&std::path::Path>,
    attach: &Attach,
    launch: Option<&Launch>,
) -> Result<Found, FindError> {
    let socket = home.socket(runtime_dir);
    check_length(&socket).map_err(FindError::TooLong)?;
    let end = Instant::now() + LIMIT;
    let mut pause = PAUSE;
    loop {
        match knock(&socket, attach).await? {
            Knock::In(found) => return Ok(*found),
            Knock::Restarting => {}
            Knock::Nobody => {
                let Some(launch) = launch else {
                    return Err(FindError::NotRunning);
                };
                if let Some(found) = start(home, &socket, attach, launch).await? {
                    return Ok(found);
                }
            }
        }
        if Instant::now() >= end {
            return Err(FindError::Silent { socket });
        }
        // The one before is ending, or another process has the home for a moment: its end is announced by nothing.
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

async fn knock(socket: &std::path::Path, attach: &Attach) -> Result<Knock, FindError> {
    let stream = match UnixStream::connect(socket).await {
        Ok(stream) => stream,
        Err(error) => {
            return match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Ok(Knock::Nobody),
                // A full backlog: it is there and busy.
                io::ErrorKind::WouldBlock => Ok(Knock::Restarting),
                _ => Err(FindError::Unusable {
                    socket: socket.to_owned(),
                    source: error,
                }),
            };
        }
    };
    let (read, write) = stream.into_split();
    let mut read = FramedRead::new(read, LinesCodec::new_with_max_length(MAX_LINE));
    let mut write = FramedWrite::new(write, LinesCodec::new_with_max_length(MAX_LINE));
    let frame = serde_json::to_string(attach).unwrap_or_default();
    let exchange = async {
        write.send(frame).await.ok()?;
        read.next().await?.ok()
    };
    let Ok(line) = timeout(WELCOME_LIMIT, exchange).await else {
        return Err(FindError::Silent {
            socket: socket.to_owned(),
        });
    };
    // It ended just now: whoever looks again finds the next one, or none.
    let Some(line) = line else {
        return Ok(Knock::Restarting);
    };
    match serde_json::from_str::<Welcome>(&line) {
        Ok(Welcome::Attached {
            protocol,
            build,
            pid,
            notice,
        }) => {
            if protocol == 0 || protocol > PROTOCOL {
                return Err(FindError::Protocol(protocol));
            }
            Ok(Knock::In(Box::new(Found {
                read,
                write,
                pid,
                build,
                notice,
            })))
        }
        Ok(Welcome::Restarting) => Ok(Knock::Restarting),
        Ok(Welcome::Refused(refusal)) => Err(FindError::Refused(Box::new(refusal))),
        Err(error) => Err(FindError::Unusable {
            socket: socket.to_owned(),
            source: io::Error::other(format!("its first line is no welcome: {error}")),
        }),
    }
}

/// Starts a keeper, unless somebody else does. Returns nothing when another process has the home at this moment.
async fn start(
    home: &Home,
    socket: &std::path::Path,
    attach: &Attach,
    launch: &Launch,
) -> Result<Option<Found>, FindError> {
    let path = home.state().join("keeper.start");
    let lock = tokio::task::spawn_blocking(move || WriterLock::take(&path, LIMIT));
    let _one_starts = lock
        .await
        .map_err(io::Error::other)
        .and_then(|taken| taken)
        .map_err(|source| FindError::Unusable {
            socket: home.state().join("keeper.start"),
            source,
        })?;
    if let Knock::In(found) = knock(socket, attach).await? {
        return Ok(Some(*found));
    }
    let first = launched(launch).await?;
    match first.trim() {
        "ready" => match knock(socket, attach).await? {
            Knock::In(found) => Ok(Some(*found)),
            Knock::Nobody | Knock::Restarting => Ok(None),
        },
        "held" => Ok(None),
        "" => Err(FindError::NotStarted(format!(
            "it ended without a word\nNext: see {}",
            launch.log.display()
        ))),
        why => {
            let text = serde_json::from_str(why).unwrap_or_else(|_| why.to_owned());
            Err(FindError::NotStarted(text))
        }
    }
}

/// Starts the program and returns the first line that it prints.
async fn launched(launch: &Launch) -> Result<String, FindError> {
    let not_launched = |source| FindError::NotLaunched {
        program: launch.program.clone(),
        source,
    };
    let log = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(&launch.log)
        .map_err(not_launched)?;
    // The keeper outlives this process on purpose, so no spawner and no warden hold it. It leaves the session by itself,
    // and the runtime takes its exit status should it end first.
    let mut child = tokio::process::Command::new(&launch.program)
        .args(&launch.args)
        .env_clear()
        .envs(&launch.env)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .kill_on_drop(false)
        .spawn()
        .map_err(not_launched)?;
    let mut text = String::new();
    if let Some(stdout) = child.stdout.take() {
        let mut lines = BufReader::new(stdout);
        let reading = timeout(LIMIT, lines.read_line(&mut text)).await;
        match reading {
            Ok(Ok(_)) => {}
            Ok(Err(source)) => return Err(not_launched(source)),
            Err(_) => {
                // It has not opened the home; whatever it waits for, nobody waits for it any more.
                let _ = child.start_kill();
                return Err(FindError::NotStarted(format!(
                    "it was not ready within {} s",
                    LIMIT.as_secs()
                )));
            }
        }
    }
    Ok(text)
}
