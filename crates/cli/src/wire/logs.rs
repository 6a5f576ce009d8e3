//! What servers say during a call, as events of the run that called.

use std::sync::Arc;

use async_trait::async_trait;
use pentad_engine::Redactor;
use pentad_mcp::{LogLine, LogStream, Origin, ServerLog};
use pentad_model::event::{EventBody, NewEvent};
use pentad_model::{RunId, Timestamp};
use pentad_program::{Durability, Store};

/// Keeps lines of servers in the journal.
pub struct JournalLog {
    pub store: Arc<dyn Store>,
    pub redactor: Redactor,
}

#[async_trait]
impl ServerLog for JournalLog {
    async fn keep(&self, server: &str, origin: &Origin, lines: Vec<LogLine>) {
        let event = |line: LogLine| NewEvent {
            thread: origin.thread,
            at: Timestamp::now(),
            caller: origin.caller.clone(),
            call: None,
            run: Some(origin.run),
            body: EventBody::Log {
                level: line.level.to_owned(),
                source: match line.stream {
                    LogStream::Log => format!("mcp:{server}"),
                    LogStream::Stderr => format!("mcp:{server}/stderr"),
                    LogStream::Form => format!("mcp:{server}/form"),
                },
                text: self.redactor.text(line.text),
            },
        };
        let run: RunId = origin.run;
        let events = lines.into_iter().map(event).collect();
        if let Err(error) = self.store.append(events, Durability::Crash).await {
            tracing::warn!(%run, server, %error, "what a server logged was not kept");
        }
    }
}
