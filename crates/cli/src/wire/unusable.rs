//! A configured server that cannot be used: it stays visible, with the reason.

use std::sync::Arc;

use async_trait::async_trait;
use pentad_model::{Refusal, RefusalKind, ToolDocument};
use pentad_program::{Environment, Readiness, SourceStatus, ToolCall, ToolFailure, ToolOutput, ToolSource};

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

    /// Says why it cannot be used.
    pub fn refusal(&self) -> Refusal {
        let name = self.name.as_str();
        let message = format!("The server '{name}' cannot be used: {}.", self.why);
        Refusal::new(RefusalKind::Unavailable, name, message).next_step(format!(
            "pentad doctor lists what is wrong; a person mends it, then runs pentad connect {name} --again"
        ))
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
            copies: 0,
            diagnostics: Vec::new(),
        }
    }

    fn closure_hash(&self, _document: &ToolDocument, _environment: Option<&Environment>) -> String {
        String::new()
    }

    async fn call(&self, _call: ToolCall) -> Result<ToolOutput, ToolFailure> {
        Err(self.refusal().into())
    }
}
