//! What the face answers to each method.

use std::sync::{Arc, LazyLock};

use pentad_model::{contract, verb::Verb};
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CustomRequest, CustomResult, DiscoverResult,
    ErrorCode, ErrorData, Implementation, ListToolsResult, PaginatedRequestParams, ProtocolVersion,
    ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{RoleServer, ServerHandler};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::{FaceOptions, LazyVerbs};

/// How long a client may keep the list of tools and the discovery answer: they change with a new version only.
const TTL_MS: u64 = 24 * 60 * 60 * 1000;

const INSTRUCTIONS: &str = "Five verbs reach everything. read ~/tools/ finds tools (options.query searches), call runs one, \
read and write ~/memory/ keep notes, delegate starts child runs, plan keeps your plan.";

/// Methods that exist but whose parameters could not be read.
const KNOWN_METHODS: [&str; 5] = [
    "initialize",
    "server/discover",
    "tools/list",
    "tools/call",
    "ping",
];

/// Those of them that 2026-07-28 does not have.
const REMOVED_METHODS: [&str; 2] = ["initialize", "ping"];

/// The five tools; every face has the same.
static TOOLS: LazyLock<Arc<[Tool]>> = LazyLock::new(|| tools().into());

/// The calls of one face.
#[derive(Debug, Clone, Default)]
pub struct Calls {
    /// Holds a token for each call in flight.
    pub tracker: TaskTracker,
    /// Cancels all of them.
    pub cancel: CancellationToken,
    /// Holds a token for each call in flight of all faces that end together.
    whole: Option<TaskTracker>,
}

impl Calls {
    /// Returns calls of one face among these: they can be cancelled alone, and end with all.
    pub fn part(&self) -> Self {
        Self {
            tracker: TaskTracker::new(),
            cancel: self.cancel.child_token(),
            whole: Some(self.tracker.clone()),
        }
    }

    /// Marks a call as in flight until the marks are dropped.
    fn begin(&self) -> (TaskTrackerToken, Option<TaskTrackerToken>) {
        (self.tracker.token(), self.whole.as_ref().map(TaskTracker::token))
    }
}

/// The service of one connection.
#[derive(Debug)]
pub struct Face {
    pub(super) verbs: LazyVerbs,
    pub(super) options: FaceOptions,
    /// Whether the key of the thread gets the client's own name as its last part.
    pub(super) thread_per_client: bool,
    tools: Arc<[Tool]>,
    calls: Calls,
}

impl Face {
    pub fn new(verbs: LazyVerbs, options: FaceOptions) -> Self {
        Self {
            verbs,
            options,
            thread_per_client: false,
            tools: Arc::clone(&TOOLS),
            calls: Calls::default(),
        }
    }

    /// Creates a face whose calls are part of others.
    pub fn among(verbs: LazyVerbs, options: FaceOptions, calls: Calls, thread_per_client: bool) -> Self {
        Self {
            thread_per_client,
            calls,
            ..Self::new(verbs, options)
        }
    }

    pub fn calls(&self) -> &Calls {
        &self.calls
    }
}

/// Returns the five tools as the protocol's type.
fn tools() -> Vec<Tool> {
    let read = |value: Value| match serde_json::from_value(value) {
        Ok(tool) => Some(tool),
        Err(error) => {
            tracing::error!(%error, "a verb's contract is no MCP tool");
            None
        }
    };
    contract::tools().into_iter().filter_map(read).collect()
}

impl ServerHandler for Face {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("pentad", env!("CARGO_PKG_VERSION")).with_title("Pentad"))
            .with_instructions(INSTRUCTIONS)
    }

    async fn discover(&self, _context: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        let versions = self.supported_protocol_versions().into_owned();
        Ok(DiscoverResult::from_server_info(versions, self.get_info())
            .with_ttl_ms(TTL_MS)
            .with_cache_scope(CacheScope::Public))
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        if let Some(cursor) = request.and_then(|request| request.cursor) {
            let text = format!("Invalid cursor '{cursor}': there is one page only; leave the cursor out.");
            return Err(ErrorData::invalid_params(text, None));
        }
        let list = ListToolsResult::with_all_items(self.tools.to_vec());
        // Older revisions know no caching hints.
        let stateless = context
            .protocol_version()
            .is_some_and(|version| !version.has_initialize());
        Ok(if stateless {
            list.with_ttl_ms(TTL_MS).with_cache_scope(CacheScope::Public)
        } else {
            list
        })
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools.iter().find(|tool| tool.name == name).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let verb: Verb = request.name.parse().map_err(|refusal: pentad_model::Refusal| {
            ErrorData::invalid_params(refusal.to_text(), serde_json::to_value(&refusal).ok())
        })?;
        let _in_flight = self.calls.begin();
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let result = self
            .call_verb(verb, arguments, &context, self.calls.cancel.child_token())
            .await;
        Ok(CallToolResponse::Complete(result))
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let stands_alone = context
            .protocol_version()
            .is_some_and(|version| !version.has_initialize());
        let gone = stands_alone && REMOVED_METHODS.contains(&request.method.as_str());
        if !gone && KNOWN_METHODS.contains(&request.method.as_str()) {
            let text = format!(
                "Invalid params for {}: they do not have the shape of the specification.",
                request.method
            );
            return Err(ErrorData::invalid_params(text, None));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None))
    }

    async fn on_initialized(&self, _context: NotificationContext<RoleServer>) {
        tracing::debug!("the client is initialized");
    }

    async fn on_custom_notification(
        &self,
        notification: rmcp::model::CustomNotification,
        _context: NotificationContext<RoleServer>,
    ) {
        tracing::debug!(method = %notification.method, "ignoring an unknown notification");
    }

    fn supported_protocol_versions(&self) -> std::borrow::Cow<'static, [ProtocolVersion]> {
        std::borrow::Cow::Borrowed(ProtocolVersion::KNOWN_VERSIONS)
    }
}
