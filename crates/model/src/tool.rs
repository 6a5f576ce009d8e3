//! Tool documents: what one tool is, whoever offers it.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::canonical::{CanonicalError, dag_cbor_cid};

/// Names of sources that no server may take.
pub const RESERVED_SOURCES: [&str; 5] = ["builtin", "recipes", "project", "library", "catalog"];
/// Longest summary in bytes.
pub const MAX_SUMMARY_BYTES: usize = 140;

/// Tells whether `text` may name a source: `[a-z0-9][a-z0-9_-]{0,31}`.
#[must_use]
pub fn is_source_name(text: &str) -> bool {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
    (1..=32).contains(&text.len()) && text.chars().all(legal) && !text.starts_with(['_', '-'])
}

/// A tool's full name: its source and its name there, as the source wrote it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ToolRef {
    /// The source: `builtin`, `recipes`, `project`, `library` or a server's name.
    pub source: String,
    /// The name within the source; may contain `/` and any Unicode.
    pub name: String,
}

impl ToolRef {
    /// Returns the reference of `name` in `source`.
    #[must_use]
    pub fn new(source: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            source: source.into(),
            name: name.into(),
        }
    }

    /// Returns `~/tools/<source>/<name>`.
    #[must_use]
    pub fn address(&self) -> String {
        format!("~/tools/{}", crate::address::encode_tool_name(&self.to_string()))
    }
}

impl fmt::Display for ToolRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.source, self.name)
    }
}

/// What kind of thing runs when the tool is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolKind {
    /// Part of Pentad.
    Builtin,
    /// A recipe: a typed command template.
    Recipe,
    /// Authored source code.
    Lambda,
    /// A tool of a connected MCP server.
    Mcp,
}

/// Side-effect hints. A server's own hints are shown, never used, unless a person trusted them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Hints {
    /// Changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// May destroy; remembered for one run at most when approved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destructive: Option<bool>,
    /// Repeating it with the same input changes nothing more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// Reaches the world outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_world: Option<bool>,
}

/// What one tool is. Its identity is the CID of the canonical DAG-CBOR of its authored fields.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolDocument {
    /// Full name.
    #[serde(flatten)]
    pub tool: ToolRef,
    /// What kind of thing runs.
    pub kind: ToolKind,
    /// A title for people, when the source gives one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// One line of at most 140 bytes.
    pub summary: String,
    /// The whole description.
    pub description: String,
    /// JSON Schema of the input, as the source wrote it; foreign schemas are data here.
    pub input: Value,
    /// JSON Schema of the result, if declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// The template, source code or binding; what runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// Hints as the source declared them.
    #[serde(default)]
    pub declared: Hints,
    /// Hints that may be relied on: builtin, or given by a person.
    #[serde(default)]
    pub trusted: Hints,
}

impl ToolDocument {
    /// Returns the CID that identifies this version of the tool. Trust is no part of it.
    ///
    /// # Errors
    /// Fails when a schema or body has no canonical form.
    pub fn cid(&self) -> Result<String, CanonicalError> {
        dag_cbor_cid(&json!({
            "source": self.tool.source,
            "name": self.tool.name,
            "kind": self.kind,
            "title": self.title,
            "summary": self.summary,
            "description": self.description,
            "input": self.input,
            "output": self.output,
            "body": self.body,
            "declared": self.declared,
        }))
    }

    /// Tells whether the tool may run at once, without contract round trip or approval.
    #[must_use]
    pub fn is_trusted_read_only(&self) -> bool {
        self.trusted.read_only == Some(true) && self.trusted.destructive != Some(true)
    }

    /// Tells whether an approval for it may outlive one run.
    #[must_use]
    pub fn is_destructive(&self) -> bool {
        self.declared.destructive == Some(true) || self.trusted.destructive == Some(true)
    }
}
