//! The list of tools: what `~/tools/` shows.

use std::fmt::Write as _;

use pentad_model::text::{excerpt, visible};
use pentad_model::tool::{ToolKind, ToolRef};
use pentad_program::{Diagnostic, Readiness, Severity, SourceStatus};
use serde::Serialize;

use crate::catalog::{Catalog, Exposure};
use crate::resolve::is_pending;
use crate::search::{Snapshot, one_line};
use crate::visibility::Visibility;

/// Most tools of one source that a list names; a larger source shows counts and how to search.
pub const MAX_LISTED: usize = 200;
/// Most tools that the list of one source names.
pub const MAX_LISTED_ALONE: usize = 5_000;
/// Most diagnostics that a list shows of one source.
const MAX_DIAGNOSTICS: usize = 5;

/// One tool in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ToolLine {
    /// Its full name.
    pub tool: ToolRef,
    /// What runs.
    pub kind: ToolKind,
    /// One line.
    pub summary: String,
    /// Trusted to change nothing.
    pub read_only: bool,
}

/// One source in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SourceListing {
    /// Where it stands.
    pub status: SourceStatus,
    /// True for catalogues, which are searched and never listed.
    pub search_only: bool,
    /// How many tools the caller may call.
    pub total: usize,
    /// The tools by name; empty when there are too many to list.
    pub tools: Vec<ToolLine>,
    /// Packs and how many tools each has, for sources that have packs.
    pub packs: Vec<(String, usize)>,
}

/// All sources that the caller sees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Listing {
    /// Reserved sources first, then by name.
    pub sources: Vec<SourceListing>,
}

impl Catalog {
    /// Lists what the caller may call, grouped by source.
    #[must_use]
    pub fn list(&self, visibility: &Visibility) -> Listing {
        let sources = self
            .visible_sources(visibility)
            .iter()
            .filter(|snapshot| is_mentioned(snapshot, visibility))
            .map(|snapshot| list_source(snapshot, visibility, MAX_LISTED))
            .collect();
        Listing { sources }
    }

    /// Lists one source, a catalogue included; `None` when the caller sees no such source.
    #[must_use]
    pub fn list_source(&self, source: &str, visibility: &Visibility) -> Option<Listing> {
        let sources = self.visible_sources(visibility);
        let snapshot = sources
            .iter()
            .find(|s| s.source.name() == source && is_mentioned(s, visibility))?;
        let mut listing = list_source(snapshot, visibility, MAX_LISTED_ALONE);
        if snapshot.exposure == Exposure::Searchable {
            listing.tools = lines(snapshot, visibility, MAX_LISTED_ALONE);
        }
        Some(Listing {
            sources: vec![listing],
        })
    }
}

/// Tells whether a source is mentioned: not when it has tools and all of them are hidden from the caller.
fn is_mentioned(snapshot: &Snapshot, visibility: &Visibility) -> bool {
    snapshot.documents.is_empty() || snapshot.visible(visibility).next().is_some()
}

fn lines(snapshot: &Snapshot, visibility: &Visibility, most: usize) -> Vec<ToolLine> {
    let mut lines: Vec<ToolLine> = snapshot
        .visible(visibility)
        .take(most)
        .map(|document| ToolLine {
            tool: document.tool.clone(),
            kind: document.kind,
            summary: one_line(&document.summary),
            read_only: document.is_trusted_read_only(),
        })
        .collect();
    lines.sort_by(|a, b| a.tool.cmp(&b.tool));
    lines
}

fn list_source(snapshot: &Snapshot, visibility: &Visibility, most: usize) -> SourceListing {
    let total = snapshot.visible(visibility).count();
    let mut status = snapshot.source.status();
    status.tools = total;
    let search_only = snapshot.exposure == Exposure::Searchable;
    let by_pack = snapshot.source.name() == "library" && most == MAX_LISTED;
    let packs = if by_pack {
        packs(snapshot, visibility)
    } else {
        Vec::new()
    };
    let tools = if search_only || by_pack || total > most {
        Vec::new()
    } else {
        lines(snapshot, visibility, most)
    };
    if !visibility.is_unrestricted() {
        keep_own_diagnostics(&mut status, snapshot, visibility);
    }
    SourceListing {
        status,
        search_only,
        total,
        tools,
        packs,
    }
}

