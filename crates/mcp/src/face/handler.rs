//! What the face answers to each method.

use std::sync::{Arc, LazyLock};

use pentad_model::{contract, verb::Verb};
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CustomRequest, CustomResult, DiscoverResult,
    ErrorCode, ErrorData, Implementation, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse,
    ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{RoleServer, ServerHandler};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::ask::Returned;
use super::call::Ended;
use super::{FaceOptions, LazyVerbs, reply, resources, routing};

/// How long a client may keep lists and the discovery answer: they change with a new version only.
const TTL_MS: u64 = 24 * 60 * 60 * 1000;

/// How long a client may keep what it read: long enough for a burst, too short to miss a change.
const READ_TTL_MS: u64 = 1_000;

const INSTRUCTIONS: &str = "Five verbs reach everything. read ~/tools/ finds tools (options.query searches), call runs one, \
read and write ~/memory/ keep notes, delegate starts child runs, plan keeps your plan.";

/// Methods that exist but whose parameters could not be read.
const KNOWN_METHODS: [&str; 8] = [
    "initialize",
    "server/discover",
    "tools/list",
    "tools/call",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "ping",
];

/// Those of them that 2026-07-28 does not have.
const REMOVED_METHODS: [&str; 2] = ["initialize", "ping"];

/// The five tools; every face has the same.
static TOOLS: LazyLock<Arc<[Tool]>> = LazyLock::new(|| tools().into());

/// The same for clients that know the keyword for headers.
static ROUTED: LazyLock<Arc<[Tool]>> = LazyLock::new(|| routing::annotated(&TOOLS).into());

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
    pub(super) fn begin(&self) -> (TaskTrackerToken, Option<TaskTrackerToken>) {
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
    /// The same for clients that know the keyword for headers.
    routed: Arc<[Tool]>,
    calls: Calls,
}

impl Face {
    pub fn new(verbs: LazyVerbs, options: FaceOptions) -> Self {
        Self {
            verbs,
            options,
            thread_per_client: false,
            tools: Arc::clone(&TOOLS),
            routed: Arc::clone(&ROUTED),
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

/// Older revisions know no caching hints, and no keyword for headers.
fn is_stateless(context: &RequestContext<RoleServer>) -> bool {
    context
        .protocol_version()
        .is_some_and(|version| !version.has_initialize())
}

fn one_page(request: Option<PaginatedRequestParams>) -> Result<(), ErrorData> {
    match request.and_then(|request| request.cursor) {
        None => Ok(()),
        Some(cursor) => {
            let text = format!("Invalid cursor '{cursor}': there is one page only; leave the cursor out.");
            Err(ErrorData::invalid_params(text, None))
        }
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
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .build();
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
        one_page(request)?;
        Ok(if is_stateless(&context) {
            ListToolsResult::with_all_items(self.routed.to_vec())
                .with_ttl_ms(TTL_MS)
                .with_cache_scope(CacheScope::Public)
        } else {
            ListToolsResult::with_all_items(self.tools.to_vec())
        })
    }

    /// Returns the tool by which a transport checks the headers of a request that has such headers.
    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.routed.iter().find(|tool| tool.name == name).cloned()
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        one_page(request)?;
        let list = ListResourcesResult::with_all_items(resources::entries());
        Ok(if is_stateless(&context) {
            list.with_ttl_ms(TTL_MS).with_cache_scope(CacheScope::Public)
        } else {
            list
        })
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        one_page(request)?;
        let list = ListResourceTemplatesResult::with_all_items(resources::templates());
        Ok(if is_stateless(&context) {
            list.with_ttl_ms(TTL_MS).with_cache_scope(CacheScope::Public)
        } else {
            list
        })
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let response = self.read_by_uri(request, &context).await?;
        Ok(match response {
            ReadResourceResponse::Complete(read) if is_stateless(&context) => read
                .with_ttl_ms(READ_TTL_MS)
                .with_cache_scope(CacheScope::Private)
                .into(),
            other => other,
        })
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let verb: Verb = request
            .name
            .parse()
            .map_err(|refusal| reply::error(ErrorCode::INVALID_PARAMS, &refusal))?;
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let returned = Returned {
            state: request.request_state,
            responses: request.input_responses,
        };
        match self.run_verb(verb, arguments, &returned, &context).await {
            Ended::Outcome(outcome) => Ok(CallToolResponse::Complete(reply::outcome(*outcome))),
            Ended::Refused(refusal) => Ok(CallToolResponse::Complete(reply::refusal(&refusal))),
            Ended::Asks(question) => Ok(CallToolResponse::InputRequired(question)),
            Ended::Misused(refusal) => Err(reply::error(ErrorCode::INVALID_PARAMS, &refusal)),
        }
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
