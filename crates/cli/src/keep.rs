//! Keeping a home: the lock, everything that it holds, and the door for faces.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use pentad_keeper::attach::{
    Attach, Build, Desk, Doorway, FindError, Idle, Launch, ListenError, PROTOCOL, Remote, RemoteParts, Role,
    listen,
};
use pentad_keeper::config::ServerEntry;
use pentad_keeper::lock::KeeperLockError;
use pentad_keeper::{Config, Home, KeeperLock};
use pentad_process::clean_env;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::wire::{self, Lifetime, Opened};

/// The hidden command that is a keeper.
pub const KEEPER_COMMAND: &str = "__keeper";
/// How long another process that has the home for one command is waited for.
const HELD_LIMIT: Duration = Duration::from_secs(30);

/// A home that this process keeps.
pub struct Keeping {
    opened: Opened,
    door: Option<Doorway>,
    // Released last, when nothing of the home is open any more.
    _lock: KeeperLock,
}

impl Keeping {
    /// Takes the home and opens it. A keeper that stays lets faces in; one for a single command does not.
    ///
    /// # Errors
    /// Fails when another process has the home (see [`KeeperLockError`]) and when it cannot be opened.
    pub async fn open(home: &Home, config: &Config, lifetime: Lifetime, idle: Idle) -> anyhow::Result<Self> {
        let lock = KeeperLock::take(home)?;
        let opened = Box::pin(wire::open(home, config, lifetime)).await?;
        let door = match lifetime {
            Lifetime::Once => None,
            Lifetime::Long => {
                let socket = home.socket(runtime_dir().as_deref());
                match listen(&socket, opened.desk(), build(), idle) {
                    Ok(door) => Some(door),
                    // Whoever keeps the home for itself can do without visitors.
                    Err(error @ ListenError::TooLong { .. }) if idle == Idle::Never => {
                        tracing::warn!("nobody else can use this home meanwhile: {error}");
                        None
                    }
                    Err(error) => {
                        opened.close().await;
                        return Err(error.into());
                    }
                }
            }
        };
        Ok(Self {
            opened,
            door,
            _lock: lock,
        })
    }

    /// Returns the desk of the home.
    pub fn desk(&self) -> Arc<dyn Desk> {
        self.opened.desk()
    }

    /// Is cancelled when the home closes.
    pub const fn closing(&self) -> &CancellationToken {
        self.opened.closing()
    }

    /// Waits until nobody needs this keeper any more.
    pub async fn unused(&self) {
        match &self.door {
            Some(door) => door.unused().await,
            None => std::future::pending().await,
        }
    }

    /// Lets the faces go, ends what was started, and releases the home; each step is bounded.
    pub async fn close(self) {
        if let Some(door) = self.door {
            door.close().await;
        }
        self.opened.close().await;
    }
}

/// Returns this process's build.
pub fn build() -> Build {
    Build::of(wire::own_executable().ok().as_deref())
}

/// Returns the folder for sockets whose path would be too long in the home.
pub fn runtime_dir() -> Option<PathBuf> {
    std::env::var_os("XDG_RUNTIME_DIR")
        .filter(|dir| !dir.is_empty())
        .map(PathBuf::from)
}

/// Where a home is worked in.
pub enum Place {
    /// In this process.
    Here(Box<Keeping>),
    /// In the keeper's.
    There(Arc<Remote>),
}

impl Place {
    /// Returns the desk.
    pub fn desk(&self) -> Arc<dyn Desk> {
        match self {
            Self::Here(keeping) => keeping.desk(),
            Self::There(remote) => Arc::clone(remote) as _,
        }
    }

    /// Ends or leaves it.
    pub async fn close(self) {
        match self {
            Self::Here(keeping) => keeping.close().await,
            Self::There(remote) => remote.close().await,
        }
    }

    /// Keeps the home in this process, or attaches to the process that has it.
    ///
    /// # Errors
    /// Fails when the home cannot be opened, and when another process has it and lets nobody in.
    pub async fn here_or_attached(
        home: &Home,
        config: &Config,
        lifetime: Lifetime,
        role: Role,
    ) -> anyhow::Result<Self> {
        let end = Instant::now() + HELD_LIMIT;
        loop {
            let held = match Keeping::open(home, config, lifetime, Idle::Never).await {
                Ok(keeping) => return Ok(Self::Here(Box::new(keeping))),
                Err(error) => error,
            };
            if !matches!(held.downcast_ref(), Some(KeeperLockError::Held { .. })) {
                return Err(held);
            }
            let remote = remote(home, role, None);
            match remote.attach().await {
                // Should the process that has it go first, a keeper takes its place.
                Ok(_) if lifetime == Lifetime::Long => {
                    return Ok(Self::There(Arc::new(remote.or_start(launch(home, config)?))));
                }
                Ok(_) => return Ok(Self::There(Arc::new(remote))),
                // A command that has the home to itself, and will not for long.
                Err(FindError::NotRunning) if Instant::now() < end => {
                    sleep(Duration::from_millis(20)).await;
                }
                Err(FindError::NotRunning) => return Err(held),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Returns the keeper of a home as a face meets it: attached to by the first call, started when there is none.
pub fn keeper(home: &Home, config: &Config, role: Role) -> anyhow::Result<Remote> {
    Ok(remote(home, role, Some(launch(home, config)?)))
}

fn launch(home: &Home, config: &Config) -> anyhow::Result<Launch> {
    // Its own name, so that ps shows what it is and an upgrade in place is what starts next time.
    let program = std::env::current_exe().context("find this program's own file")?;
    let environment = std::env::vars_os().collect();
    let mut declared: Vec<String> = config.env.names.clone();
    declared.extend(config.servers.values().flat_map(ServerEntry::variables));
    declared.push(crate::logging::LEVEL_VARIABLE.to_owned());
    declared.push(pentad_mcp::DEPTH_VARIABLE.to_owned());
    Ok(Launch {
        program,
        args: vec!["--home".into(), home.path().into(), KEEPER_COMMAND.into()],
        env: clean_env(&environment, &declared),
        log: home.keeper_log(),
    })
}

fn remote(home: &Home, role: Role, launch: Option<Launch>) -> Remote {
    let environment = std::env::vars_os().collect();
    Remote::new(RemoteParts {
        home: home.clone(),
        runtime_dir: runtime_dir(),
        attach: Attach {
            protocol: PROTOCOL,
            build: build(),
            role,
            environment: (&clean_env(&environment, &[])).into(),
        },
        launch,
        variables: Arc::new(|names| {
            let set = names.iter().filter_map(|name| {
                let value = std::env::var_os(name)?;
                Some((OsString::from(name), value))
            });
            (&set.collect::<BTreeMap<_, _>>()).into()
        }),
        notice: Arc::new(|text| tracing::warn!("{text}")),
    })
}
