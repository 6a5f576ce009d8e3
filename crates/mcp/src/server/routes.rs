//! What a server says outside its answers: progress, changed lists, requests of its own.

#![allow(
    deprecated,
    reason = "roots are answered and logs are kept, which needs their names"
)]

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use pentad_model::text;
use pentad_program::Progress;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult, CustomNotification,
    ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability, ErrorCode, ErrorData,
    FormElicitationCapability, Implementation, ListRootsResult, LoggingMessageNotificationParam,
    ProgressNotificationParam, ProgressToken, ProtocolVersion, Root,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ClientHandler, RoleClient};
use tokio::sync::{Notify, mpsc};
use url::Url;

use super::elicit::{Elicitor, elicited};
use super::log::{self, LogLine, MAX_LINES};

/// Reports that came before their call was registered and are kept for it.
const EARLY: usize = 32;
/// Reports that may wait for one call.
const BUFFER: usize = 16;
/// Longest message of a report.
const MESSAGE_BYTES: usize = 400;

/// Where the notifications of one connection go.
#[derive(Debug, Default)]
pub struct Routes {
    table: Mutex<Table>,
    /// Woken when the server's list of tools has changed.
    pub list_changed: Notify,
}

/// A call that is being sent or waits for its answer.
#[derive(Debug)]
struct InFlight {
    lines: mpsc::Sender<LogLine>,
    folder: PathBuf,
}

#[derive(Debug, Default)]
struct Table {
    calls: HashMap<u64, InFlight>,
    next: u64,
    reports: HashMap<ProgressToken, mpsc::Sender<Progress>>,
    early: VecDeque<(ProgressToken, Progress)>,
}

impl Routes {
    /// Notes that a call is about to be sent that works in `folder`: a server may ask before the sender knows that it was
    /// sent.
    pub fn enter(self: &Arc<Self>, folder: &Path) -> Presence {
        let (sender, lines) = mpsc::channel(MAX_LINES);
        let call = InFlight {
            lines: sender,
            folder: folder.to_owned(),
        };
        let mut table = self.lock();
        let number = table.next;
        table.next += 1;
        table.calls.insert(number, call);
        Presence {
            routes: Arc::clone(self),
            number,
            lines,
        }
    }

    /// Returns the reports for `token` until the route is dropped.
    pub fn watch(self: &Arc<Self>, token: ProgressToken) -> ProgressRoute {
        let (sender, reports) = mpsc::channel(BUFFER);
        let mut table = self.lock();
        let (mine, others): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut table.early)
            .into_iter()
            .partition(|(of, _)| *of == token);
        table.early = others;
        for (_, report) in mine {
            // A full channel only means that a newer report follows.
            let _ = sender.try_send(report);
        }
        table.reports.insert(token.clone(), sender);
        ProgressRoute {
            routes: Arc::clone(self),
            token,
            reports,
        }
    }

    fn report(&self, token: &ProgressToken, progress: Progress) {
        let mut table = self.lock();
        if let Some(reports) = table.reports.get(token) {
            let _ = reports.try_send(progress);
            return;
        }
        if table.early.len() == EARLY {
            table.early.pop_front();
        }
        table.early.push_back((token.clone(), progress));
    }

    /// Returns the folders that the calls in flight work in.
    fn folders(&self) -> BTreeSet<PathBuf> {
        let table = self.lock();
        table.calls.values().map(|call| call.folder.clone()).collect()
    }

    /// Gives a line to the call that it belongs to: the only one in flight. Of several nobody knows which.
    fn log(&self, line: LogLine) {
        let table = self.lock();
        let mut calls = table.calls.values();
        if let (Some(call), None) = (calls.next(), calls.next()) {
            // A call keeps so many lines and no more.
            let _ = call.lines.try_send(line);
        }
    }

    fn in_flight(&self) -> usize {
        self.lock().calls.len()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The reports of one call.
pub struct ProgressRoute {
    routes: Arc<Routes>,
    token: ProgressToken,
    /// Never closes while the route lives.
    pub reports: mpsc::Receiver<Progress>,
}

impl Drop for ProgressRoute {
    fn drop(&mut self) {
        self.routes.lock().reports.remove(&self.token);
    }
}

/// A call in flight, until it is dropped.
pub struct Presence {
    routes: Arc<Routes>,
    number: u64,
    /// What the server logs meanwhile, as far as it belongs to this call.
    pub lines: mpsc::Receiver<LogLine>,
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.routes.lock().calls.remove(&self.number);
    }
}

/// Returns folders in the form of the protocol.
pub fn roots<'a>(folders: impl IntoIterator<Item = &'a Path>) -> Vec<Root> {
    folders
        .into_iter()
        .filter_map(|folder| Url::from_directory_path(folder).ok())
        .map(|url| Root::new(url.as_str().trim_end_matches('/')))
        .collect()
}

/// Our end of a connection to a server. It answers which folders are worked in, and lets the server ask a person where
/// one can be asked.
#[derive(Clone)]
pub struct ClientEnd {
    pub server: String,
    pub routes: Arc<Routes>,
    pub elicitor: Option<Arc<dyn Elicitor>>,
}

/// What a server asks although it was not offered does not exist here.
fn not_offered<T>(method: &'static str) -> Result<T, ErrorData> {
    Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method, None))
}

impl ClientHandler for ClientEnd {
    fn get_info(&self) -> ClientConfig {
        let us = Implementation::new("pentad", env!("CARGO_PKG_VERSION")).with_title("Pentad");
        let mut capabilities = ClientCapabilities::builder().enable_roots().build();
        capabilities.elicitation = self
            .elicitor
            .is_some()
            .then(|| ElicitationCapability::new().with_form(FormElicitationCapability::new()));
        ClientConfig::new(capabilities, us).with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        let progress = Progress {
            done: params.progress,
            total: params.total,
            message: params
                .message
                .map(|message| text::excerpt(&text::visible(&message), MESSAGE_BYTES)),
        };
        self.routes.report(&params.progress_token, progress);
    }

    async fn on_logging_message(
        &self,
        message: LoggingMessageNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.routes.log(log::line(&message));
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.routes.list_changed.notify_one();
    }

    async fn on_custom_notification(
        &self,
        notification: CustomNotification,
        _context: NotificationContext<RoleClient>,
    ) {
        tracing::debug!(method = %notification.method, "ignoring an unknown notification");
    }

    async fn list_roots(&self, _context: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        let folders = self.routes.folders();
        Ok(ListRootsResult::new(roots(folders.iter().map(PathBuf::as_path))))
    }

    async fn create_message(
        &self,
        _request: CreateMessageRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        not_offered("sampling/createMessage: a server gets no answers of a language model here")
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let Some(elicitor) = &self.elicitor else {
            return not_offered("elicitation/create");
        };
        // With several calls in flight nobody knows who is asked; a guess could give one client's answer to another.
        if self.routes.in_flight() != 1 {
            tracing::debug!(server = %self.server, "a question was declined: it belongs to no single call");
            return Ok(ElicitResult::new(ElicitationAction::Decline));
        }
        Ok(elicited(&self.server, &**elicitor, request).await)
    }
}
