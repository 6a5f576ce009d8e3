//! Makes, changes and deletes tool files.

mod durable;
mod markdown;
mod register;

use std::fs;
use std::path::{Path, PathBuf};

use pentad_model::{Refusal, RefusalKind};
use pentad_program::{Authored, Severity};

use crate::file::Form;
use crate::imports::Imports;
use crate::name::{is_file_stem, is_reserved, normalize};
use crate::recipe::{Place, Recipe};
use crate::root::Root;
use durable::{DirectoryLock, DurableError};

pub use register::Registration;

/// Writes the tool files of one root.
#[derive(Debug, Clone)]
pub struct Author {
    root: Root,
    imports: Imports,
    source: String,
}

/// Is the file that holds a name now.
struct Present {
    path: PathBuf,
    form: Form,
    bytes: Vec<u8>,
}

fn refuse(kind: RefusalKind, name: &str, message: impl Into<String>) -> Refusal {
    Refusal::new(kind, name, message)
}

fn failed(name: &str, error: &DurableError) -> Refusal {
    let refusal = |kind| refuse(kind, name, format!("Failed to persist tool recipe: {error}."));
    match error {
        DurableError::Changed { .. } => {
            refusal(RefusalKind::Conflict).next_step("Read the tool again, then repeat the change.")
        }
        DurableError::Busy { .. } => refusal(RefusalKind::Unavailable).next_step("Try again."),
        DurableError::Io { .. } => refusal(RefusalKind::Internal),
    }
}

impl Author {
    /// Returns an author for a root whose tools a source offers.
    pub fn new(root: Root, imports: Imports, source: impl Into<String>) -> Self {
        Self {
            root,
            imports,
            source: source.into(),
        }
    }

    /// Returns the root.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// Writes a whole file: JSON if the content is an object, else Markdown. The name is taken as it is.
    pub fn write(&self, name: &str, content: &str, dry_run: bool) -> Result<Authored, Refusal> {
        check_name(name)?;
        let form = Form::of_text(content);
        let lock = self.lock(name)?;
        let present = self.present(name)?;
        self.put(&lock, name, form, content.as_bytes(), &present, dry_run)
    }

    /// Deletes a tool's file, whatever its form.
    pub fn delete(&self, name: &str, dry_run: bool) -> Result<Authored, Refusal> {
        check_stem(name)?;
        let lock = self.lock(name)?;
        let present = self.present(name)?;
        if present.is_empty() {
            return Err(refuse(
                RefusalKind::NotFound,
                name,
                format!("Tool \"{name}\" not found."),
            ));
        }
        if !dry_run {
            for file in &present {
                lock.delete(&file.path, &file.bytes)
                    .map_err(|error| failed(name, &error))?;
            }
        }
        let paths: Vec<String> = present
            .iter()
            .map(|file| file.path.display().to_string())
            .collect();
        let verb = if dry_run { "Would delete" } else { "Deleted" };
        let message = format!("{verb} tool \"{name}\" ({}).", paths.join(", "));
        Ok(Authored {
            name: name.to_owned(),
            document: None,
            message,
            replaced: true,
            kind: None,
        })
    }

    fn lock(&self, name: &str) -> Result<DirectoryLock, Refusal> {
        DirectoryLock::take(&self.root.path).map_err(|error| failed(name, &error))
    }

    /// Returns the files of a name, the one that counts first.
    fn present(&self, name: &str) -> Result<Vec<Present>, Refusal> {
        let mut found = Vec::new();
        for form in [Form::Json, Form::Markdown] {
            let path = self.path(name, form);
            match fs::read(&path) {
                Ok(bytes) => found.push(Present { path, form, bytes }),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(source) => return Err(failed(name, &DurableError::Io { path, source })),
            }
        }
        Ok(found)
    }

    fn path(&self, name: &str, form: Form) -> PathBuf {
        self.root.path.join(format!("{name}.{}", form.extension()))
    }

    /// Validates and writes; afterwards the name has this one file.
    fn put(
        &self,
        lock: &DirectoryLock,
        name: &str,
        form: Form,
        bytes: &[u8],
        present: &[Present],
        dry_run: bool,
    ) -> Result<Authored, Refusal> {
        let path = self.path(name, form);
        let recipe = self.validate(name, &path, form, bytes)?;
        let replaced = !present.is_empty();
        if !dry_run {
            let old = present
                .iter()
                .find(|file| file.form == form)
                .map(|file| file.bytes.as_slice());
            lock.write(&path, old, bytes)
                .map_err(|error| failed(name, &error))?;
            for other in present.iter().filter(|file| file.form != form) {
                lock.delete(&other.path, &other.bytes)
                    .map_err(|error| failed(name, &error))?;
            }
        }
        let document = recipe.document(&self.source);
        let arguments: Vec<&str> = recipe
            .interface
            .parameters
            .iter()
            .map(|p| p.name.as_str())
            .collect();
        let verb = match (dry_run, replaced) {
            (true, false) => "Would register",
            (true, true) => "Would update",
            (false, false) => "Registered",
            (false, true) => "Updated",
        };
        let arguments = if arguments.is_empty() {
            "none".to_owned()
        } else {
            arguments.join(", ")
        };
        let mut message = format!("{verb} tool \"{name}\" (args: {arguments}).");
        if recipe.description_derived {
            message.push_str(&format!(
                " The description was derived: \"{}\" Give one that says what it is for.",
                recipe.description
            ));
        }
        let warnings: Vec<&str> = recipe
            .notes
            .iter()
            .filter(|n| n.severity == Severity::Warning)
            .map(|n| n.message.as_str())
            .collect();
        if !warnings.is_empty() {
            message.push_str(&format!("\nWarnings:\n{}", warnings.join("\n")));
        }
        Ok(Authored {
            name: name.to_owned(),
            kind: Some(document.kind),
            document: Some(document),
            message,
            replaced,
        })
    }

    fn validate(&self, name: &str, path: &Path, form: Form, bytes: &[u8]) -> Result<Recipe, Refusal> {
        let place = Place {
            path: Some(path.to_owned()),
            format: self.root.format,
        };
        Recipe::read(name, place, form, bytes, &self.imports).map_err(|invalid| {
            let refusal = refuse(
                RefusalKind::Invalid,
                name,
                format!("Tool \"{name}\" is not valid: {invalid}"),
            );
            refusal.next_step("Correct the document and write it again; nothing was changed.")
        })
    }
}

fn check_name(name: &str) -> Result<(), Refusal> {
    check_stem(name)?;
    if is_reserved(name) {
        let refusal = refuse(RefusalKind::Conflict, name, format!("Reserved tool name: {name}"));
        return Err(refusal.next_step("Choose another name."));
    }
    Ok(())
}

fn check_stem(name: &str) -> Result<(), Refusal> {
    if is_file_stem(name) {
        return Ok(());
    }
    let refusal = refuse(RefusalKind::BadRequest, name, "Invalid tool name.");
    let suggestion = normalize(name);
    Err(if suggestion.is_empty() {
        refusal.next_step("Use letters, digits, dot, dash and underscore.")
    } else {
        refusal.next_step(format!(
            "Use letters, digits, dot, dash and underscore, for example {suggestion}."
        ))
    })
}
