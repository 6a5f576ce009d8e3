//! A connected server as a source of tools.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use data_encoding::HEXLOWER;
use pentad_model::tool::{RESERVED_SOURCES, is_source_name};
use pentad_model::{Refusal, RefusalKind, ThreadId, ToolDocument};
use pentad_program::{
    Diagnostic, Environment, Readiness, Severity, SourceStatus, ToolCall, ToolFailure, ToolOutput, ToolSource,
};
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::config::{Reach, ServerConfig, Share};
use super::copies::{Copies, Slot};
use super::core::{Core, ServerRuntime};
use super::instance::Instance;
use super::way::{Definition, Way};

/// Why a server entry cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServerError {
    /// The name is not one that a source can have.
    #[error(
        "'{0}' cannot name a server: expected [a-z0-9][a-z0-9_-]{{0,31}} and none of builtin, recipes, project, library, catalog"
    )]
    Name(String),
    /// There is nothing to start.
    #[error("server '{0}' has no command; set command in [servers.{0}]")]
    NoCommand(String),
}

/// A configured server: searchable from its manifest, started or opened by its first call, stopped when idle.
pub struct ConnectedServer {
    pub(super) core: Arc<Core>,
    copies: Copies,
    pub(super) permits: Semaphore,
}

impl ConnectedServer {
    /// Creates the source. Nothing is started; the manifest of an earlier run is read if there is one.
    ///
    /// # Errors
    /// Refuses names that no source can have, and an empty command.
    pub fn new(config: ServerConfig, runtime: ServerRuntime) -> Result<Self, ServerError> {
        if !is_source_name(&config.name) || RESERVED_SOURCES.contains(&config.name.as_str()) {
            return Err(ServerError::Name(config.name));
        }
        if matches!(config.reach.definition(), Definition::Command(line) if line.program.trim().is_empty()) {
            return Err(ServerError::NoCommand(config.name));
        }
        let permits = Semaphore::new(
            config
                .limits
                .max_concurrent_calls
                .clamp(1, Semaphore::MAX_PERMITS),
        );
        Ok(Self {
            core: Arc::new(Core::new(config, runtime)),
            copies: Copies::default(),
            permits,
        })
    }

    /// Opens the server now, as the first call of a tool would, for callers with these variables; without any, with
    /// those of this process.
    ///
    /// # Errors
    /// Refuses for the reasons that a call is refused: it cannot be started or reached, or a person has to log in.
    pub async fn open(&self, environment: Option<&Environment>) -> Result<(), Refusal> {
        let home = self.core.runtime.home_dir.clone();
        let copy = self.copies.copy(&self.core, Slot::Home, &home, environment)?;
        copy.lease().await.map(drop)
    }

    /// Opens the server although it was disabled or backs off: a person asked.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub async fn open_again(&self, environment: Option<&Environment>) -> Result<(), Refusal> {
        for copy in self.copies.all() {
            copy.enable();
        }
        self.open(environment).await
    }

    /// Tells whether a person has to log in, as far as is known without asking the server.
    #[must_use]
    pub fn needs_login(&self) -> bool {
        self.core.login.need().is_some()
    }

    fn fingerprint(&self, environment: Option<&Environment>) -> String {
        self.core.fingerprint(&self.core.config.reach.values(environment))
    }

    /// Returns the copy that a thread uses which works in `folder`, for a caller with these variables.
    pub(super) fn instance_for(
        &self,
        thread: ThreadId,
        folder: &Path,
        environment: Option<&Environment>,
    ) -> Result<Arc<Instance>, Refusal> {
        let home = &self.core.runtime.home_dir;
        let (slot, folder) = match self.core.config.share {
            Share::Home => (Slot::Home, home.as_path()),
            Share::Workspace => (Slot::Workspace(folder.to_owned()), folder),
            Share::Thread => (Slot::Thread(thread), folder),
        };
        self.copies.copy(&self.core, slot, folder, environment)
    }

    /// Refuses a document that is no longer what the server offers: what was judged is what must run.
    pub(super) fn check(&self, judged: &ToolDocument) -> Result<(), Refusal> {
        let address = judged.tool.address();
        match self.core.document(&judged.tool.name) {
            Some(present) if same(&present, judged) => Ok(()),
            Some(_) => Err(Refusal::new(
                RefusalKind::Conflict,
                judged.tool.to_string(),
                format!("The server has changed the contract of {}.", judged.tool),
            )
            .next_step(format!("read {address}, then call it again"))),
            None => Err(Refusal::new(
                RefusalKind::NotFound,
                judged.tool.to_string(),
                format!("The server offers {} no longer.", judged.tool),
            )
            .next_step("read ~/tools/ lists what there is")),
        }
    }
}

fn same(present: &ToolDocument, judged: &ToolDocument) -> bool {
    std::ptr::eq(present, judged)
        || present == judged
        || matches!((present.cid(), judged.cid()), (Ok(present), Ok(judged)) if present == judged)
}

#[async_trait]
impl ToolSource for ConnectedServer {
    fn name(&self) -> &str {
        &self.core.config.name
    }

    fn documents(&self) -> Arc<[Arc<ToolDocument>]> {
        self.core.documents()
    }

    fn generation(&self) -> u64 {
        self.core.generation()
    }

