//! Snapshots of sources with their names looked up by hash, kept until the source changes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use pentad_model::grant::components;
use pentad_model::tool::ToolDocument;
use pentad_program::ToolSource;

use crate::catalog::Exposure;
use crate::visibility::Visibility;

/// One source at one moment.
pub struct Snapshot {
    /// The source.
    pub source: Arc<dyn ToolSource>,
    /// How its tools show.
    pub exposure: Exposure,
    /// Its generation when the documents were taken.
    pub generation: u64,
    /// Its documents.
    pub documents: Arc<[Arc<ToolDocument>]>,
    by_name: HashMap<String, usize>,
    targets: Vec<Vec<String>>,
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot")
            .field("source", &self.source.name())
            .field("generation", &self.generation)
            .field("documents", &self.documents.len())
            .finish_non_exhaustive()
    }
}

impl Snapshot {
    fn new(
        source: &Arc<dyn ToolSource>,
        exposure: Exposure,
        generation: u64,
        documents: Arc<[Arc<ToolDocument>]>,
    ) -> Self {
        let mut by_name = HashMap::with_capacity(documents.len());
        for (at, document) in documents.iter().enumerate() {
            by_name.entry(document.tool.name.clone()).or_insert(at);
        }
        let targets = documents
            .iter()
            .map(|d| components(&d.tool.to_string()))
            .collect();
        Self {
            source: Arc::clone(source),
            exposure,
            generation,
            documents,
            by_name,
            targets,
        }
    }

    /// Returns the document of a name, byte for byte, if the caller may see it.
    pub(crate) fn find(&self, name: &str, visibility: &Visibility) -> Option<&Arc<ToolDocument>> {
        let at = *self.by_name.get(name)?;
        self.shows(at, visibility).then(|| self.documents.get(at))?
    }

    /// Tells whether the document at a place shows.
    #[must_use]
    pub fn shows(&self, at: usize, visibility: &Visibility) -> bool {
        self.targets
            .get(at)
            .is_some_and(|target| visibility.sees_components(target))
    }

    /// Returns the documents that show, in the source's order.
    pub(crate) fn visible<'a>(
        &'a self,
        visibility: &'a Visibility,
    ) -> impl Iterator<Item = &'a Arc<ToolDocument>> + 'a {
        let all = visibility.is_unrestricted();
        self.documents
            .iter()
            .enumerate()
            .filter(move |(at, _)| all || self.shows(*at, visibility))
            .map(|(_, document)| document)
    }
}

/// The last snapshot of each source.
#[derive(Default)]
pub(crate) struct Snapshots(Mutex<HashMap<String, Arc<Snapshot>>>);

impl Snapshots {
    /// Returns the present snapshot; the kept one while neither documents nor generation changed.
    pub(crate) fn take(&self, source: &Arc<dyn ToolSource>, exposure: Exposure) -> Arc<Snapshot> {
        let before = source.generation();
        let documents = source.documents();
        let settled = source.generation() == before;
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(snapshot) = kept.get(source.name())
            && Arc::ptr_eq(&snapshot.source, source)
            && snapshot.exposure == exposure
            && (Arc::ptr_eq(&snapshot.documents, &documents) || (settled && snapshot.generation == before))
        {
            return Arc::clone(snapshot);
        }
        let snapshot = Arc::new(Snapshot::new(source, exposure, before, documents));
        kept.insert(source.name().to_owned(), Arc::clone(&snapshot));
        snapshot
    }

    pub(crate) fn forget(&self, source: &str) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(source);
    }
}
