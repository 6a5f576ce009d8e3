//! The sources of one home, connected and disconnected while it runs.

use std::sync::{Arc, PoisonError, RwLock};

use pentad_model::Refusal;
use pentad_model::tool::RESERVED_SOURCES;
use pentad_program::{Environment, SourceStatus, ToolSource};

use crate::search::{Lexical, Ranker};
use crate::snapshot::{Snapshot, Snapshots};
use crate::validate::Validators;
use crate::visibility::Visibility;

/// How a source's tools come to a caller's notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exposure {
    /// Listed by name with one line: authored tools and what the home is connected to.
    Announced,
    /// Found by search only, and only by callers whose source list opens it.
    Searchable,
}

#[derive(Clone)]
struct Registered {
    source: Arc<dyn ToolSource>,
    exposure: Exposure,
}

/// The tool documents of all sources.
///
/// Every operation works on snapshots: a source that connects, disconnects or re-indexes meanwhile changes the next
/// operation, never this one, and no lock is held while a source is asked.
pub struct Catalog {
    sources: RwLock<Arc<[Registered]>>,
    snapshots: Snapshots,
    ranker: Arc<dyn Ranker>,
    pub(crate) validators: Validators,
}

impl std::fmt::Debug for Catalog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sources = self.registered();
        let names: Vec<&str> = sources.iter().map(|r| r.source.name()).collect();
        f.debug_struct("Catalog")
            .field("sources", &names)
            .finish_non_exhaustive()
    }
}

impl Catalog {
    /// Returns the catalog of these sources, all announced.
    #[must_use]
    pub fn new(sources: Vec<Arc<dyn ToolSource>>) -> Self {
        Self::with_ranker(sources, Arc::new(Lexical::default()))
    }

    /// Returns the catalog of these sources, searched by another engine.
    #[must_use]
    pub fn with_ranker(sources: Vec<Arc<dyn ToolSource>>, ranker: Arc<dyn Ranker>) -> Self {
        let catalog = Self {
            sources: RwLock::new(Arc::from([])),
            snapshots: Snapshots::default(),
            ranker,
            validators: Validators::default(),
        };
        for source in sources {
            catalog.add_source(source);
        }
        catalog
    }

    /// Adds an announced source; one of the same name is replaced.
    pub fn add_source(&self, source: Arc<dyn ToolSource>) {
        self.add(source, Exposure::Announced);
    }

    /// Adds a catalogue: its tools are found by search only, by callers whose source list names it.
    pub fn add_catalogue(&self, source: Arc<dyn ToolSource>) {
        self.add(source, Exposure::Searchable);
    }

    fn add(&self, source: Arc<dyn ToolSource>, exposure: Exposure) {
        self.change(|sources| {
            sources.retain(|r| r.source.name() != source.name());
            sources.push(Registered { source, exposure });
            sources.sort_by(|a, b| order(a.source.name()).cmp(&order(b.source.name())));
        });
    }

    /// Removes a source and returns it, so that its owner can shut it down.
    pub fn remove_source(&self, name: &str) -> Option<Arc<dyn ToolSource>> {
        let mut removed = None;
        self.change(|sources| {
            if let Some(at) = sources.iter().position(|r| r.source.name() == name) {
                removed = Some(sources.remove(at).source);
            }
        });
        self.snapshots.forget(name);
        self.ranker.forget(name);
        removed
    }

    fn change(&self, edit: impl FnOnce(&mut Vec<Registered>)) {
        let mut guard = self.sources.write().unwrap_or_else(PoisonError::into_inner);
        let mut sources = guard.to_vec();
        edit(&mut sources);
        *guard = sources.into();
    }

    fn registered(&self) -> Arc<[Registered]> {
        Arc::clone(&self.sources.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the source of that name, whoever asks.
    #[must_use]
    pub fn source(&self, name: &str) -> Option<Arc<dyn ToolSource>> {
        let sources = self.registered();
        sources
            .iter()
            .find(|r| r.source.name() == name)
            .map(|r| Arc::clone(&r.source))
    }

    /// Returns the states of all sources in their order, for `doctor` and people.
    #[must_use]
    pub fn statuses(&self) -> Vec<SourceStatus> {
        self.registered().iter().map(|r| r.source.status()).collect()
    }

    /// Lets a source learn its tools, for example by starting a server that was never indexed; returns its state
    /// afterwards, or `None` when there is no such source. Bounded by the source's own start limit. What is started has
    /// the variables of `environment`, or of this process.
    ///
    /// # Errors
    /// Says why the source could not learn them.
    pub async fn refresh_source(
        &self,
        name: &str,
        environment: Option<&Environment>,
    ) -> Result<Option<SourceStatus>, Refusal> {
        let Some(source) = self.source(name) else {
            return Ok(None);
        };
        source.refresh(environment).await?;
        Ok(Some(source.status()))
    }

    /// Returns the present documents of the sources that show.
    pub(crate) fn visible_sources(&self, visibility: &Visibility) -> Vec<Arc<Snapshot>> {
        self.registered()
            .iter()
            .filter(|r| visibility.sees_source(r.source.name(), r.exposure))
            .map(|r| self.snapshots.take(&r.source, r.exposure))
            .collect()
    }

    pub(crate) fn ranker(&self) -> &dyn Ranker {
        self.ranker.as_ref()
    }
}

/// Reserved sources come first in their order, then the others by name.
fn order(name: &str) -> (usize, &str) {
    let place = RESERVED_SOURCES.iter().position(|reserved| *reserved == name);
    (place.unwrap_or(RESERVED_SOURCES.len()), name)
}
