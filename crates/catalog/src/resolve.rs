//! From a name that a model or person wrote to one tool, or to an honest answer why not.

use std::sync::Arc;

use pentad_model::address::decode_tool_name;
use pentad_model::text::{excerpt, visible};
use pentad_model::tool::{ToolDocument, ToolRef};
use pentad_model::{Refusal, RefusalKind, Verb};
use pentad_program::{Readiness, SourceStatus, ToolSource};

use crate::catalog::Catalog;
use crate::listing::readiness_words;
use crate::nearest::nearest;
use crate::snapshot::Snapshot;
use crate::visibility::Visibility;

/// One tool and who offers it.
#[derive(Clone)]
pub struct Entry {
    /// The document as it is now.
    pub document: Arc<ToolDocument>,
    /// Its source.
    pub source: Arc<dyn ToolSource>,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Entry").field(&self.document.tool).finish()
    }
}

/// What a name means to one caller.
#[derive(Debug, Clone)]
pub enum Resolution {
    /// One tool.
    Found(Entry),
    /// One of the five verbs, which have pages of their own. `also` are tools of that bare name.
    Verb {
        /// The verb.
        verb: Verb,
        /// Tools that have the verb's name in their source.
        also: Vec<ToolRef>,
    },
    /// A bare name that several sources have; the caller must choose.
    Ambiguous(Vec<ToolRef>),
    /// Nothing, or nothing that the caller may see.
    Unknown {
        /// The nearest tools that the caller may call.
        nearest: Vec<ToolRef>,
    },
    /// The source is configured, but its tools are not known yet.
    SourceUnknownTools {
        /// The source.
        source: String,
        /// Where it stands.
        status: SourceStatus,
    },
}

impl Resolution {
    /// Returns the refusal of a call or read of `name`, unless one tool or verb was found.
    #[must_use]
    pub fn refusal(&self, name: &str) -> Option<Refusal> {
        let shown = || excerpt(&visible(name), 200);
        match self {
            Self::Found(_) | Self::Verb { .. } => None,
            Self::Unknown { nearest } => Some(unknown_tool(name, nearest)),
            Self::Ambiguous(candidates) => {
                let message = format!("Several sources have a tool '{}'; give the full name.", shown());
                let names = candidates.iter().map(|tool| visible(&tool.to_string()));
                Some(Refusal::new(RefusalKind::BadRequest, shown(), message).supported(names))
            }
            Self::SourceUnknownTools { source, status } => {
                let state = readiness_words(&status.readiness);
                let message = format!("The tools of {source} are not known: {state}.");
                Some(
                    Refusal::new(RefusalKind::Unavailable, shown(), message)
                        .next_step(format!("pentad doctor shows what {source} needs; then repeat")),
                )
            }
        }
    }
}

/// Sources whose files cannot take a builtin's bare name: such a file is reached by its full name only.
const FILE_SOURCES: [&str; 3] = ["recipes", "project", "library"];

impl Catalog {
    /// Finds the tool that `name` means: `name`, `source/name` or the address `~/tools/…` of either.
    ///
    /// The first `/` separates a source only when what precedes it is a source that the caller sees; names may
    /// themselves contain `/`. A bare name that several sources have is never decided here.
    #[must_use]
    pub fn resolve(&self, name: &str, visibility: &Visibility) -> Resolution {
        let sources = self.visible_sources(visibility);
        let found = find(name, &sources, visibility);
        if let Some(resolution) = found {
            return resolution;
        }
        let address = name
            .strip_prefix("~/tools/")
            .and_then(decode_tool_name)
            .and_then(|decoded| find(&decoded, &sources, visibility));
        address.unwrap_or_else(|| {
            let known = sources
                .iter()
                .flat_map(|s| s.visible(visibility))
                .map(|d| &d.tool);
            Resolution::Unknown {
                nearest: nearest(name.strip_prefix("~/tools/").unwrap_or(name), known),
            }
        })
    }

    /// Returns the tools nearest to a name that the caller may call, best first.
    #[must_use]
    pub fn nearest(&self, name: &str, visibility: &Visibility) -> Vec<ToolRef> {
        let sources = self.visible_sources(visibility);
        nearest(
            name,
            sources
                .iter()
                .flat_map(|s| s.visible(visibility))
                .map(|d| &d.tool),
        )
    }
}

fn find(name: &str, sources: &[Arc<Snapshot>], visibility: &Visibility) -> Option<Resolution> {
    if let Some((prefix, rest)) = name.split_once('/') {
        if prefix == "builtin"
            && let Some(verb) = verb_named(rest)
        {
            return Some(Resolution::Verb {
                verb,
                also: Vec::new(),
            });
        }
        if let Some(source) = sources.iter().find(|s| s.source.name() == prefix) {
            return in_source(source, rest, visibility);
        }
    }
    let bare = bare(name, sources, visibility);
    if let Some(verb) = verb_named(name) {
        let also = bare
            .into_iter()
            .map(|entry| entry.document.tool.clone())
            .collect();
        return Some(Resolution::Verb { verb, also });
    }
    match bare.as_slice() {
        [] => None,
        [one] => Some(Resolution::Found(one.clone())),
        many => Some(Resolution::Ambiguous(
            many.iter().map(|entry| entry.document.tool.clone()).collect(),
        )),
    }
}

fn verb_named(name: &str) -> Option<Verb> {
    Verb::ALL.into_iter().find(|verb| verb.name() == name)
}

fn in_source(source: &Snapshot, name: &str, visibility: &Visibility) -> Option<Resolution> {
    if let Some(document) = source.find(name, visibility) {
        return Some(Resolution::Found(Entry {
            document: Arc::clone(document),
            source: Arc::clone(&source.source),
        }));
    }
    let status = source.source.status();
    (source.documents.is_empty() && !name.is_empty() && is_pending(&status.readiness)).then(|| {
        Resolution::SourceUnknownTools {
            source: source.source.name().to_owned(),
            status,
        }
    })
}

/// Tells whether a source without documents may have some once it starts.
pub(crate) const fn is_pending(readiness: &Readiness) -> bool {
    match readiness {
        Readiness::Ready | Readiness::Indexed => false,
        Readiness::Configured
        | Readiness::Starting { .. }
        | Readiness::BackingOff { .. }
        | Readiness::Disabled { .. } => true,
    }
}

fn bare(name: &str, sources: &[Arc<Snapshot>], visibility: &Visibility) -> Vec<Entry> {
    let mut found: Vec<Entry> = sources
        .iter()
        .filter_map(|source| {
            source.find(name, visibility).map(|document| Entry {
                document: Arc::clone(document),
                source: Arc::clone(&source.source),
            })
        })
        .collect();
    if found.iter().any(|entry| entry.source.name() == "builtin") {
        found.retain(|entry| !FILE_SOURCES.contains(&entry.source.name()));
    }
    found
}

/// Returns the refusal for a tool that does not exist, or that the caller may not know of: one text for both.
#[must_use]
pub fn unknown_tool(name: &str, nearest: &[ToolRef]) -> Refusal {
    let shown = excerpt(&visible(name), 200);
    let refusal = Refusal::new(
        RefusalKind::NotFound,
        shown.clone(),
        format!("There is no tool '{shown}' that you can call."),
    );
    let refusal = if nearest.is_empty() {
        refusal
    } else {
        let names: Vec<String> = nearest.iter().map(|tool| visible(&tool.to_string())).collect();
        refusal.next_step(format!("nearest: {}", names.join(", ")))
    };
    refusal.next_step("search with read {\"address\":\"~/tools/\",\"options\":{\"query\":\"what you need\"}}")
}

#[cfg(test)]
mod tests;
