//! Search over the tools that a caller may call.
//!
//! [`Ranker`] is the seam: the catalog hands it snapshots and the caller's [`Visibility`], and it returns places in
//! them. [`Lexical`] is the ranker without a model.

mod bm25;
mod lexical;
mod names;
mod outcome;
mod tokens;

use std::sync::Arc;

use pentad_program::SourceStatus;

pub use self::lexical::Lexical;
pub(crate) use self::outcome::one_line;
pub use self::outcome::{Hit, SearchOutcome};
pub(crate) use self::tokens::words;
use crate::catalog::Catalog;
use crate::resolve::is_pending;
pub use crate::snapshot::Snapshot;
use crate::visibility::Visibility;

/// Longest part of a query that is looked at, in bytes.
pub const MAX_QUERY_BYTES: usize = 2_000;

/// How to search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchOptions {
    /// Most hits.
    pub limit: usize,
    /// Only tools of this source.
    pub source: Option<String>,
}

impl Default for SearchOptions {
    fn default() -> Self {
        Self {
            limit: 10,
            source: None,
        }
    }
}

/// A place in the corpus and how well it fits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ranked {
    /// Index of the snapshot.
    pub source: usize,
    /// Index of the document in it.
    pub document: usize,
    /// Higher is better; comparable within one query only.
    pub score: f32,
}

/// Orders documents by how well they fit a query.
pub trait Ranker: Send + Sync {
    /// Returns at most `limit` places, best first, equal ones in byte order of their names. What `visibility` hides
    /// must neither be returned nor have any influence on the scores of others.
    fn rank(
        &self,
        query: &str,
        corpus: &[Arc<Snapshot>],
        visibility: &Visibility,
        limit: usize,
    ) -> Vec<Ranked>;

    /// Drops what is kept of a source that is gone.
    fn forget(&self, source: &str) {
        let _ = source;
    }
}

impl Catalog {
    /// Searches the tools that the caller may call.
    #[must_use]
    pub fn search(&self, query: &str, options: &SearchOptions, visibility: &Visibility) -> SearchOutcome {
        let query = pentad_model::text::prefix(query.trim(), MAX_QUERY_BYTES);
        let mut corpus = self.visible_sources(visibility);
        if let Some(only) = &options.source {
            corpus.retain(|snapshot| snapshot.source.name() == only);
        }
        let ranked = self.ranker().rank(query, &corpus, visibility, options.limit);
        let statuses: Vec<SourceStatus> = corpus.iter().map(|s| s.source.status()).collect();
        let hits: Vec<Hit> = ranked
            .into_iter()
            .filter_map(|place| hit(corpus.get(place.source)?, statuses.get(place.source)?, place))
            .collect();
        let (known, unknown): (Vec<_>, Vec<_>) = corpus
            .iter()
            .zip(statuses)
            .partition(|(s, status)| !s.documents.is_empty() || !is_pending(&status.readiness));
        let searched = corpus.iter().map(|s| s.visible(visibility).count()).sum();
        let near = if hits.is_empty() {
            self.nearest(query, visibility)
        } else {
            Vec::new()
        };
        SearchOutcome {
            query: query.to_owned(),
            searched,
            sources: known
                .into_iter()
                .map(|(s, _)| s.source.name().to_owned())
                .collect(),
            pending: unknown.into_iter().map(|(_, status)| status).collect(),
            near,
            hits,
        }
    }
}

fn hit(snapshot: &Snapshot, status: &SourceStatus, place: Ranked) -> Option<Hit> {
    let document = snapshot.documents.get(place.document)?;
    Some(Hit {
        source: snapshot.source.name().to_owned(),
        readiness: status.readiness.clone(),
        read_only: document.is_trusted_read_only(),
        would_ask: None,
        score: place.score,
        document: Arc::clone(document),
    })
}

#[cfg(test)]
mod tests;
