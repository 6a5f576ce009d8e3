//! Our end of a connection: what a server's notifications and its own requests come to.

#![allow(
    deprecated,
    reason = "roots are answered and logs are kept, which needs their names"
)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::future::join_all;
use pentad_model::{Form, FormAnswer, text};
use pentad_program::Progress;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult, CustomNotification,
    CustomRequest, CustomResult, ElicitRequestParams, ElicitResult, ElicitationCapability, ErrorCode,
    ErrorData, FormElicitationCapability, Implementation, ListRootsResult, LoggingMessageNotificationParam,
    ProgressNotificationParam, ProtocolVersion, Root,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ClientHandler, RoleClient};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::core::Core;
use super::elicit::{Elicitor, ask_one, ended, fitting, form_of, raw_form_of, result};
use super::log::{self, Origin};
use super::routes::{Behind, Routes};

/// Longest message of a report.
const MESSAGE_BYTES: usize = 400;

/// Returns folders in the form of the protocol.
pub fn roots<'a>(folders: impl IntoIterator<Item = &'a Path>) -> Vec<Root> {
    folders
        .into_iter()
        .filter_map(|folder| Url::from_directory_path(folder).ok())
        .map(|url| Root::new(url.as_str().trim_end_matches('/')))
        .collect()
}

/// Returns what a server is told that we can do; forms only where some face may be asked.
pub fn capabilities(forms: bool) -> ClientCapabilities {
    let mut capabilities = ClientCapabilities::builder().enable_roots().build();
    capabilities.elicitation =
        forms.then(|| ElicitationCapability::new().with_form(FormElicitationCapability::new()));
    capabilities
}

/// Our end of a connection to a server. It answers which folders are worked in, and puts forms of the server before
/// whoever is behind the call.
#[derive(Clone)]
pub struct ClientEnd {
    pub core: Arc<Core>,
    pub routes: Arc<Routes>,
}

/// What a server asks although it was not offered does not exist here.
fn not_offered<T>(method: &'static str) -> Result<T, ErrorData> {
    Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method, None))
}

impl ClientEnd {
    /// Answers a form: by whoever is behind the call that it belongs to, else by a person. The call is known only
    /// while it is the only one in flight; a guess could give one client's answer to another.
    async fn answer_form(
        &self,
        elicitor: &dyn Elicitor,
        form: Result<Form, FormAnswer>,
        withdrawn: &CancellationToken,
    ) -> FormAnswer {
        let behind = self.routes.behind();
        let _pauses: Vec<_> = behind.iter().map(|call| call.pauses.begin()).collect();
        let answering = async {
            match behind.as_slice() {
                [] => ended(&self.core, FormAnswer::unanswered("no call is in flight"), None).await,
                [call] => ask_one(&self.core, form, &call.attendance, call.origin.as_ref()).await,
                several => self.ask_a_person(elicitor, form, several).await,
            }
        };
        tokio::select! {
            answer = answering => answer,
            () = withdrawn.cancelled() => {
                let answer = FormAnswer::unanswered("the server took it back");
                ended(&self.core, answer, behind.iter().filter_map(|call| call.origin.as_ref())).await
            }
        }
    }

    async fn ask_a_person(
        &self,
        elicitor: &dyn Elicitor,
        form: Result<Form, FormAnswer>,
        calls: &[Behind],
    ) -> FormAnswer {
        let origins: Vec<Origin> = calls.iter().filter_map(|call| call.origin.clone()).collect();
        let answer = match form {
            Err(answer) => answer,
            Ok(form) => tokio::select! {
                answer = elicitor.elicit(&form, &origins) => fitting(&form, answer),
                _ = join_all(calls.iter().map(|call| call.attendance.cancel.cancelled())) => {
                    FormAnswer::unanswered("the calls ended first")
                }
            },
        };
        ended(&self.core, answer, &origins).await
    }
}

impl ClientHandler for ClientEnd {
    fn get_info(&self) -> ClientConfig {
        let us = Implementation::new("pentad", env!("CARGO_PKG_VERSION")).with_title("Pentad");
        let capabilities = capabilities(self.core.runtime.elicitor.is_some());
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
        self.routes.log(log::line(&message, &self.core.mask()));
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
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let Some(elicitor) = &self.core.runtime.elicitor else {
            return not_offered("elicitation/create");
        };
        let form = form_of(&self.core.config.name, request);
        Ok(result(self.answer_form(&**elicitor, form, &context.ct).await))
    }

    /// A form that does not have the shape of the specification comes here: most of them can be shown all the same.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleClient>,
    ) -> Result<CustomResult, ErrorData> {
        match &self.core.runtime.elicitor {
            Some(elicitor) if request.method == "elicitation/create" => {
                let form = raw_form_of(
                    &self.core.config.name,
                    request.params.as_ref().unwrap_or(&Value::Null),
                );
                let answer = result(self.answer_form(&**elicitor, form, &context.ct).await);
                Ok(CustomResult::new(
                    serde_json::to_value(answer).unwrap_or_default(),
                ))
            }
            _ => Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None)),
        }
    }
}
