//! Starting one process of a server and learning its tools.

use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::service::{ClientInitializeError, RunningService, ServiceError};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::connection::Connection;
use super::core::Core;
use super::guard::{DEPTH_VARIABLE, resolve};
use super::launch::{LaunchFailure, LaunchSpec, Launched, ServerProcess};
use super::listing::{Listing, list_tools};
use super::manifest::{Manifest, Opening};
use super::opening::open;
use super::routes::{ClientEnd, Routes};
use super::stderr::StderrTail;
use crate::lines::LineTransport;

/// How long a server may take to end by itself once its input is closed.
const AFTER_EOF: Duration = Duration::from_millis(1_000);
/// How long it may take after the polite signal.
const GRACE: Duration = Duration::from_millis(1_000);
/// How long its end is waited for in all.
const END_LIMIT: Duration = Duration::from_millis(3_500);
/// How long an end that was noticed may take to be explained.
const EXPLAIN_LIMIT: Duration = Duration::from_millis(1_000);

/// A live process with its service loop.
pub struct Started {
    pub connection: Arc<Connection>,
    pub running: RunningService<RoleClient, ClientEnd>,
}

/// Why a start failed, in whole sentences with the end of the server's stderr.
#[derive(Debug, Clone)]
pub struct StartFailure(pub String);

/// Starts the server in `cwd`, within its start limit.
///
/// The limit covers everything from the launch to the list of tools, but not the wait for a free slot.
pub async fn start(core: &Arc<Core>, cwd: std::path::PathBuf) -> Result<Started, StartFailure> {
    let slot = tokio::select! {
        slot = core.runtime.starts.acquire() => slot.map_err(|_| closing(core))?,
        () = core.shutdown.cancelled() => return Err(closing(core)),
    };
    let deadline = Instant::now() + core.config.limits.start_timeout;
    let launched = tokio::select! {
        launched = timeout_at(deadline, launch(core, cwd)) => match launched {
            Ok(launched) => launched.map_err(|LaunchFailure(text)| StartFailure(text))?,
            Err(_) => return Err(StartFailure(format!("server '{}' could not be launched within its start limit", core.config.name))),
        },
        () = core.shutdown.cancelled() => return Err(closing(core)),
    };
    let begun = Begun::new(core, launched);
    let opened = tokio::select! {
        opened = timeout_at(deadline, begun.open(core)) => opened.unwrap_or(Err(OpenFailure::TooSlow)),
        end = begun.process.wait() => Err(OpenFailure::Ended(end)),
        () = core.shutdown.cancelled() => Err(OpenFailure::Shutdown),
    };
    drop(slot);
    match opened {
        Ok((running, opening, listing)) => Ok(begun.finish(core, running, opening, listing).await),
        Err(why) => Err(begun.give_up(core, why).await),
    }
}

fn closing(core: &Core) -> StartFailure {
    StartFailure(format!(
        "server '{}' is not started: everything is being shut down",
        core.config.name
    ))
}

async fn launch(core: &Core, cwd: std::path::PathBuf) -> Result<Launched, LaunchFailure> {
    let (config, runtime) = (&core.config, &core.runtime);
    let mut env = runtime.env.clone();
    env.extend(config.env.clone());
    env.insert(DEPTH_VARIABLE.to_owned(), (runtime.depth + 1).to_string());
    let program = resolve(config, &env, runtime.own_executable.as_deref(), runtime.depth)?;
    let spec = LaunchSpec {
        name: config.name.clone(),
        program,
        args: config.args.clone(),
        env,
        cwd,
    };
    runtime.launcher.launch(spec).await
}

