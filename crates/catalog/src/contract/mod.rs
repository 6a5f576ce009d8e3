//! Contracts: what a model reads before it calls a tool.
//!
//! Names, descriptions and schemas come from whoever offers the tool. They are shown as that source's data: quoted,
//! bounded, with characters that do not show made visible. They never change what may be done.

mod example;
mod schema;

use std::fmt::Write as _;

use pentad_model::text::{excerpt, prefix, visible};
use pentad_model::tool::{Hints, ToolDocument, ToolKind};
use pentad_program::{Readiness, SourceStatus};
use serde_json::Value;

use crate::catalog::Catalog;
use crate::listing::readiness_words;

/// Most bytes of one contract.
pub const MAX_CONTRACT_BYTES: usize = 24 * 1024;
/// Most bytes of a description.
const MAX_DESCRIPTION_BYTES: usize = 4 * 1024;
/// What is kept for notes between the parts.
const RESERVE_BYTES: usize = 1024;

impl Catalog {
    /// Returns a tool's contract as Markdown; `status` adds where its source stands.
    #[must_use]
    pub fn contract(&self, document: &ToolDocument, status: Option<&SourceStatus>) -> String {
        contract(document, status)
    }
}

/// Returns a tool's contract as Markdown of at most [`MAX_CONTRACT_BYTES`].
///
/// The input schema is never cut: where it is too long, nested descriptions go first, then examples and defaults; a
/// schema that is too long even so is replaced by an outline that says so.
#[must_use]
pub fn contract(document: &ToolDocument, status: Option<&SourceStatus>) -> String {
    let mut text = head(document, status);
    let example = example::call_line(document);
    let mut left = MAX_CONTRACT_BYTES.saturating_sub(text.len() + example.len() + RESERVE_BYTES);
    let whole = format!(
        "read {{\"address\":{},\"format\":\"json\"}}",
        Value::String(document.tool.address())
    );
    section(&mut text, &mut left, "Input", &document.input, &whole);
    if let Some(output) = &document.output {
        section(&mut text, &mut left, "Output", output, &whole);
    }
    if let Some(body) = document.body.as_ref().filter(|_| shows_body(document.kind)) {
        body_section(&mut text, left, body, &whole);
    }
    text.push_str(&example);
    text
}

const fn shows_body(kind: ToolKind) -> bool {
    match kind {
        ToolKind::Recipe | ToolKind::Lambda => true,
        ToolKind::Builtin | ToolKind::Mcp => false,
    }
}

fn head(document: &ToolDocument, status: Option<&SourceStatus>) -> String {
    let source = &document.tool.source;
    let mut text = format!("# {}\n\n", single_line(&document.tool.to_string(), 512));
    let kind = match document.kind {
        ToolKind::Builtin => "builtin",
        ToolKind::Recipe => "recipe",
        ToolKind::Lambda => "lambda",
        ToolKind::Mcp => "MCP tool",
    };
    let version = document.cid().unwrap_or_else(|_| "none".to_owned());
    let state = status
        .filter(|status| status.readiness != Readiness::Ready)
        .map_or_else(String::new, |status| {
            format!(" · {}", readiness_words(&status.readiness))
        });
    let _ = writeln!(text, "{kind} · source {source} · version {version}{state}");
    text.push_str(&hints(document));
    text.push('\n');
    if let Some(title) = &document.title {
        let _ = writeln!(text, "Title: {}\n", single_line(title, 200));
    }
    describe(&mut text, document);
    text
}

fn single_line(foreign: &str, bytes: usize) -> String {
    let line = foreign.split_whitespace().collect::<Vec<_>>().join(" ");
    excerpt(&visible(&line), bytes)
}

fn hints(document: &ToolDocument) -> String {
    let words = |hints: &Hints| {
        [
            (hints.read_only, "read-only", "not read-only"),
            (hints.destructive, "destructive", "not destructive"),
            (hints.idempotent, "idempotent", "not idempotent"),
            (
                hints.open_world,
                "reaches the outside world",
                "stays in its own world",
            ),
        ]
        .into_iter()
        .filter_map(|(hint, yes, no)| hint.map(|hint| if hint { yes } else { no }))
        .collect::<Vec<_>>()
        .join(", ")
    };
    let mut text = String::new();
    let trusted = words(&document.trusted);
    if !trusted.is_empty() {
        let _ = writeln!(text, "Trusted: {trusted}.");
    }
    let declared = words(&document.declared);
    if !declared.is_empty() && document.declared != document.trusted {
        let _ = writeln!(
            text,
            "{} says: {declared}. That is its own word and is not relied on.",
            document.tool.source
        );
    }
    text
}

fn describe(text: &mut String, document: &ToolDocument) {
    let description = visible(document.description.trim());
    let cut = excerpt(&description, MAX_DESCRIPTION_BYTES);
    if document.kind == ToolKind::Builtin {
        let _ = writeln!(text, "{cut}\n");
        return;
    }
    if cut.is_empty() {
        let _ = writeln!(text, "{} gives no description.\n", document.tool.source);
        return;
    }
    let _ = writeln!(text, "Description, as {} gives it:\n", document.tool.source);
    for line in cut.split(['\n', '\u{2028}', '\u{2029}']) {
        let _ = writeln!(text, "{}", format!("> {line}").trim_end());
    }
    if description.len() > MAX_DESCRIPTION_BYTES {
        let _ = writeln!(
            text,
            "\n(cut after {MAX_DESCRIPTION_BYTES} of {} bytes)",
            description.len()
        );
    }
    text.push('\n');
}

fn section(text: &mut String, left: &mut usize, title: &str, schema: &Value, whole: &str) {
    let printed = schema::print_within(schema, *left);
    let _ = write!(text, "## {title}\n\n```json\n{}\n```\n\n", printed.text);
    if let Some(note) = printed.note {
        let _ = writeln!(text, "{note} Whole: {whole}\n");
    }
    *left = left.saturating_sub(printed.text.len());
}

fn body_section(text: &mut String, left: usize, body: &Value, whole: &str) {
    let (title, source) = match body {
        Value::String(source) => ("Source", visible(source)),
        other => ("Template", schema::json(other, schema::Layout::Pretty)),
    };
    let fence = fence_for(&source);
    let shown = if source.len() <= left {
        source.as_str()
    } else {
        let cut = prefix(&source, left);
        cut.rsplit_once('\n').map_or(cut, |(lines, _)| lines)
    };
    let _ = writeln!(text, "## {title}\n\n{fence}\n{}\n{fence}\n", shown.trim_end());
    if shown.len() < source.len() {
        let _ = writeln!(
            text,
            "(cut after {} of {} bytes) Whole: {whole}\n",
            shown.len(),
            source.len()
        );
    }
}

/// Returns a fence that nothing in `source` closes.
fn fence_for(source: &str) -> String {
    let mut longest = 2;
    let mut run = 0;
    for c in source.chars() {
        run = if c == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    "`".repeat(longest + 1)
}

#[cfg(test)]
mod tests;
