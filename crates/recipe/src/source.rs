//! Offers the tool files of some roots as a source of tools.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use pentad_model::{Refusal, RefusalKind, ToolDocument};
use pentad_program::{
    Authored, Diagnostic, Environment, Readiness, Severity, SourceStatus, ToolAuthor, ToolCall, ToolFailure,
    ToolOutput, ToolSource,
};

use crate::edit::{Author, Registration};
use crate::imports::Imports;
use crate::launch::Launchers;
use crate::recipe::Recipe;
use crate::root::{Root, RootKind};
use crate::scan::{Discovery, Scanner, State};
use crate::watch::Watch;

/// Offers the tool files of its roots, and writes to the first of them.
pub struct RecipeSource {
    shared: Arc<Shared>,
    launchers: Arc<dyn Launchers>,
    author: Option<Author>,
    watch: Mutex<Option<Watch>>,
}

impl std::fmt::Debug for RecipeSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecipeSource")
            .field("name", &self.shared.name)
            .finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Shared {
    name: String,
    scanner: Mutex<Scanner>,
    snapshot: RwLock<Arc<Snapshot>>,
    generation: AtomicU64,
    watching: Mutex<Watching>,
}

/// Says whether changes on disk are followed.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Watching {
    /// Nobody asked for it: roots are looked at whenever documents are asked for.
    No,
    /// Events tell.
    Yes,
    /// The owner tells: nothing is looked at in between.
    OwnerTells,
    /// It does not work here: as if nobody had asked, with the reason.
    Failed(String),
}

#[derive(Debug, Default)]
struct Snapshot {
    discovery: Discovery,
    documents: Arc<[Arc<ToolDocument>]>,
    by_name: HashMap<String, (Arc<Recipe>, Arc<ToolDocument>)>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic elsewhere leaves these values whole: each is replaced in one step.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Looks at the roots again and replaces the snapshot if anything changed.
    fn rescan(&self) {
        let mut scanner = locked(&self.scanner);
        let discovery = scanner.scan();
        let old = self.snapshot();
        let mut documents = Vec::new();
        let mut by_name = HashMap::new();
        for entry in discovery
            .entries
            .iter()
            .filter(|entry| entry.state == State::Active)
        {
            let Ok(recipe) = &entry.recipe else { continue };
            let document = match old.by_name.get(&entry.id) {
                Some((known, document)) if Arc::ptr_eq(known, recipe) => Arc::clone(document),
                Some((_, document)) => {
                    let fresh = recipe.document(&self.name);
                    if fresh == **document {
                        Arc::clone(document)
                    } else {
                        Arc::new(fresh)
                    }
                }
                None => Arc::new(recipe.document(&self.name)),
            };
            documents.push(Arc::clone(&document));
            by_name.insert(entry.id.clone(), (Arc::clone(recipe), document));
        }
        let same = documents.len() == old.documents.len()
            && documents
                .iter()
                .zip(old.documents.iter())
                .all(|(a, b)| Arc::ptr_eq(a, b));
        let documents = if same {
            Arc::clone(&old.documents)
        } else {
            documents.into()
        };
        let fresh = Arc::new(Snapshot {
            discovery,
            documents,
            by_name,
        });
        *self.snapshot.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        if !same {
            self.generation.fetch_add(1, Ordering::Release);
        }
    }

    fn current(&self) -> Arc<Snapshot> {
        let looks = match *locked(&self.watching) {
            Watching::No | Watching::Failed(_) => true,
            Watching::Yes | Watching::OwnerTells => false,
        };
        if looks {
            self.rescan();
        }
        self.snapshot()
    }
}

impl RecipeSource {
    /// Scans the roots, in order of priority, and offers their tools under a source's name.
    ///
    /// The first root that is the person's own, or a project's, is the one that new tools are written to.
    pub fn open(
        name: impl Into<String>,
        roots: Vec<Root>,
        imports: Imports,
        launchers: Arc<dyn Launchers>,
    ) -> Self {
        let name = name.into();
        let writable = roots.iter().find(|root| root.kind != RootKind::Packaged);
        let author = writable.map(|root| Author::new(root.clone(), imports.clone(), &name));
        let shared = Shared {
            name,
            scanner: Mutex::new(Scanner::new(roots, imports)),
            snapshot: RwLock::default(),
            generation: AtomicU64::new(0),
            watching: Mutex::new(Watching::No),
        };
        shared.rescan();
        Self {
            shared: Arc::new(shared),
            launchers,
            author,
            watch: Mutex::new(None),
        }
    }