/// Drops diagnostics that would name what the caller may not see.
fn keep_own_diagnostics(status: &mut SourceStatus, snapshot: &Snapshot, visibility: &Visibility) {
    let source = snapshot.source.name();
    status.diagnostics.retain(|d| {
        d.subject == source
            || snapshot
                .visible(visibility)
                .any(|document| document.tool.name == d.subject || document.tool.to_string() == d.subject)
    });
}

fn packs(snapshot: &Snapshot, visibility: &Visibility) -> Vec<(String, usize)> {
    let mut packs = std::collections::BTreeMap::<String, usize>::new();
    for document in snapshot.visible(visibility) {
        let pack = document.tool.name.split_once('/').map_or("", |(pack, _)| pack);
        *packs.entry(pack.to_owned()).or_default() += 1;
    }
    packs.into_iter().collect()
}

/// Returns where a source stands in a few words.
#[must_use]
pub fn readiness_words(readiness: &Readiness) -> String {
    match readiness {
        Readiness::Ready => "ready".to_owned(),
        Readiness::Indexed => "starts with the first call".to_owned(),
        Readiness::Configured => "configured, never started".to_owned(),
        Readiness::Starting { elapsed_ms } => format!("starting for {} s", elapsed_ms / 1000),
        Readiness::BackingOff { retry_in_ms, error } => format!(
            "failed, tried again in {} s: {}",
            retry_in_ms.div_ceil(1000),
            one_line(error)
        ),
        Readiness::Disabled { error } => {
            format!("failed too often, not tried by itself: {}", one_line(error))
        }
    }
}

impl Listing {
    /// Returns the text that a model or person reads.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let mut text = String::new();
        for source in &self.sources {
            source.render(&mut text);
        }
        if self.sources.is_empty() {
            text.push_str("There are no tools that you can call.\n");
        } else {
            text.push_str(
                "A contract: read ~/tools/<source>/<name>. Search: read {\"address\":\"~/tools/\",\"options\":{\"query\":\"what you need\"}}.\n",
            );
        }
        text
    }
}

impl SourceListing {
    fn render(&self, text: &mut String) {
        let name = &self.status.source;
        let count = match self.total {
            0 if is_pending(&self.status.readiness) => "tools not known yet".to_owned(),
            1 => "1 tool".to_owned(),
            n => format!("{n} tools"),
        };
        let count = match self.status.copies {
            0 | 1 => count,
            copies => format!("{count}; {copies} copies"),
        };
        let _ = match &self.status.readiness {
            Readiness::Ready => writeln!(text, "## {name} ({count})"),
            other => writeln!(text, "## {name} ({count}; {})", readiness_words(other)),
        };
        for line in &self.tools {
            let read_only = if line.read_only { " (read-only)" } else { "" };
            let _ = writeln!(
                text,
                "- {}: {}{read_only}",
                visible(&line.tool.name),
                line.summary
            );
        }
        for (pack, tools) in &self.packs {
            let _ = writeln!(text, "- pack {}: {tools}", visible(pack));
        }
        if self.tools.is_empty() && self.total > 0 {
            let _ = writeln!(
                text,
                "Find one: read {{\"address\":\"~/tools/\",\"options\":{{\"query\":\"what you need\",\"source\":\"{name}\"}}}}"
            );
        }
        if let Readiness::Disabled { .. } = self.status.readiness {
            let _ = writeln!(
                text,
                "! {name}: tried again when a person runs pentad connect {name} --again"
            );
        }
        self.render_diagnostics(text);
        text.push('\n');
    }

    fn render_diagnostics(&self, text: &mut String) {
        let told: Vec<&Diagnostic> = self
            .status
            .diagnostics
            .iter()
            .filter(|d| d.severity > Severity::Info)
            .collect();
        for diagnostic in told.iter().take(MAX_DIAGNOSTICS) {
            let next = diagnostic
                .next
                .as_ref()
                .map_or_else(String::new, |next| format!(" Next: {}", one_line(next)));
            let _ = writeln!(
                text,
                "! {}: {}{next}",
                excerpt(&visible(&diagnostic.subject), 120),
                excerpt(&visible(&diagnostic.message), 240)
            );
        }
        if told.len() > MAX_DIAGNOSTICS {
            let _ = writeln!(
                text,
                "! {} more; pentad doctor shows all",
                told.len() - MAX_DIAGNOSTICS
            );
        }
    }
}

#[cfg(test)]
mod tests;
