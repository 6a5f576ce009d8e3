//! Servers over streamable HTTP.

mod client;
mod fates;
mod remote;
mod trouble;

use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{ErrorCode, RequestId};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, RunningService, serve_client_with_lifecycle_and_ct,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use tokio_util::sync::CancellationToken;

use self::client::HttpClient;
use self::fates::Fates;
pub use self::remote::{Remote, install_tls};
pub use self::trouble::Trouble;
use super::client::ClientEnd;
use super::core::Core;
use super::endpoint::Endpoint;
use super::start::StartFailure;
use super::wire::Fate;

/// How often an interrupted stream of events is resumed before its call is given up.
const RESUMES: usize = 5;
/// The pause before the first resumption, unless the server asks for another; doubled by each further one.
const FIRST_RESUME: Duration = Duration::from_millis(250);
/// The longest pause between two resumptions.
const LAST_RESUME: Duration = Duration::from_secs(10);
/// Requests beside the calls of tools: lists, a subscription, a ping.
const SPARE_REQUESTS: usize = 8;
/// How much of an error page is read.
const ERROR_BYTES: usize = 4 << 10;

/// One session with a server, or one series of requests where the server keeps no sessions.
pub struct HttpWire {
    client: HttpClient,
    config: StreamableHttpClientTransportConfig,
}

impl HttpWire {
    /// Prepares a connection; nothing is sent yet.
    ///
    /// # Errors
    /// Fails when the HTTP client of the server cannot be made.
    pub fn new(core: &Core, endpoint: &Endpoint) -> Result<Self, StartFailure> {
        let remote = core.remote(endpoint)?;
        let limits = &core.config.limits;
        let mut config = StreamableHttpClientTransportConfig::with_uri(endpoint.url().as_str());
        let mut resuming = ExponentialBackoff::default();
        resuming.max_times = Some(RESUMES);
        resuming.base_duration = FIRST_RESUME;
        resuming.max_delay = Some(LAST_RESUME);
        config.retry_config = Arc::new(resuming);
        config.max_concurrent_requests = limits.max_concurrent_calls.saturating_add(SPARE_REQUESTS);
        config.custom_headers = endpoint.headers();
        config.max_sse_event_size = limits.max_message_bytes;
        config.max_json_response_size = limits.max_message_bytes;
        config.max_error_response_size = ERROR_BYTES;
        // A session that is lost is replaced together with its connection, and a call is repeated only where that is
        // known to be safe; the transport would repeat every call.
        config.reinit_on_expired_session = false;
        Ok(Self {
            client: HttpClient::new(&remote, core.mask(), limits.max_message_bytes),
            config,
        })
    }

    /// Opens the connection once.
    pub async fn attempt(
        &self,
        end: &ClientEnd,
        mode: ClientLifecycleMode,
        ct: &CancellationToken,
    ) -> Result<RunningService<RoleClient, ClientEnd>, ClientInitializeError> {
        self.fates().forget_trouble();
        let transport = StreamableHttpClientTransport::with_client(self.client.clone(), self.config.clone());
        serve_client_with_lifecycle_and_ct(end.clone(), transport, mode, ct.clone()).await
    }

    /// Tells whether the server answered in a way that leaves room for another opening.
    pub fn is_answered(&self, error: &ClientInitializeError) -> bool {
        match self.last_trouble() {
            Some(trouble) => trouble.is_an_answer(),
            None => match error {
                ClientInitializeError::JsonRpcError(error) => {
                    error.code != ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY
                }
                ClientInitializeError::TransportError { .. } => false,
                _ => true,
            },
        }
    }

    /// Waits, within a limit, until the server can say something of its own.
    pub async fn heard(&self) {
        self.client.heard().await;
    }

    /// Returns what went wrong last since the connection was first tried.
    pub fn last_trouble(&self) -> Option<Trouble> {
        self.fates().last_trouble()
    }

    /// Returns how far request `id` came, and forgets it.
    pub fn take_fate(&self, id: &RequestId) -> Fate {
        self.fates().take(id)
    }

    fn fates(&self) -> &Fates {
        self.client.fates()
    }
}
