//! Making, changing and deleting tool files.

use async_trait::async_trait;
use pentad_model::Refusal;
use pentad_model::tool::{ToolDocument, ToolKind};

/// What an authoring act did.
#[derive(Debug, Clone, PartialEq)]
pub struct Authored {
    /// The tool's name within its source.
    pub name: String,
    /// The document as it is now; `None` after a deletion.
    pub document: Option<ToolDocument>,
    /// One sentence for a person or model, for example that the description was derived.
    pub message: String,
    /// True when an existing tool was replaced or removed.
    pub replaced: bool,
    /// What kind of file it is, if one was written.
    pub kind: Option<ToolKind>,
}

/// Writes tool files into a home's recipe root. `register`, `write ~/tools/…` and an editor make the same file.
#[async_trait]
pub trait ToolAuthor: Send + Sync {
    /// Validates `content` (Markdown or JSON) as the tool `name` and, unless `dry_run`, writes it durably.
    ///
    /// # Errors
    /// Refuses invalid names and documents, reserved names, and files that changed meanwhile.
    async fn write(&self, name: &str, content: &str, dry_run: bool) -> Result<Authored, Refusal>;

    /// Deletes the tool's file, whatever its form.
    ///
    /// # Errors
    /// Refuses (404) when there is none.
    async fn delete(&self, name: &str, dry_run: bool) -> Result<Authored, Refusal>;
}
