//! Changes of the lists, for whoever subscribed to them.

use rmcp::ErrorData;
use rmcp::service::SubscriptionContext;
use tokio::sync::broadcast;

/// How many changes a slow listener may be behind.
const BEHIND: usize = 16;

#[derive(Debug, Clone, Copy)]
pub enum Change {
    Tools,
    Prompts,
}

/// Says that a list has changed.
#[derive(Debug, Clone)]
pub struct Changes(broadcast::Sender<Change>);

impl Default for Changes {
    fn default() -> Self {
        Self(broadcast::channel(BEHIND).0)
    }
}

impl Changes {
    pub fn tell(&self, change: Change) {
        // Nobody may be listening.
        let _ = self.0.send(change);
    }

    /// Passes on what the subscription asked for until it ends.
    pub async fn pass_on(&self, subscription: &SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.0.subscribe();
        loop {
            let change = tokio::select! {
                () = subscription.cancelled() => return Ok(()),
                change = changes.recv() => change,
            };
            let accepted = subscription.accepted();
            let sink = subscription.sink();
            let told = match change {
                Ok(Change::Tools) if accepted.tools_list_changed == Some(true) => {
                    sink.notify_tool_list_changed().await
                }
                Ok(Change::Prompts) if accepted.prompts_list_changed == Some(true) => {
                    sink.notify_prompt_list_changed().await
                }
                Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => continue,
                Err(broadcast::error::RecvError::Closed) => return Ok(()),
            };
            if told.is_err() {
                return Ok(());
            }
        }
    }
}