    fn status(&self) -> SourceStatus {
        let mut diagnostics = Vec::new();
        let mut best: Option<Readiness> = None;
        let copies = self.copies.all();
        for instance in &copies {
            let (readiness, error) = instance.readiness();
            if let Some(error) = error {
                // What is over is worth knowing, no more.
                let severity = match readiness {
                    Readiness::Ready => Severity::Info,
                    _ => Severity::Warning,
                };
                let mut failed = self.diagnostic(severity, instance.variant.mask().apply(error));
                let disabled = matches!(readiness, Readiness::Disabled { .. });
                failed.next = disabled.then(|| format!("pentad connect {} --again", self.core.config.name));
                diagnostics.push(failed);
            }
            if let Some(connection) = instance.live() {
                let report = connection.wire.report();
                if let Some(first) = report.samples.first() {
                    let text = format!(
                        "{} lines of its stdout are no protocol and were skipped; the first is: {first}",
                        report.skipped
                    );
                    let text = instance.variant.mask().apply(text);
                    diagnostics.push(self.diagnostic(Severity::Warning, text));
                }
                let tail = connection.wire.diagnostics();
                if !tail.is_empty() {
                    diagnostics
                        .push(self.diagnostic(Severity::Info, format!("its stderr ends with:\n{tail}")));
                }
            }
            if best.as_ref().is_none_or(|best| rank(&readiness) < rank(best)) {
                best = Some(readiness);
            }
        }
        diagnostics.extend(self.about_the_way());
        let manifest = self.core.manifest();
        if let Some(manifest) = &manifest {
            diagnostics.extend(
                manifest
                    .dropped
                    .iter()
                    .map(|text| self.diagnostic(Severity::Warning, text.clone())),
            );
        }
        let resting = if manifest.is_some() {
            Readiness::Indexed
        } else {
            Readiness::Configured
        };
        SourceStatus {
            source: self.core.config.name.clone(),
            readiness: best.unwrap_or(resting),
            tools: self.core.documents().len(),
            copies: copies.iter().filter(|copy| copy.is_alive()).count(),
            diagnostics,
        }
    }

    fn closure_hash(&self, document: &ToolDocument, environment: Option<&Environment>) -> String {
        let mut hash = Sha256::new();
        match document.cid() {
            Ok(cid) => hash.update(cid),
            // A definition without a canonical form is bound to its text.
            Err(_) => hash.update(serde_json::to_vec(document).unwrap_or_default()),
        }
        hash.update(b"\n");
        hash.update(self.fingerprint(environment));
        HEXLOWER.encode(&hash.finalize())
    }

    fn launch_fingerprint(&self, environment: Option<&Environment>) -> Option<String> {
        Some(self.fingerprint(environment))
    }

    async fn call(&self, call: ToolCall) -> Result<ToolOutput, ToolFailure> {
        self.call_tool(call).await
    }

    async fn refresh(&self, environment: Option<&Environment>) -> Result<(), Refusal> {
        match self.core.manifest() {
            Some(_) => Ok(()),
            None => self.open(environment).await,
        }
    }

    async fn shutdown(&self, limit: Duration) {
        self.core.shutdown.cancel();
        self.core.tasks.close();
        if timeout(limit, self.core.tasks.wait()).await.is_err() {
            tracing::warn!(server = %self.core.config.name, "a server has not ended within the limit of the shutdown");
        }
    }
}

impl ConnectedServer {
    /// What is worth knowing about a server that is reached over a network.
    fn about_the_way(&self) -> Vec<Diagnostic> {
        let (core, mut found) = (&self.core, Vec::new());
        let name = &core.config.name;
        if let Some(need) = core.login.need() {
            let message = match need.more {
                false => format!("server '{name}' asks for a login"),
                true => format!("the login at server '{name}' does not reach far enough"),
            };
            let mut login = self.diagnostic(Severity::Warning, message);
            login.next = Some(format!("pentad connect {name} --login"));
            found.push(login);
        }
        if let Some(address) = self.in_the_clear() {
            let mut clear = self.diagnostic(
                Severity::Warning,
                format!("what is sent to {address} can be read on the way"),
            );
            clear.next = Some(format!(
                "write https:// in [servers.{name}] if the server offers it"
            ));
            found.push(clear);
        }
        found
    }

    /// Returns the address of the server, if what is sent there crosses a network in the clear.
    fn in_the_clear(&self) -> Option<String> {
        let open = |reach: &Reach| match reach {
            Reach::Url(endpoint) if endpoint.is_in_the_clear() => Some(endpoint.shown()),
            Reach::Url(_) | Reach::Command(_) => None,
        };
        match &self.core.config.reach {
            Way::Fixed(reach) => open(reach),
            Way::ByCaller(_) => self.copies.all().iter().find_map(|copy| {
                let shown = open(&copy.variant.reach)?;
                Some(copy.variant.mask().apply(shown))
            }),
        }
    }

    fn diagnostic(&self, severity: Severity, message: String) -> Diagnostic {
        Diagnostic {
            severity,
            subject: self.core.config.name.clone(),
            message,
            next: None,
        }
    }
}

/// The state worth showing first, of several processes.
const fn rank(readiness: &Readiness) -> u8 {
    match readiness {
        Readiness::Ready => 0,
        Readiness::Starting { .. } => 1,
        Readiness::Indexed => 2,
        Readiness::Configured => 3,
        Readiness::BackingOff { .. } => 4,
        Readiness::Disabled { .. } => 5,
    }
}
