//! Tool files: discover, validate, register, watch; the packaged library.
//!
//! A tool file is JSON or Markdown in a root directory; its location makes it a tool. [`Scanner`] finds the files of
//! several roots and never lets one broken file hide another; [`Author`] writes them durably; [`RecipeSource`] offers them
//! as a source of tools and follows changes on disk.

mod edit;
mod fields;
mod file;
mod imports;
mod name;
mod note;
mod recipe;
mod root;
mod scan;

pub use edit::{Author, Registration};
pub use fields::Fields;
pub use file::{FileError, Form, Lambda, MAX_FILE_BYTES, RawFile};
pub use imports::{ImportError, Imports, Resolved};
pub use name::{MAX_NAME_CHARS, RESERVED_NAMES, is_file_stem, is_reserved, normalize};
pub use note::Note;
pub use recipe::{Body, InvalidRecipe, Place, Recipe, derive_description};
pub use root::{Root, RootFormat, RootKind};
pub use scan::{Discovery, Entry, Scanner, State};
