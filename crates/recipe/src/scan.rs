//! Finds the tool files of several roots and says which of them are offered.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use pentad_program::{Diagnostic, Severity};

use crate::file::{Form, MAX_FILE_BYTES};
use crate::imports::Imports;
use crate::name::is_builtin;
use crate::note::Note;
use crate::recipe::{InvalidRecipe, Place, Recipe};
use crate::root::{Root, RootKind};

/// Files from which on it is worth reading on several threads.
const WORTH_THREADS: usize = 64;
/// Most threads that read.
const MOST_THREADS: usize = 4;

/// Says what came of a tool file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It is offered.
    Active,
    /// Another file of the same name comes first.
    Shadowed,
    /// It cannot be read; it still keeps its name from files that come later.
    Invalid,
    /// Its author switched it off; it still keeps its name.
    Disabled,
}

/// Is one tool file.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Is its name.
    pub id: String,
    /// Is the file.
    pub path: PathBuf,
    /// Says how it is written.
    pub form: Form,
    /// Says whose root it is in.
    pub kind: RootKind,
    /// Says what came of it.
    pub state: State,
    /// Is the recipe, or why there is none.
    pub recipe: Result<Arc<Recipe>, Arc<InvalidRecipe>>,
    /// Is the file that comes first, if one does.
    pub shadowed_by: Option<PathBuf>,
    /// Tells that its name belongs to a builtin: it is reached with its source only.
    pub builtin_name: bool,
}

impl Entry {
    fn notes(&self) -> &[Note] {
        match &self.recipe {
            Ok(recipe) => &recipe.notes,
            Err(invalid) => &invalid.notes,
        }
    }
}

/// Holds what a scan found, in byte order of names, then of priority.
#[derive(Debug, Clone, Default)]
pub struct Discovery {
    /// Are all tool files.
    pub entries: Vec<Entry>,
    /// Are remarks about the roots themselves.
    pub roots: Vec<Diagnostic>,
}

impl Discovery {
    /// Returns the offered recipe of a name.
    pub fn active(&self, id: &str) -> Option<&Arc<Recipe>> {
        self.entry(id)
            .filter(|entry| entry.state == State::Active)
            .and_then(|entry| entry.recipe.as_ref().ok())
    }

    /// Returns the file that holds a name, offered or not.
    pub fn entry(&self, id: &str) -> Option<&Entry> {
        let first = self.entries.partition_point(|entry| entry.id.as_str() < id);
        self.entries.get(first).filter(|entry| entry.id == id)
    }

    /// Returns everything a person should know.
    pub fn diagnostics(&self) -> Vec<Diagnostic> {
        let mut found = self.roots.clone();
        for entry in &self.entries {
            let subject = entry.path.display().to_string();
            let mut say = |severity, message: String, next: &str| {
                let next = (!next.is_empty()).then(|| next.to_owned());
                found.push(Diagnostic {
                    severity,
                    subject: subject.clone(),
                    message,
                    next,
                });
            };
            match (entry.state, &entry.shadowed_by) {
                (State::Shadowed, Some(first)) => {
                    let message = format!("{} is shadowed by {}.", entry.id, first.display());
                    say(Severity::Info, message, "Rename or delete one of them.");
                    continue;
                }
                (State::Disabled, _) => {
                    say(
                        Severity::Info,
                        format!("{} is disabled and keeps its name.", entry.id),
                        "",
                    );
                }
                (State::Invalid, _) => {}
                _ if entry.builtin_name => {
                    let message = format!(
                        "{} is a name of Pentad's own; this tool is recipes/{0} only.",
                        entry.id
                    );
                    say(Severity::Warning, message, "Rename the file.");
                }
                _ => {}
            }
            let next = if entry.state == State::Invalid {
                "Correct the file; its name stays taken until then."
            } else {
                ""
            };
            for note in entry.notes() {
                say(note.severity, note.message.clone(), next);
            }
        }
        found
    }
}

/// Identifies the content of a file without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    length: u64,
    inode: u64,
}

type Read = Result<Arc<Recipe>, Arc<InvalidRecipe>>;
type Kept = (Stamp, Read);

