//! The first words with a server: whichever of the two openings it understands.

use rmcp::RoleClient;
use rmcp::model::{ErrorCode, ProtocolVersion};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, RunningService, serve_client_with_lifecycle_and_ct,
};
use tokio_util::sync::CancellationToken;

use super::manifest::Opening;
use super::routes::ClientEnd;
use crate::lines::LineTransport;

/// A connection that is open, and how it was opened.
pub type Opened = (RunningService<RoleClient, ClientEnd>, Opening);

/// Opens a connection, beginning with the opening that worked last time.
///
/// `initialize` comes first for a server that is not known: servers of the older revisions may end at any other first
/// message, while one that knows only the stateless revision answers `initialize` with an error and goes on.
pub async fn open(
    end: &ClientEnd,
    transport: &LineTransport,
    remembered: Option<Opening>,
    ct: &CancellationToken,
) -> Result<Opened, ClientInitializeError> {
    let first = remembered.unwrap_or(Opening::Initialize);
    match attempt(end, transport, first, ct).await {
        Ok(running) => Ok((running, first)),
        Err(error) if is_answered(&error) => {
            let second = match first {
                Opening::Initialize => Opening::Discover,
                Opening::Discover => Opening::Initialize,
            };
            tracing::debug!(%error, ?second, "trying the other opening");
            match attempt(end, transport, second, ct).await {
                Ok(running) => Ok((running, second)),
                // The first answer says more about a server that understands neither.
                Err(other) if is_answered(&other) => Err(error),
                Err(other) => Err(other),
            }
        }
        Err(error) => Err(error),
    }
}

async fn attempt(
    end: &ClientEnd,
    transport: &LineTransport,
    opening: Opening,
    ct: &CancellationToken,
) -> Result<RunningService<RoleClient, ClientEnd>, ClientInitializeError> {
    let mode = match opening {
        Opening::Initialize => ClientLifecycleMode::Initialize,
        Opening::Discover => ClientLifecycleMode::Discover {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        },
    };
    serve_client_with_lifecycle_and_ct(end.clone(), transport.clone(), mode, ct.clone()).await
}

/// Tells whether the server answered that it does not know this opening, so that the connection is sound.
fn is_answered(error: &ClientInitializeError) -> bool {
    match error {
        ClientInitializeError::JsonRpcError(error) => {
            error.code != ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY
                && error.code != ErrorCode::INTERNAL_ERROR
        }
        ClientInitializeError::NoCompatibleProtocolVersion { .. } => true,
        _ => false,
    }
}
