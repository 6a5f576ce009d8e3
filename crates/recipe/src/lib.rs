//! Tool files: discover, validate, register, watch; the packaged library.
//!
//! A tool file is JSON or Markdown in a root directory; its location makes it a tool. [`Scanner`] finds the files of
//! several roots and never lets one broken file hide another; [`Author`] writes them durably; [`RecipeSource`] offers them
//! as a source of tools and follows changes on disk.

mod call;
mod edit;
mod fields;
mod file;
mod imports;
mod launch;
mod library;
mod name;
mod note;
mod recipe;
mod root;
mod scan;
mod source;
mod watch;

pub use edit::{Author, Registration};
pub use fields::Fields;
pub use file::{FileError, Form, Lambda, MAX_FILE_BYTES, RawFile};
pub use imports::{ImportError, Imports, Resolved};
pub use launch::{Environment, Job, Launchers, Opened, OutputBounds, ProcessLaunchers};
pub use library::{LIBRARY, Library};
pub use name::{BUILTIN_NAMES, MAX_NAME_CHARS, is_builtin, is_file_stem, is_reserved, normalize};
pub use note::Note;
pub use recipe::{Body, InvalidRecipe, Place, Recipe, derive_description};
pub use root::{Root, RootFormat, RootKind};
pub use scan::{Discovery, Entry, Scanner, State};
pub use source::RecipeSource;
pub use watch::Watch;
