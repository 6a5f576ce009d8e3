//! What a server says outside its answers: progress, changed lists, requests of its own.

#![allow(deprecated, reason = "roots are refused, which needs their name")]

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use pentad_model::text;
use pentad_program::Progress;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CustomNotification, ElicitRequestParams, ElicitResult, ErrorCode,
    ErrorData, Implementation, ListRootsResult, ProgressNotificationParam, ProgressToken, ProtocolVersion,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ClientHandler, RoleClient};
use tokio::sync::{Notify, mpsc};

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

#[derive(Debug, Default)]
struct Table {
    calls: HashMap<ProgressToken, mpsc::Sender<Progress>>,
    early: VecDeque<(ProgressToken, Progress)>,
}

impl Routes {
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
        table.calls.insert(token.clone(), sender);
        ProgressRoute {
            routes: Arc::clone(self),
            token,
            reports,
        }
    }

    fn report(&self, token: &ProgressToken, progress: Progress) {
        let mut table = self.lock();
        if let Some(call) = table.calls.get(token) {
            let _ = call.try_send(progress);
            return;
        }
        if table.early.len() == EARLY {
            table.early.pop_front();
        }
        table.early.push_back((token.clone(), progress));
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
        self.routes.lock().calls.remove(&self.token);
    }
}

/// Our end of a connection to a server: it declares nothing, so that it can be asked for nothing.
#[derive(Debug, Clone)]
pub struct ClientEnd {
    pub routes: Arc<Routes>,
}

/// What a server asks although it was not offered does not exist here.
fn not_offered<T>(method: &'static str) -> Result<T, ErrorData> {
    Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method, None))
}

#[allow(
    deprecated,
    reason = "sampling and roots are refused, which needs their names"
)]
impl ClientHandler for ClientEnd {
    fn get_info(&self) -> ClientConfig {
        let us = Implementation::new("pentad", env!("CARGO_PKG_VERSION")).with_title("Pentad");
        ClientConfig::new(ClientCapabilities::default(), us)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
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
        not_offered("roots/list")
    }

    async fn create_elicitation(
        &self,
        _request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        not_offered("elicitation/create")
    }
}
