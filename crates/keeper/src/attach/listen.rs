//! The keeper's door: the socket, and the faces that came through it.

use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use pentad_model::{Refusal, RefusalKind};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Notify;
use tokio_util::codec::{FramedRead, FramedWrite, LinesCodec};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::desk::Desk;
use super::frame::{Attach, Build, PROTOCOL, Welcome};
use super::link::{self, MAX_LINE};
use super::peer::Peer;
use super::session::Session;

/// Faces at once.
const MAX_FACES: usize = 1024;
/// How long a face may take to send its frame.
const FRAME_LIMIT: Duration = Duration::from_secs(10);
/// How often the keeper looks whether it is still wanted: its socket is there, somebody is attached, a run goes on.
const LOOK: Duration = Duration::from_secs(2);
/// How long attached faces may take to go when the keeper ends.
const LEAVE_LIMIT: Duration = Duration::from_secs(20);

/// Why nobody can attach.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The path does not fit into an address.
    #[error(
        "the socket {path} has a path of {bytes} bytes; the system takes 107\nNext: set XDG_RUNTIME_DIR to a short folder of your own, choose a home with a shorter path, or use --in-process"
    )]
    TooLong {
        /// The path.
        path: PathBuf,
        /// Its length.
        bytes: usize,
    },
    /// The socket could not be made.
    #[error("the socket {path} cannot be made: {source}\nNext: check the permissions of its folder")]
    NotMade {
        /// The path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// When a keeper that nobody uses ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Idle {
    /// After this long without faces and runs.
    After(Duration),
    /// Never: it lives as long as whoever opened it.
    Never,
}

/// An open door.
#[derive(Debug)]
pub struct Doorway {
    path: PathBuf,
    inode: Option<u64>,
    faces: Arc<AtomicUsize>,
    closing: CancellationToken,
    ended: CancellationToken,
    tasks: TaskTracker,
}

/// Opens the socket at `path` for the faces of a home. Only whoever holds the keeper's lock may call this: a socket that
/// is there already is left over, and replaced.
///
/// # Errors
/// Fails when the socket cannot be made.
pub fn listen(path: &Path, desk: Arc<dyn Desk>, build: Build, idle: Idle) -> Result<Doorway, ListenError> {
    let listener = bind(path)?;
    let door = Doorway {
        path: path.to_owned(),
        inode: inode(path),
        faces: Arc::default(),
        closing: CancellationToken::new(),
        ended: CancellationToken::new(),
        tasks: TaskTracker::new(),
    };
    let house = Arc::new(House {
        desk,
        build,
        may_restart: idle != Idle::Never,
        faces: Arc::clone(&door.faces),
        left: Notify::new(),
        closing: door.closing.clone(),
        ended: door.ended.clone(),
        tasks: door.tasks.clone(),
    });
    door.tasks.spawn(accept(listener, Arc::clone(&house)));
    door.tasks.spawn(look(door.path.clone(), door.inode, house, idle));
    Ok(door)
}

impl Doorway {
    /// Waits until the keeper should end: nobody has used it for long, its socket was taken away, or a newer build wants
    /// its place.
    pub async fn unused(&self) {
        self.ended.cancelled().await;
    }

    /// Returns how many faces are attached.
    #[must_use]
    pub fn faces(&self) -> usize {
        self.faces.load(Ordering::Acquire)
    }

    /// Lets nobody in any more, cancels what the attached faces called, and waits for it to end, within a limit.
    pub async fn close(self) {
        if self.inode.is_some() && inode(&self.path) == self.inode {
            // Removed while the lock is held, so it is ours.
            let _ = std::fs::remove_file(&self.path);
        }
        self.closing.cancel();
        self.ended.cancel();
        self.tasks.close();
        if tokio::time::timeout(LEAVE_LIMIT, self.tasks.wait())
            .await
            .is_err()
        {
            tracing::warn!("faces were still attached after {LEAVE_LIMIT:?}");
        }
    }
}

fn inode(path: &Path) -> Option<u64> {
    std::fs::symlink_metadata(path).ok().map(|found| found.ino())
}

/// Refuses a path that does not fit into the address of a socket.
pub(super) fn check_length(path: &Path) -> Result<(), ListenError> {
    // sun_path of Linux has 108 bytes, a closing zero among them.
    const LONGEST: usize = 107;
    let bytes = path.as_os_str().len();
    if bytes > LONGEST {
        return Err(ListenError::TooLong {
            path: path.to_owned(),
            bytes,
        });
    }
    Ok(())
}

