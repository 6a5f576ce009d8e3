//! Opening one connection to a server and learning its tools.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pentad_model::{Refusal, RefusalKind};
use rmcp::RoleClient;
use rmcp::service::{ClientInitializeError, RunningService, ServiceError};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::client::ClientEnd;
use super::config::Reach;
use super::connection::Connection;
use super::core::Core;
use super::http::HttpWire;
use super::launch::LaunchFailure;
use super::listing::{Listing, list_tools};
use super::manifest::{Manifest, Opening};
use super::opening::open;
use super::pipes::Pipes;
use super::routes::Routes;
use super::wire::Wire;

/// How long an end that was noticed may take to be explained.
const EXPLAIN_LIMIT: Duration = Duration::from_millis(1_000);

/// A live connection with its service loop.
pub struct Started {
    pub connection: Arc<Connection>,
    pub running: RunningService<RoleClient, ClientEnd>,
}

/// What a failed start means for the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strain {
    /// It counts; the pause grows with each.
    Counts,
    /// It counts, and the server asked for a pause of this length.
    Pause(Duration),
    /// It is no fault of the server's: the next call tries again.
    Free,
}

/// Why a start failed, in whole sentences with the end of the server's stderr.
#[derive(Debug, Clone)]
pub struct StartFailure {
    pub text: String,
    pub next: Option<String>,
    pub strain: Strain,
}

impl StartFailure {
    /// Returns a failure that counts.
    pub const fn new(text: String) -> Self {
        Self {
            text,
            next: None,
            strain: Strain::Counts,
        }
    }

    /// Returns what a caller is told.
    pub fn refusal(self, server: &str) -> Refusal {
        let refusal = Refusal::new(RefusalKind::Unavailable, server, self.text);
        match self.next {
            Some(next) => refusal.next_step(next),
            None => refusal,
        }
    }
}

/// Opens a connection, within the start limit; a process starts in `cwd`.
///
/// The limit covers everything from the launch to the list of tools, but not the wait for a free slot.
pub async fn start(core: &Arc<Core>, cwd: PathBuf) -> Result<Started, StartFailure> {
    let slot = tokio::select! {
        slot = core.runtime.starts.acquire() => slot.map_err(|_| closing(core))?,
        () = core.shutdown.cancelled() => return Err(closing(core)),
    };
    let routes = Arc::<Routes>::default();
    let deadline = Instant::now() + core.config.limits.start_timeout;
    let wire = tokio::select! {
        begun = timeout_at(deadline, begin(core, cwd.clone(), &routes)) => match begun {
            Ok(wire) => wire?,
            Err(_) => return Err(StartFailure::new(format!("server '{}' could not be launched within its start limit", core.config.name))),
        },
        () = core.shutdown.cancelled() => return Err(closing(core)),
    };
    let begun = Begun {
        wire,
        end: ClientEnd {
            core: Arc::clone(core),
            routes,
        },
        loop_end: CancellationToken::new(),
    };
    let opened = tokio::select! {
        opened = timeout_at(deadline, begun.open(core)) => opened.unwrap_or(Err(OpenFailure::TooSlow)),
        end = begun.wire.ended() => Err(OpenFailure::Ended(end)),
        () = core.shutdown.cancelled() => Err(OpenFailure::Shutdown),
    };
    drop(slot);
    match opened {
        Ok((running, opening, listing)) => Ok(begun.finish(core, running, opening, listing).await),
        Err(why) => Err(begun.give_up(core, why).await),
    }
}

fn closing(core: &Core) -> StartFailure {
    StartFailure {
        text: format!(
            "server '{}' is not started: everything is being shut down",
            core.config.name
        ),
        next: None,
        strain: Strain::Counts,
    }
}

async fn begin(core: &Arc<Core>, cwd: PathBuf, routes: &Arc<Routes>) -> Result<Wire, StartFailure> {
    match &core.config.reach {
        Reach::Command(line) => Pipes::launch(core, line, cwd, routes)
            .await
            .map(Wire::Pipes)
            .map_err(|LaunchFailure(text)| StartFailure::new(text)),
        Reach::Url(endpoint) => HttpWire::new(core, endpoint).map(|wire| Wire::Http(Box::new(wire))),
    }
}

/// A wire whose connection is not open yet.
struct Begun {
    wire: Wire,
    end: ClientEnd,
    loop_end: CancellationToken,
}

enum OpenFailure {
    TooSlow,
    Shutdown,
    Ended(String),
    Opening(Box<ClientInitializeError>),
    Listing(ServiceError),
}