/// Is a file of a root, and what it held if it has not changed since.
struct Found {
    id: String,
    form: Form,
    path: PathBuf,
    stamp: Option<Stamp>,
    known: Option<Read>,
}

/// Scans roots, reading again only what changed.
#[derive(Debug, Default)]
pub struct Scanner {
    roots: Vec<Root>,
    imports: Imports,
    kept: HashMap<PathBuf, Kept>,
}

impl Scanner {
    /// Returns a scanner over roots in order of priority.
    pub fn new(roots: Vec<Root>, imports: Imports) -> Self {
        Self {
            roots,
            imports,
            kept: HashMap::new(),
        }
    }

    /// Returns the roots.
    pub fn roots(&self) -> &[Root] {
        &self.roots
    }

    /// Scans all roots. A file or root that cannot be read is a remark, never an error.
    pub fn scan(&mut self) -> Discovery {
        let mut discovery = Discovery::default();
        let mut kept = std::mem::take(&mut self.kept);
        let mut now = HashMap::with_capacity(kept.len());
        let mut ranked: Vec<(usize, Entry)> = Vec::new();
        for (rank, root) in self.roots.iter().enumerate() {
            let files = match list(&root.path) {
                Ok(files) => files,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    discovery.roots.push(root_remark(
                        root,
                        Severity::Error,
                        &format!("The root cannot be read: {error}."),
                    ));
                    continue;
                }
            };
            discovery.roots.extend(writable_by_others(root));
            let files: Vec<Found> = files
                .into_iter()
                .map(|(id, form, path)| {
                    let stamp = stamp(&path);
                    let known = kept
                        .remove(&path)
                        .filter(|(old, recipe)| Some(*old) == stamp && is_alone(recipe))
                        .map(|(_, recipe)| recipe);
                    Found {
                        id,
                        form,
                        path,
                        stamp,
                        known,
                    }
                })
                .collect();
            for (found, recipe) in read_all(files, root, &self.imports) {
                let Found {
                    id,
                    form,
                    path,
                    stamp,
                    ..
                } = found;
                if let Some(stamp) = stamp {
                    now.insert(path.clone(), (stamp, recipe.clone()));
                }
                ranked.push((rank, entry(id, form, path, root, recipe)));
            }
        }
        self.kept = now;
        discovery.entries = settle(ranked);
        discovery
    }
}

/// Tells that a recipe consists of its own file only, so that its stamp says whether it changed.
fn is_alone(recipe: &Read) -> bool {
    recipe.as_ref().is_ok_and(|recipe| recipe.depends_on.is_empty())
}

fn list(root: &Path) -> io::Result<Vec<(String, Form, PathBuf)>> {
    let mut files = Vec::new();
    for item in fs::read_dir(root)? {
        let Ok(item) = item else { continue };
        let path = item.path();
        let form = path
            .extension()
            .and_then(|e| e.to_str())
            .and_then(Form::of_extension);
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        let (Some(form), Some(stem)) = (form, stem) else {
            continue;
        };
        if stem.starts_with('.')
            || !item
                .file_type()
                .is_ok_and(|kind| kind.is_file() || kind.is_symlink())
        {
            continue;
        }
        files.push((stem.to_owned(), form, path));
    }
    Ok(files)
}

fn entry(id: String, form: Form, path: PathBuf, root: &Root, recipe: Read) -> Entry {
    let state = match &recipe {
        Err(_) => State::Invalid,
        Ok(recipe) if recipe.fields.disabled => State::Disabled,
        Ok(_) => State::Active,
    };
    let builtin_name = is_builtin(&id);
    Entry {
        id,
        path,
        form,
        kind: root.kind,
        state,
        recipe,
        shadowed_by: None,
        builtin_name,
    }
}