    /// Follows changes on disk from now on; without it, roots are looked at on each read.
    ///
    /// If it cannot be done, the source says so in its status and goes on looking at each read.
    pub fn watch(&self) {
        let roots = locked(&self.shared.scanner)
            .roots()
            .iter()
            .map(|root| root.path.clone())
            .collect();
        let (changed, failed) = (Arc::clone(&self.shared), Arc::clone(&self.shared));
        *locked(&self.shared.watching) = Watching::Yes;
        let watch = Watch::start(
            roots,
            move || changed.rescan(),
            move |reason| *locked(&failed.watching) = Watching::Failed(reason),
        );
        match watch {
            Ok(watch) => {
                if let Some(old) = locked(&self.watch).replace(watch) {
                    old.stop();
                }
            }
            Err(error) => *locked(&self.shared.watching) = Watching::Failed(error.to_string()),
        }
    }

    /// Looks at the roots from now on only when [`Self::look_again`] or a refresh says so, and after each edit of its own:
    /// for a process that answers one question, to which a thousand files are the same throughout.
    pub fn look_when_told(&self) {
        *locked(&self.shared.watching) = Watching::OwnerTells;
    }

    /// Looks at the roots now, without waiting for an event. Reads files: not for an executor's thread.
    pub fn look_again(&self) {
        self.shared.rescan();
    }

    /// Returns everything that the last scan found.
    pub fn discovery(&self) -> Discovery {
        self.shared.current().discovery.clone()
    }

    /// Returns the recipe of a name, if it is offered.
    pub fn recipe(&self, name: &str) -> Option<Arc<Recipe>> {
        self.shared
            .current()
            .by_name
            .get(name)
            .map(|(recipe, _)| Arc::clone(recipe))
    }

    /// Makes, changes or deletes a tool from its parts.
    pub async fn register(&self, registration: Registration) -> Result<Authored, Refusal> {
        let name = registration.name.clone();
        self.edit(&name, move |author| author.register(&registration))
            .await
    }

    /// Makes a tool from a command line, deriving what is not given.
    pub async fn register_shorthand(
        &self,
        name: &str,
        command: &str,
        description: Option<&str>,
        update: bool,
    ) -> Result<Authored, Refusal> {
        let (owned, command, description) = (
            name.to_owned(),
            command.to_owned(),
            description.map(str::to_owned),
        );
        self.edit(name, move |author| {
            author.register_shorthand(&owned, &command, description.as_deref(), update)
        })
        .await
    }

    async fn edit(
        &self,
        name: &str,
        act: impl FnOnce(&Author) -> Result<Authored, Refusal> + Send + 'static,
    ) -> Result<Authored, Refusal> {
        let author = self.author.clone().ok_or_else(|| {
            Refusal::new(
                RefusalKind::NotSupported,
                name,
                format!("The tools of {} cannot be changed.", self.shared.name),
            )
        })?;
        let shared = Arc::clone(&self.shared);
        let acted = tokio::task::spawn_blocking(move || {
            let authored = act(&author);
            // What was written is found at once, without waiting for an event.
            shared.rescan();
            authored
        });
        acted.await.map_err(|error| {
            Refusal::new(
                RefusalKind::Internal,
                name,
                format!("Writing the tool stopped: {error}."),
            )
        })?
    }
}

#[async_trait]
impl ToolAuthor for RecipeSource {
    async fn write(&self, name: &str, content: &str, dry_run: bool) -> Result<Authored, Refusal> {
        let (owned, content) = (name.to_owned(), content.to_owned());
        self.edit(name, move |author| author.write(&owned, &content, dry_run))
            .await
    }

    async fn delete(&self, name: &str, dry_run: bool) -> Result<Authored, Refusal> {
        let owned = name.to_owned();
        self.edit(name, move |author| author.delete(&owned, dry_run))
            .await
    }
}

