//! A configured server that cannot be used: it stays visible, with the reason.

use std::sync::Arc;

use async_trait::async_trait;
use pentad_model::{Refusal, RefusalKind, ToolDocument};
use pentad_program::{Readiness, SourceStatus, ToolCall, ToolFailure, ToolOutput, ToolSource};

/// A source without tools that says why.
pub struct Unusable {
    name: String,
    why: String,
}

impl Unusable {
    /// Returns the source `name`, unusable because of `why`.
    pub fn new(name: &str, why: String) -> Self {
        Self {
            name: name.to_owned(),
            why,
        }
    }
}

#[async_trait]
impl ToolSource for Unusable {
    fn name(&self) -> &str {
        &self.name
    }

    fn documents(&self) -> Arc<[Arc<ToolDocument>]> {
        Arc::new([])
    }

    fn generation(&self) -> u64 {
        0
    }

    fn status(&self) -> SourceStatus {
        SourceStatus {
            source: self.name.clone(),
            readiness: Readiness::Disabled {
                error: self.why.clone(),
            },
            tools: 0,
            diagnostics: Vec::new(),
        }
    }

    fn closure_hash(&self, _document: &ToolDocument) -> String {
        String::new()
    }

    async fn call(&self, _call: ToolCall) -> Result<ToolOutput, ToolFailure> {
        let message = format!("The server '{}' cannot be used: {}.", self.name, self.why);
        Err(
            Refusal::new(RefusalKind::Unavailable, self.name.as_str(), message)
                .next_step("pentad doctor lists what is wrong")
                .into(),
        )
    }
}
