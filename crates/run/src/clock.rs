//! The clock of the wall, as something that tests can turn.

use std::time::Duration;

use async_trait::async_trait;
use pentad_model::Timestamp;

/// How long a wait for a moment sleeps at a time. The system's clock may be set meanwhile, forward or back.
const LOOK: Duration = Duration::from_secs(20);

/// Tells the time and waits for it.
#[async_trait]
pub trait Clock: Send + Sync {
    /// Returns the present time. It may jump, both ways.
    fn now(&self) -> Timestamp;

    /// Returns when the clock shows `moment` or more, or earlier: whoever waits looks again. Cancel by dropping.
    async fn reach(&self, moment: Timestamp);
}

/// The system's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    async fn reach(&self, moment: Timestamp) {
        let left = u64::try_from(moment.0.saturating_sub(self.now().0)).unwrap_or(0);
        tokio::time::sleep(Duration::from_millis(left).min(LOOK)).await;
    }
}