#[async_trait]
impl ToolSource for RecipeSource {
    fn name(&self) -> &str {
        &self.shared.name
    }

    fn documents(&self) -> Arc<[Arc<ToolDocument>]> {
        Arc::clone(&self.shared.current().documents)
    }

    fn generation(&self) -> u64 {
        drop(self.shared.current());
        self.shared.generation.load(Ordering::Acquire)
    }

    fn status(&self) -> SourceStatus {
        let snapshot = self.shared.current();
        let mut diagnostics = snapshot.discovery.diagnostics();
        if let Watching::Failed(reason) = &*locked(&self.shared.watching) {
            diagnostics.push(Diagnostic {
                severity: Severity::Warning,
                subject: self.shared.name.clone(),
                message: format!(
                    "Changes on disk cannot be followed ({reason}); files are looked at on each read."
                ),
                next: Some("Raise fs.inotify.max_user_watches if it is the limit.".to_owned()),
            });
        }
        let tools = snapshot.documents.len();
        SourceStatus {
            source: self.shared.name.clone(),
            readiness: Readiness::Ready,
            tools,
            copies: 0,
            diagnostics,
        }
    }

    fn closure_hash(&self, document: &ToolDocument, _environment: Option<&Environment>) -> String {
        closure_hash(document)
    }

    async fn call(&self, call: ToolCall) -> Result<ToolOutput, ToolFailure> {
        let name = call.document.tool.name.clone();
        let snapshot = self.shared.current();
        let Some((recipe, document)) = snapshot.by_name.get(&name) else {
            let message = format!("Tool \"{name}\" is gone.");
            return Err(Refusal::new(RefusalKind::NotFound, &name, message).into());
        };
        // A run keeps to the text that was judged: a file edited since then is another tool.
        if **document != *call.document {
            let message = format!("Tool \"{name}\" changed after this call was judged; it was not run.");
            let refusal = Refusal::new(RefusalKind::Conflict, &name, message);
            return Err(refusal
                .next_step(format!("Read {} and call again.", call.document.tool.address()))
                .into());
        }
        crate::call::call(recipe, self.launchers.as_ref(), call).await
    }

    async fn refresh(&self, _environment: Option<&Environment>) -> Result<(), Refusal> {
        let shared = Arc::clone(&self.shared);
        // A scan that panicked leaves the old snapshot, which is what there is.
        drop(tokio::task::spawn_blocking(move || shared.rescan()).await);
        Ok(())
    }

    async fn shutdown(&self, limit: Duration) {
        let watch = locked(&self.watch).take();
        *locked(&self.shared.watching) = Watching::No;
        if let Some(watch) = watch {
            let stopped = tokio::task::spawn_blocking(move || watch.stop());
            drop(tokio::time::timeout(limit, stopped).await);
        }
    }
}

/// Returns the hash over everything that would run: the document has the whole closure in its body.
pub(crate) fn closure_hash(document: &ToolDocument) -> String {
    document.cid().unwrap_or_else(|_| {
        // Only numbers that JSON cannot write have no canonical form; the text still tells documents apart.
        pentad_model::canonical::sha256_hex(format!("{document:?}").as_bytes())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::{Job, Opened};

    struct Nothing;

    impl Launchers for Nothing {
        fn open(&self, job: &Job) -> Result<Opened, Refusal> {
            Err(Refusal::new(
                RefusalKind::NotAvailable,
                job.run.to_string(),
                "Nothing starts here.",
            ))
        }
    }

    #[test]
    fn f06_a_watch_that_fails_is_a_diagnostic_and_reading_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path(), RootKind::User);
        let source = RecipeSource::open("recipes", vec![root], Imports::default(), Arc::new(Nothing));
        *locked(&source.shared.watching) = Watching::Failed("no space left on device".to_owned());
        std::fs::write(dir.path().join("late.json"), r#"{"template": "x"}"#).unwrap();
        assert_eq!(source.documents().len(), 1);
        let diagnostics = source.status().diagnostics;
        let told = diagnostics.iter().find(|d| d.subject == "recipes").unwrap();
        assert!(
            told.message.contains("no space left on device"),
            "{}",
            told.message
        );
    }
}