fn bind(path: &Path) -> Result<UnixListener, ListenError> {
    check_length(path)?;
    let not_made = |source| ListenError::NotMade {
        path: path.to_owned(),
        source,
    };
    if let Some(folder) = path.parent() {
        crate::home::make_directory(folder, 0o700)
            .map_err(|error| not_made(io::Error::other(error.to_string())))?;
    }
    match std::fs::remove_file(path) {
        Ok(()) => tracing::debug!(path = %path.display(), "a socket was left over and is replaced"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(not_made(error)),
    }
    // The folder is private, so nobody attaches between these two.
    let listener = UnixListener::bind(path).map_err(not_made)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(not_made)?;
    Ok(listener)
}

/// What the tasks of an open door share.
struct House {
    desk: Arc<dyn Desk>,
    build: Build,
    /// A keeper that serves nobody but its faces gives way to a newer build.
    may_restart: bool,
    faces: Arc<AtomicUsize>,
    left: Notify,
    closing: CancellationToken,
    ended: CancellationToken,
    tasks: TaskTracker,
}

async fn accept(listener: UnixListener, house: Arc<House>) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = house.closing.cancelled() => return,
        };
        match accepted {
            Ok((stream, _)) => {
                let visitor = Arc::clone(&house);
                house.tasks.spawn(async move { visitor.receive(stream).await });
            }
            Err(error) => {
                tracing::warn!(%error, "a face could not be let in");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// Ends the keeper when nobody has used it for long, or when its socket is no longer the one at its path.
async fn look(path: PathBuf, own: Option<u64>, house: Arc<House>, idle: Idle) {
    let mut unused_since = tokio::time::Instant::now();
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = house.left.notified() => {}
            () = house.closing.cancelled() => return,
        }
        let there = path.clone();
        let seen = tokio::task::spawn_blocking(move || inode(&there))
            .await
            .ok()
            .flatten();
        if seen != own {
            tracing::warn!(path = %path.display(), "the socket is gone; nobody can attach any more");
            house.ended.cancel();
            return;
        }
        let Idle::After(limit) = idle else { continue };
        if house.faces.load(Ordering::Acquire) > 0 || house.desk.is_busy().await {
            unused_since = tokio::time::Instant::now();
        } else if unused_since.elapsed() >= limit {
            house.ended.cancel();
            return;
        }
    }
}

/// Counts a face while it is attached.
struct Counted<'h>(&'h House);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.faces.fetch_sub(1, Ordering::AcqRel);
        self.0.left.notify_one();
    }
}

type Read = FramedRead<OwnedReadHalf, LinesCodec>;
type Write = FramedWrite<OwnedWriteHalf, LinesCodec>;

impl House {
    async fn receive(self: Arc<Self>, stream: UnixStream) {
        let peer = Peer::of(&stream);
        let (read, write) = stream.into_split();
        let mut read: Read = FramedRead::new(read, LinesCodec::new_with_max_length(MAX_LINE));
        let mut write: Write = FramedWrite::new(write, LinesCodec::new_with_max_length(MAX_LINE));
        let frame = tokio::select! {
            frame = tokio::time::timeout(FRAME_LIMIT, read.next()) => frame,
            () = self.closing.cancelled() => return,
        };
        let Ok(Some(Ok(line))) = frame else {
            tracing::debug!(pid = peer.pid, "a process connected and sent no frame");
            return;
        };
        let attach: Attach = match serde_json::from_str(&line) {
            Ok(attach) => attach,
            Err(error) => {
                let refusal = Refusal::new(
                    RefusalKind::BadRequest,
                    "attach",
                    format!("The attach frame cannot be read: {error}."),
                )
                .next_step("attach with the pentad command of this machine");
                say(&mut write, &Welcome::Refused(refusal)).await;
                return;
            }
        };
        let before = self.faces.fetch_add(1, Ordering::AcqRel);
        let counted = Counted(&self);
        self.desk.catch_up().await;
        let welcome = self.welcome(&attach, before).await;
        let attached = matches!(welcome, Welcome::Attached { .. });
        if matches!(welcome, Welcome::Restarting) {
            self.ended.cancel();
        }
        if !say(&mut write, &welcome).await || !attached {
            return;
        }
        tracing::debug!(pid = peer.pid, actor = %peer.calling.actor, role = ?attach.role, "attached");
        let here = self.closing.child_token();
        let session = Arc::new(Session::new(
            Arc::clone(&self.desk),
            peer,
            attach.role,
            here.clone(),
            attach.environment,
        ));
        let (_link, serving) = link::start(read, write, session, self.closing.clone());
        serving.await;
        here.cancel();
        drop(counted);
    }

    async fn welcome(&self, attach: &Attach, others: usize) -> Welcome {
        if others >= MAX_FACES {
            let text = format!("{others} faces are attached; at most {MAX_FACES} are served.");
            let refusal = Refusal::new(RefusalKind::TooMany, "attach", text).next_step("close some of them");
            return Welcome::Refused(refusal);
        }
        if attach.protocol == 0 {
            let text = format!("Protocol 0 is unknown; this keeper speaks 1 to {PROTOCOL}.");
            return Welcome::Refused(Refusal::new(RefusalKind::BadRequest, "protocol", text));
        }
        let notice = if attach.build > self.build {
            Some(format!(
                "the keeper of this home is of an older build ({}) and still in use; pentad stop ends it, and the next command starts one of this build",
                self.build.words()
            ))
        } else {
            self.desk.outdated().map(|what| {
                format!("{what} of config.toml has changed, and the keeper of this home is still in use; pentad stop ends it, and the next one takes the change")
            })
        };
        if notice.is_some() && self.may_restart && others == 0 && !self.desk.is_busy().await {
            return Welcome::Restarting;
        }
        Welcome::Attached {
            protocol: attach.protocol.min(PROTOCOL),
            build: self.build.clone(),
            pid: std::process::id(),
            notice,
        }
    }
}

async fn say(write: &mut Write, welcome: &Welcome) -> bool {
    match serde_json::to_string(welcome) {
        Ok(line) => write.send(line).await.is_ok(),
        Err(_) => false,
    }
}
