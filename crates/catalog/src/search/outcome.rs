//! What a search returns, and how a model or person reads it.

use std::fmt::Write as _;
use std::sync::Arc;

use pentad_model::text::{excerpt, visible};
use pentad_model::tool::{MAX_SUMMARY_BYTES, ToolDocument, ToolRef};
use pentad_program::{Readiness, SourceStatus};
use serde_json::{Value, json};

use crate::listing::readiness_words;

/// One found tool. It confers nothing: the gate judges the call.
#[derive(Debug, Clone)]
pub struct Hit {
    /// The document.
    pub document: Arc<ToolDocument>,
    /// Its source's name.
    pub source: String,
    /// How well it fits; comparable within one search only.
    pub score: f32,
    /// Where its source stands.
    pub readiness: Readiness,
    /// Trusted to change nothing.
    pub read_only: bool,
    /// Whether a call would wait for a person, once the gate was asked.
    pub would_ask: Option<bool>,
}

/// What was found, and what was looked at.
#[derive(Debug, Clone, Default)]
pub struct SearchOutcome {
    /// The query, as it was used.
    pub query: String,
    /// Best first.
    pub hits: Vec<Hit>,
    /// How many tools were looked at: those that the caller may call.
    pub searched: usize,
    /// In which sources.
    pub sources: Vec<String>,
    /// Sources whose tools are not known yet.
    pub pending: Vec<SourceStatus>,
    /// Similar names, when nothing was found.
    pub near: Vec<ToolRef>,
}

impl SearchOutcome {
    /// Returns the text that a model or person reads.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let mut text = String::new();
        for hit in &self.hits {
            text.push_str(&line(hit));
        }
        let tools = if self.searched == 1 { "tool" } else { "tools" };
        let shown = excerpt(&visible(&self.query), 200);
        let sources = if self.sources.is_empty() {
            "no source".to_owned()
        } else {
            self.sources.join(", ")
        };
        let _ = if self.hits.is_empty() {
            writeln!(
                text,
                "Nothing fits '{shown}' among {} {tools} of {sources}.",
                self.searched
            )
        } else {
            writeln!(
                text,
                "\n{} of {} {tools} searched in {sources}. Read ~/tools/<source>/<name> for a contract.",
                self.hits.len(),
                self.searched
            )
        };
        for status in &self.pending {
            let _ = writeln!(
                text,
                "Not searched: {}, {}.",
                status.source,
                readiness_words(&status.readiness)
            );
        }
        if !self.near.is_empty() {
            let names: Vec<String> = self.near.iter().map(|tool| visible(&tool.to_string())).collect();
            let _ = writeln!(text, "Similar names: {}.", names.join(", "));
        }
        if self.hits.is_empty() {
            text.push_str("Next: try other words, or read ~/tools/ for the list.\n");
        }
        text
    }

    /// Returns the structured result.
    #[must_use]
    pub fn to_value(&self) -> Value {
        json!({
            "query": self.query,
            "searched": self.searched,
            "sources": self.sources,
            "pending": self.pending,
            "near": self.near.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "hits": self.hits.iter().map(|hit| json!({
                "tool": hit.document.tool.to_string(),
                "address": hit.document.tool.address(),
                "kind": hit.document.kind,
                "summary": hit.document.summary,
                "readiness": hit.readiness,
                "readOnly": hit.read_only,
                "wouldAsk": hit.would_ask,
                "score": hit.score,
            })).collect::<Vec<_>>(),
        })
    }
}

fn line(hit: &Hit) -> String {
    let mut notes = Vec::new();
    if hit.read_only {
        notes.push("read-only".to_owned());
    }
    if hit.would_ask == Some(true) {
        notes.push("asks a person first".to_owned());
    }
    if hit.readiness != Readiness::Ready {
        notes.push(readiness_words(&hit.readiness));
    }
    let notes = if notes.is_empty() {
        String::new()
    } else {
        format!(" ({})", notes.join("; "))
    };
    let name = visible(&hit.document.tool.to_string());
    format!("- {name}: {}{notes}\n", one_line(&hit.document.summary))
}

/// Returns a summary from a source as one visible line.
pub(crate) fn one_line(summary: &str) -> String {
    let line = summary.split_whitespace().collect::<Vec<_>>().join(" ");
    excerpt(&visible(&line), MAX_SUMMARY_BYTES)
}
