//! Contracts: what a model reads before it calls a tool.

use pentad_model::Verb;
use pentad_model::tool::ToolDocument;
use pentad_program::SourceStatus;

/// Most bytes of one contract.
pub const MAX_CONTRACT_BYTES: usize = 24 * 1024;

/// Returns a tool's contract as Markdown.
#[must_use]
pub fn contract(document: &ToolDocument, status: Option<&SourceStatus>) -> String {
    let _ = status;
    document.description.clone()
}

impl crate::Catalog {
    /// Returns a tool's contract as Markdown; `status` adds where its source stands.
    #[must_use]
    pub fn contract(&self, document: &ToolDocument, status: Option<&SourceStatus>) -> String {
        contract(document, status)
    }
}

/// Returns a verb's contract as Markdown, deeper than the payload's description.
#[must_use]
pub fn verb_contract(verb: Verb) -> String {
    pentad_model::contract::description(verb).to_owned()
}