impl Begun {
    async fn open(
        &self,
        core: &Core,
    ) -> Result<(RunningService<RoleClient, ClientEnd>, Opening, Listing), OpenFailure> {
        let remembered = core.manifest().map(|manifest| manifest.opening);
        let (running, opening) = open(&self.end, &self.wire, remembered, &self.loop_end)
            .await
            .map_err(|error| OpenFailure::Opening(Box::new(error)))?;
        let offers_tools = running
            .peer()
            .peer_info()
            .is_none_or(|info| info.capabilities.tools.is_some());
        let listing = match list_tools(running.peer()).await {
            Ok(listing) => listing,
            // A server without the capability may refuse the question; it simply has no tools.
            Err(ServiceError::McpError(_)) if !offers_tools => Listing::default(),
            Err(error) => return Err(OpenFailure::Listing(error)),
        };
        self.wire.heard().await;
        Ok((running, opening, listing))
    }

    async fn finish(
        self,
        core: &Core,
        running: RunningService<RoleClient, ClientEnd>,
        opening: Opening,
        listing: Listing,
    ) -> Started {
        core.login.note(None);
        core.publish(manifest(core, &running, opening, listing)).await;
        let connection = Connection::new(running.peer().clone(), self.wire, self.end.routes, self.loop_end);
        Started {
            connection: Arc::new(connection),
            running,
        }
    }

    async fn give_up(self, core: &Core, why: OpenFailure) -> StartFailure {
        let ended = match &why {
            OpenFailure::Ended(how) => Some(how.clone()),
            OpenFailure::TooSlow | OpenFailure::Shutdown => None,
            // The end of its output is usually the end of the process; its exit says more.
            _ if matches!(self.wire, Wire::Pipes(_)) => timeout(EXPLAIN_LIMIT, self.wire.ended()).await.ok(),
            _ => None,
        };
        let seen = match &why {
            OpenFailure::Opening(_) | OpenFailure::Listing(_) => self.wire.start_failure(core),
            _ => None,
        };
        self.loop_end.cancel();
        self.wire.end().await;
        if let OpenFailure::Shutdown = why {
            return closing(core);
        }
        let mut failure = seen.unwrap_or_else(|| StartFailure::new(reason(core, why, ended)));
        let report = self.wire.report();
        if report.flooded {
            failure.text.push_str("; it writes to stdout what is no protocol");
        }
        if let Some(line) = report.samples.first() {
            failure.text.push_str(&format!(
                "; {} lines of its stdout are no protocol, the first is: {line}",
                report.skipped
            ));
        }
        let tail = self.wire.last_words().await;
        if !tail.is_empty() {
            failure.text.push_str("; its stderr ends with:\n");
            failure.text.push_str(&tail);
        }
        failure.text = core.mask().apply(failure.text);
        failure
    }
}

fn reason(core: &Core, why: OpenFailure, ended: Option<String>) -> String {
    let name = &core.config.name;
    match (why, ended) {
        (OpenFailure::TooSlow | OpenFailure::Shutdown, _) => format!(
            "server '{name}' did not answer within {} s; raise start_timeout in [servers.{name}] if it needs longer",
            core.config.limits.start_timeout.as_secs_f64()
        ),
        (_, Some(how)) => format!("server '{name}' ended before it answered: {how}"),
        (OpenFailure::Opening(error), None) => format!("server '{name}' could not be opened: {error}"),
        (OpenFailure::Listing(error), None) => format!("server '{name}' did not list its tools: {error}"),
        (OpenFailure::Ended(how), None) => format!("server '{name}' ended: {how}"),
    }
}

/// Returns the manifest of a connection that has just listed its tools.
pub fn manifest(
    core: &Core,
    running: &RunningService<RoleClient, ClientEnd>,
    opening: Opening,
    listing: Listing,
) -> Manifest {
    let info = running.peer().peer_info();
    let protocol = info
        .as_ref()
        .map(|info| info.protocol_version.to_string())
        .unwrap_or_default();
    let mut manifest = Manifest::new(core.fingerprint.clone(), opening, protocol);
    if let Some(info) = info {
        manifest.server = info
            .server_info
            .as_ref()
            .map(|server| format!("{} {}", server.name, server.version).trim().to_owned());
        manifest.instructions = info.instructions.clone();
    }
    manifest.tools = listing.tools;
    manifest.dropped = listing.dropped;
    manifest
}
