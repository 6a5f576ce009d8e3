//! Sources for tests.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use pentad_model::Refusal;
use pentad_model::tool::{Hints, ToolDocument, ToolKind, ToolRef};
use pentad_program::{Environment, Readiness, SourceStatus, ToolCall, ToolFailure, ToolOutput, ToolSource};
use serde_json::{Value, json};

/// A source whose documents are set by the test.
pub(crate) struct FakeSource {
    name: String,
    documents: Mutex<Arc<[Arc<ToolDocument>]>>,
    readiness: Mutex<Readiness>,
    generation: AtomicU64,
    copies: AtomicUsize,
}

impl FakeSource {
    pub(crate) fn new(name: &str, documents: Vec<ToolDocument>) -> Arc<Self> {
        Arc::new(Self {
            name: name.to_owned(),
            documents: Mutex::new(documents.into_iter().map(Arc::new).collect()),
            readiness: Mutex::new(Readiness::Ready),
            generation: AtomicU64::new(1),
            copies: AtomicUsize::new(0),
        })
    }

    pub(crate) fn named(name: &str, tools: &[(&str, &str)]) -> Arc<Self> {
        Self::new(
            name,
            tools
                .iter()
                .map(|(tool, text)| document(name, tool, text))
                .collect(),
        )
    }

    pub(crate) fn set(&self, documents: Vec<Arc<ToolDocument>>) {
        *self.documents.lock().unwrap() = documents.into();
        self.generation.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn runs(&self, copies: usize) {
        self.copies.store(copies, Ordering::SeqCst);
    }

    pub(crate) fn stands(&self, readiness: Readiness) {
        *self.readiness.lock().unwrap() = readiness;
    }
}

#[async_trait]
impl ToolSource for FakeSource {
    fn name(&self) -> &str {
        &self.name
    }

    fn documents(&self) -> Arc<[Arc<ToolDocument>]> {
        Arc::clone(&self.documents.lock().unwrap())
    }

    fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    fn status(&self) -> SourceStatus {
        SourceStatus {
            source: self.name.clone(),
            readiness: self.readiness.lock().unwrap().clone(),
            tools: self.documents.lock().unwrap().len(),
            copies: self.copies.load(Ordering::SeqCst),
            diagnostics: Vec::new(),
        }
    }

    fn closure_hash(&self, document: &ToolDocument, _environment: Option<&Environment>) -> String {
        document.cid().unwrap()
    }

    async fn call(&self, _call: ToolCall) -> Result<ToolOutput, ToolFailure> {
        Err(ToolFailure::Failed("not for calling".to_owned()))
    }

    async fn refresh(&self, _environment: Option<&Environment>) -> Result<(), Refusal> {
        self.stands(Readiness::Ready);
        let found = Arc::new(document(&self.name, "found", "Was found by starting."));
        self.set(vec![found]);
        Ok(())
    }
}

/// Returns a document with one required argument.
pub(crate) fn document(source: &str, name: &str, description: &str) -> ToolDocument {
    with_input(
        source,
        name,
        description,
        json!({"type": "object", "properties": {"value": {"type": "string"}}, "required": ["value"]}),
    )
}

pub(crate) fn with_input(source: &str, name: &str, description: &str, input: Value) -> ToolDocument {
    ToolDocument {
        tool: ToolRef::new(source, name),
        kind: match source {
            "builtin" => ToolKind::Builtin,
            "recipes" | "project" | "library" => ToolKind::Recipe,
            _ => ToolKind::Mcp,
        },
        title: None,
        summary: pentad_model::text::first_sentence(description, 140),
        description: description.to_owned(),
        input,
        output: None,
        body: None,
        declared: Hints::default(),
        trusted: Hints::default(),
    }
}
