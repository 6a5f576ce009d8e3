//! The first words with a server: whichever of the two openings it understands.

use rmcp::RoleClient;
use rmcp::model::ProtocolVersion;
use rmcp::service::{ClientInitializeError, ClientLifecycleMode, RunningService};
use tokio_util::sync::CancellationToken;

use super::client::ClientEnd;
use super::manifest::Opening;
use super::wire::Wire;

/// A connection that is open, and how it was opened.
pub type Opened = (RunningService<RoleClient, ClientEnd>, Opening);

/// Opens a connection, beginning with the opening that worked last time.
pub async fn open(
    end: &ClientEnd,
    wire: &Wire,
    remembered: Option<Opening>,
    ct: &CancellationToken,
) -> Result<Opened, ClientInitializeError> {
    let first = remembered.unwrap_or_else(|| wire.first_opening());
    match wire.attempt(end, mode(first), ct).await {
        Ok(running) => Ok((running, first)),
        Err(error) if wire.may_try_other_opening(&error) => {
            let second = match first {
                Opening::Initialize => Opening::Discover,
                Opening::Discover => Opening::Initialize,
            };
            tracing::debug!(%error, ?second, "trying the other opening");
            match (wire.attempt(end, mode(second), ct).await, first) {
                (Ok(running), _) => Ok((running, second)),
                // What a server answers to `initialize` says more about one that understands neither.
                (Err(other), Opening::Initialize) if wire.may_try_other_opening(&other) => Err(error),
                (Err(other), _) => Err(other),
            }
        }
        Err(error) => Err(error),
    }
}

fn mode(opening: Opening) -> ClientLifecycleMode {
    match opening {
        Opening::Initialize => ClientLifecycleMode::Initialize,
        Opening::Discover => ClientLifecycleMode::Discover {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        },
    }
}
