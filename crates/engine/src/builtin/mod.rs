//! Tools that are part of Pentad.

mod search;
mod tool_search;

use std::path::PathBuf;
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use pentad_catalog::Catalog;
use pentad_model::tool::{Hints, ToolKind};
use pentad_model::{ToolDocument, ToolRef};
use pentad_program::{
    Environment, Readiness, SourceStatus, Store, ToolCall, ToolFailure, ToolOutput, ToolSource,
};
use serde_json::Value;

/// What the builtins work on.
pub struct BuiltinParts {
    /// The journal.
    pub store: Arc<dyn Store>,
    /// Where each agent's memory lies.
    pub memory_dir: PathBuf,
}

/// The source `builtin`.
pub struct BuiltinSource {
    parts: BuiltinParts,
    /// The catalog that this source is itself a part of.
    catalog: std::sync::OnceLock<Weak<Catalog>>,
    documents: Arc<[Arc<ToolDocument>]>,
}

impl BuiltinSource {
    /// Returns the source; [`Self::attach`] gives it the catalog that it searches.
    #[must_use]
    pub fn new(parts: BuiltinParts) -> Arc<Self> {
        let documents = [search::document(), tool_search::document()].map(Arc::new);
        Arc::new(Self {
            parts,
            catalog: std::sync::OnceLock::new(),
            documents: Arc::new(documents),
        })
    }

    /// Gives the source the catalog that it is a part of.
    pub fn attach(&self, catalog: &Arc<Catalog>) {
        let _ = self.catalog.set(Arc::downgrade(catalog));
    }
}

/// Returns the document of a builtin that changes nothing.
fn read_only_document(name: &str, summary: &str, description: &str, input: Value) -> ToolDocument {
    let hints = Hints {
        read_only: Some(true),
        destructive: Some(false),
        idempotent: Some(true),
        open_world: Some(false),
    };
    ToolDocument {
        tool: ToolRef::new("builtin", name),
        kind: ToolKind::Builtin,
        title: None,
        summary: summary.to_owned(),
        description: description.to_owned(),
        input,
        output: None,
        body: None,
        declared: hints,
        trusted: hints,
    }
}

#[async_trait]
impl ToolSource for BuiltinSource {
    fn name(&self) -> &str {
        "builtin"
    }

    fn documents(&self) -> Arc<[Arc<ToolDocument>]> {
        Arc::clone(&self.documents)
    }

    fn generation(&self) -> u64 {
        0
    }

    fn status(&self) -> SourceStatus {
        SourceStatus {
            source: "builtin".to_owned(),
            readiness: Readiness::Ready,
            tools: self.documents.len(),
            copies: 0,
            diagnostics: Vec::new(),
        }
    }

    fn closure_hash(&self, document: &ToolDocument, _environment: Option<&Environment>) -> String {
        document.cid().unwrap_or_default()
    }

    async fn call(&self, call: ToolCall) -> Result<ToolOutput, ToolFailure> {
        match call.document.tool.name.as_str() {
            "search" => search::run(&self.parts, &call).await,
            "tool_search" => tool_search::run(self.catalog.get().and_then(Weak::upgrade), &call),
            other => Err(ToolFailure::Failed(format!("there is no builtin '{other}'"))),
        }
    }
}