/// Reads what is not known, on several threads where there is much of it: a first look is mostly waiting for files.
fn read_all(files: Vec<Found>, root: &Root, imports: &Imports) -> Vec<(Found, Read)> {
    let read = |mut found: Found| {
        let known = found.known.take();
        let read = known.unwrap_or_else(|| read_entry(&found.id, found.form, &found.path, root, imports));
        (found, read)
    };
    let unknown = files.iter().filter(|found| found.known.is_none()).count();
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get().min(MOST_THREADS));
    if unknown < WORTH_THREADS || threads < 2 {
        return files.into_iter().map(read).collect();
    }
    let each = files.len().div_ceil(threads);
    let mut files = files.into_iter();
    std::thread::scope(|scope| {
        let own: Vec<Found> = files.by_ref().take(each).collect();
        let mut others = Vec::with_capacity(threads);
        while files.len() > 0 {
            let part: Vec<Found> = files.by_ref().take(each).collect();
            others.push(scope.spawn(move || part.into_iter().map(read).collect::<Vec<_>>()));
        }
        let mut all: Vec<(Found, Read)> = own.into_iter().map(read).collect();
        for other in others {
            match other.join() {
                Ok(part) => all.extend(part),
                // What panics on another thread panics here as it would have without one.
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    })
}

fn read_entry(id: &str, form: Form, path: &Path, root: &Root, imports: &Imports) -> Read {
    let place = Place {
        path: Some(path.to_owned()),
        format: root.format,
    };
    let read = read_capped(path).map_err(|error| InvalidRecipe {
        notes: vec![Note::error(format!("The file cannot be read: {error}."))],
    });
    read.and_then(|bytes| Recipe::read(id, place, form, &bytes, imports))
        .map(Arc::new)
        .map_err(Arc::new)
}

/// Sorts by name, then by priority; the first of a name is offered and the others are shadowed.
fn settle(mut ranked: Vec<(usize, Entry)>) -> Vec<Entry> {
    let order = |form: Form| u8::from(form == Form::Markdown);
    ranked.sort_by(|(a_rank, a), (b_rank, b)| {
        (a.id.as_str(), a_rank, order(a.form)).cmp(&(b.id.as_str(), b_rank, order(b.form)))
    });
    let mut entries: Vec<Entry> = Vec::with_capacity(ranked.len());
    let mut first: Option<(String, PathBuf)> = None;
    for (_, mut entry) in ranked {
        match &first {
            Some((id, path)) if *id == entry.id => {
                entry.state = State::Shadowed;
                entry.shadowed_by = Some(path.clone());
            }
            _ => first = Some((entry.id.clone(), entry.path.clone())),
        }
        entries.push(entry);
    }
    entries
}

fn root_remark(root: &Root, severity: Severity, message: &str) -> Diagnostic {
    Diagnostic {
        severity,
        subject: root.path.display().to_string(),
        message: message.to_owned(),
        next: None,
    }
}

#[cfg(unix)]
fn writable_by_others(root: &Root) -> Option<Diagnostic> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = fs::metadata(&root.path).ok()?.permissions().mode();
    let who = match (mode & 0o002 != 0, mode & 0o020 != 0) {
        (true, _) => "everybody",
        (false, true) => "its group",
        (false, false) => return None,
    };
    let mut remark = root_remark(
        root,
        Severity::Warning,
        &format!("The root is writable by {who}, so others can add tools."),
    );
    remark.next = Some(format!("chmod go-w {}", root.path.display()));
    Some(remark)
}

#[cfg(not(unix))]
fn writable_by_others(_: &Root) -> Option<Diagnostic> {
    None
}

fn stamp(path: &Path) -> Option<Stamp> {
    let meta = fs::metadata(path).ok()?;
    #[cfg(unix)]
    let inode = std::os::unix::fs::MetadataExt::ino(&meta);
    #[cfg(not(unix))]
    let inode = 0;
    let modified = meta.modified().ok();
    // A file changed within the clock's resolution could change again under the same time: read it again next time.
    let settled = modified
        .and_then(|at| at.elapsed().ok())
        .is_some_and(|age| age.as_millis() > 20);
    settled.then_some(Stamp {
        modified,
        length: meta.len(),
        inode,
    })
}

/// Reads a regular file; one byte more than a tool file may have shows that it is too large.
pub(crate) fn read_capped(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let limit = u64::try_from(MAX_FILE_BYTES + 1).unwrap_or(u64::MAX);
    let mut bytes = Vec::with_capacity(usize::try_from(meta.len().min(limit)).unwrap_or(0));
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}