/// A process whose connection is not open yet.
struct Begun {
    process: Arc<dyn ServerProcess>,
    lines: LineTransport,
    end: ClientEnd,
    stderr: Arc<StderrTail>,
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
    fn new(core: &Core, launched: Launched) -> Self {
        let Launched {
            stdin,
            stdout,
            stderr: diagnostics,
            process,
        } = launched;
        let stderr = Arc::new(StderrTail::new(core.mask()));
        let tail = Arc::clone(&stderr);
        // Ends with the stream, which ends with the process.
        core.tasks.spawn(async move { tail.follow(diagnostics).await });
        Self {
            process,
            lines: LineTransport::server(stdout, stdin, core.config.limits.max_message_bytes),
            end: ClientEnd {
                routes: Arc::new(Routes::default()),
            },
            stderr,
            loop_end: CancellationToken::new(),
        }
    }

    async fn open(
        &self,
        core: &Core,
    ) -> Result<(RunningService<RoleClient, ClientEnd>, Opening, Listing), OpenFailure> {
        let remembered = core.manifest().map(|manifest| manifest.opening);
        let (running, opening) = open(&self.end, &self.lines, remembered, &self.loop_end)
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
        Ok((running, opening, listing))
    }

    async fn finish(
        self,
        core: &Core,
        running: RunningService<RoleClient, ClientEnd>,
        opening: Opening,
        listing: Listing,
    ) -> Started {
        core.publish(manifest(core, &running, opening, listing)).await;
        let connection = Connection::new(
            running.peer().clone(),
            self.process,
            self.end.routes,
            self.stderr,
            self.lines,
            self.loop_end,
        );
        Started {
            connection: Arc::new(connection),
            running,
        }
    }

    async fn give_up(self, core: &Core, why: OpenFailure) -> StartFailure {
        let name = &core.config.name;
        let ended = match &why {
            OpenFailure::Ended(how) => Some(how.clone()),
            OpenFailure::TooSlow | OpenFailure::Shutdown => None,
            // The end of its output is usually the end of the process; its exit says more.
            _ => tokio::time::timeout(EXPLAIN_LIMIT, self.process.wait())
                .await
                .ok(),
        };
        self.loop_end.cancel();
        end_process(&*self.process, &self.lines).await;
        let mut text = match (why, ended) {
            (OpenFailure::Shutdown, _) => return closing(core),
            (OpenFailure::TooSlow, _) => format!(
                "server '{name}' did not answer within {} s; raise start_timeout in [servers.{name}] if it needs longer",
                core.config.limits.start_timeout.as_secs_f64()
            ),
            (_, Some(how)) => format!("server '{name}' ended before it answered: {how}"),
            (OpenFailure::Opening(error), None) => format!("server '{name}' could not be opened: {error}"),
            (OpenFailure::Listing(error), None) => format!("server '{name}' did not list its tools: {error}"),
            (OpenFailure::Ended(how), None) => format!("server '{name}' ended: {how}"),
        };
        let report = self.lines.report();
        if report.flooded {
            text.push_str("; it writes to stdout what is no protocol");
        }
        if let Some(line) = report.samples.first() {
            text.push_str(&format!(
                "; {} lines of its stdout are no protocol, the first is: {line}",
                report.skipped
            ));
        }
        let tail = self.stderr.shown();
        if !tail.is_empty() {
            text.push_str("; its stderr ends with:\n");
            text.push_str(&tail);
        }
        StartFailure(core.mask().apply(text))
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
            .map(|server| format!("{} {}", server.name, server.version));
        manifest.instructions = info.instructions.clone();
    }
    manifest.tools = listing.tools;
    manifest.dropped = listing.dropped;
    manifest
}

/// Closes a server's input and ends what does not end by itself, within a limit.
pub async fn end_process(process: &dyn ServerProcess, lines: &LineTransport) {
    lines.close_output().await;
    let ended = tokio::time::timeout(END_LIMIT, async {
        process.end(AFTER_EOF, GRACE).await;
        process.wait().await
    });
    if ended.await.is_err() {
        tracing::warn!(
            pid = process.pid(),
            "a server has not ended within its limit; its launcher still owns it"
        );
    }
}
