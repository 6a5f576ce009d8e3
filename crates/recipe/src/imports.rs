//! Recipes made of other recipes: imports, references and delegation.
//!
//! Everything is resolved on the level of JSON before a template is read, so that a closure has one document and one hash.

mod references;

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::fields::{fold, overlay};
use crate::file::{Form, RawFile};
use crate::note::Note;
use crate::recipe::Place;
use crate::root::{Root, RootFormat};
use references::replace_references;

const MAX_DEPTH: usize = 32;

/// Finds and merges imported recipes.
#[derive(Debug, Clone, Default)]
pub struct Imports {
    /// Are the roots in which a bare name is looked up, before the importing file's own directory.
    pub roots: Vec<Root>,
    /// Is the home directory that `~` stands for.
    pub home: Option<PathBuf>,
}

/// Says why an import could not be resolved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// There is no such file.
    #[error("Recipe import not found: {alias}")]
    NotFound {
        /// Is the alias or reference.
        alias: String,
    },
    /// The file cannot be used.
    #[error("Recipe import {alias} is invalid: {reason}")]
    Invalid {
        /// Is the alias or reference.
        alias: String,
        /// Says why.
        reason: String,
    },
    /// The file is disabled.
    #[error("Recipe import is disabled: {alias} ({path}). Enable it, or import another.")]
    Disabled {
        /// Is the alias or reference.
        alias: String,
        /// Is the file.
        path: String,
    },
    /// A recipe imports itself.
    #[error("Cyclic recipe import: {chain}")]
    Cycle {
        /// Lists the files of the circle.
        chain: String,
    },
    /// Imports are nested too deeply.
    #[error("Recipe imports nest at most {MAX_DEPTH} levels deep.")]
    TooDeep,
    /// An import does not say from where.
    #[error("Recipe import must define from: {alias}")]
    NoFrom {
        /// Is the alias.
        alias: String,
    },
    /// An alias has other characters than letters, digits, dot, dash and underscore.
    #[error("Recipe import alias is not valid: {alias}")]
    Alias {
        /// Is the alias.
        alias: String,
    },
    /// A node names an import that is not declared.
    #[error("Unknown recipe import: {alias}")]
    Unknown {
        /// Is the alias.
        alias: String,
    },
    /// A reference names something that the imported recipe does not have.
    #[error("Unknown recipe import reference: {reference}")]
    Reference {
        /// Is the reference.
        reference: String,
    },
}

/// Holds the fields of a recipe after resolution.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Resolved {
    /// Are the fields.
    pub fields: Map<String, Value>,
    /// Are the files they came from, beside the recipe's own.
    pub files: Vec<PathBuf>,
    /// Are remarks.
    pub notes: Vec<Note>,
}

/// Holds an imported recipe.
struct Target {
    path: PathBuf,
    fields: Map<String, Value>,
    /// Are the target's defaults and values, then the binding's defaults: what `{alias.defaults.x}` sees.
    defaults: Map<String, Value>,
    /// Are the binding's values.
    values: Map<String, Value>,
}

fn map_of(fields: &Map<String, Value>, name: &str) -> Map<String, Value> {
    fields
        .get(name)
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default()
}

impl Imports {
    /// Resolves the imports, references and delegations of a recipe.
    pub fn resolve(&self, place: &Place, fields: Map<String, Value>) -> Result<Resolved, ImportError> {
        let mut work = Work {
            imports: self,
            stack: place.path.iter().cloned().collect(),
            files: Vec::new(),
            notes: Vec::new(),
        };
        let fields = work.fields(place, fields)?;
        Ok(Resolved {
            fields,
            files: work.files,
            notes: work.notes,
        })
    }

    /// Returns the file that a reference means.
    fn find(&self, reference: &str, dir: Option<&Path>) -> Option<PathBuf> {
        let reference = reference.trim();
        let expanded = match (
            reference.strip_prefix("{recipe_dir}"),
            reference.strip_prefix("~/"),
        ) {
            (Some(rest), _) => dir?.join(rest.trim_start_matches('/')),
            (None, Some(rest)) => self.home.as_ref()?.join(rest),
            (None, None) if reference.contains('/') => dir?.join(reference),
            (None, None) => return self.find_bare(reference, dir),
        };
        with_extensions(&expanded)
    }

    fn find_bare(&self, name: &str, dir: Option<&Path>) -> Option<PathBuf> {
        if name.is_empty() || name.contains("..") || name.contains('\\') {
            return None;
        }
        let roots = self.roots.iter().map(|root| root.path.as_path());
        roots.chain(dir).find_map(|dir| with_extensions(&dir.join(name)))
    }
}

fn with_extensions(path: &Path) -> Option<PathBuf> {
    let known = path
        .extension()
        .and_then(|e| e.to_str())
        .and_then(Form::of_extension)
        .is_some();
    if known && path.is_file() {
        return Some(normal(path));
    }
    [Form::Json, Form::Markdown].into_iter().find_map(|form| {
        let mut name = path.file_name()?.to_os_string();
        name.push(".");
        name.push(form.extension());
        let candidate = path.with_file_name(name);
        candidate.is_file().then(|| normal(&candidate))
    })
}

fn normal(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::CurDir => {}
            std::path::Component::ParentDir => drop(clean.pop()),
            other => clean.push(other),
        }
    }
    clean
}

struct Work<'a> {
    imports: &'a Imports,
    stack: Vec<PathBuf>,
    files: Vec<PathBuf>,
    notes: Vec<Note>,
}

impl Work<'_> {
    fn fields(
        &mut self,
        place: &Place,
        mut fields: Map<String, Value>,
    ) -> Result<Map<String, Value>, ImportError> {
        let declared = map_of(&fields, "imports");
        let mut targets: Vec<(String, Target)> = Vec::new();
        for (alias, binding) in &declared {
            let target = self.import(place, alias, binding)?;
            add_env(&mut fields, &target.fields);
            targets.push((alias.clone(), target));
        }
        if !targets.is_empty() {
            for (name, value) in &mut fields {
                if name != "imports" {
                    replace_references(value, &targets)?;
                }
            }
        }
        if let Some(template) = fields.get("template").cloned() {
            // `{"template": "recipe:x", "retry": 3}` is the recipe x with other fields, like the bare word.
            let node = template.as_object().cloned().unwrap_or_default();
            let word = node.get("template").unwrap_or(&template);
            match self.delegated(place, word)? {
                Some(target) => inherit_whole(&mut fields, &target, node, place),
                None => {
                    let template = self.template(place, template, &targets)?;
                    fields.insert("template".to_owned(), template);
                }
            }
        }
        Ok(fields)
    }

    fn import(&mut self, place: &Place, alias: &str, binding: &Value) -> Result<Target, ImportError> {
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        if alias.is_empty() || !alias.chars().all(legal) {
            return Err(ImportError::Alias {
                alias: alias.to_owned(),
            });
        }
        let from = binding
            .as_str()
            .or_else(|| binding.get("from").and_then(Value::as_str));
        let from = from.ok_or_else(|| ImportError::NoFrom {
            alias: alias.to_owned(),
        })?;
        let mut target = self.load(place, alias, from)?;
        if let Some(binding) = binding.as_object() {
            target.defaults.extend(map_of(binding, "defaults"));
            target.values = map_of(binding, "values");
        }
        Ok(target)
    }

    fn load(&mut self, place: &Place, alias: &str, reference: &str) -> Result<Target, ImportError> {
        let path = self
            .imports
            .find(reference, place.dir())
            .ok_or_else(|| ImportError::NotFound {
                alias: alias.to_owned(),
            })?;
        if self.stack.contains(&path) {
            let chain: Vec<String> = self
                .stack
                .iter()
                .chain([&path])
                .map(|path| path.display().to_string())
                .collect();
            return Err(ImportError::Cycle {
                chain: chain.join(" -> "),
            });
        }
        if self.stack.len() >= MAX_DEPTH {
            return Err(ImportError::TooDeep);
        }
        let invalid = |reason: String| ImportError::Invalid {
            alias: alias.to_owned(),
            reason,
        };
        let form = path
            .extension()
            .and_then(|e| e.to_str())
            .and_then(Form::of_extension)
            .unwrap_or(Form::Json);
        let bytes = crate::scan::read_capped(&path).map_err(|error| invalid(error.to_string()))?;
        let raw = RawFile::read(form, &bytes).map_err(|error| invalid(error.to_string()))?;
        if raw.fields.get("disabled") == Some(&Value::Bool(true)) {
            return Err(ImportError::Disabled {
                alias: alias.to_owned(),
                path: path.display().to_string(),
            });
        }
        if raw.lambda.is_some() || !raw.fields.contains_key("template") {
            return Err(invalid("it is no command template".to_owned()));
        }
        self.files.push(path.clone());
        self.stack.push(path.clone());
        let place = Place {
            path: Some(path.clone()),
            format: place.format,
        };
        let fields = self.fields(&place, raw.fields)?;
        self.stack.pop();
        let mut defaults = map_of(&fields, "defaults");
        defaults.extend(map_of(&fields, "values"));
        Ok(Target {
            path,
            fields,
            defaults,
            values: Map::new(),
        })
    }

    /// Replaces nodes that name an import, and steps that name a recipe.
    fn template(
        &mut self,
        place: &Place,
        value: Value,
        targets: &[(String, Target)],
    ) -> Result<Value, ImportError> {
        match value {
            Value::Array(items) => {
                let mut steps = Vec::with_capacity(items.len());
                for item in items {
                    let step = match self.delegated(place, &item)? {
                        Some(target) => imported_node(&target, &Map::new(), place),
                        None => self.template(place, item, targets)?,
                    };
                    steps.push(step);
                }
                Ok(Value::Array(steps))
            }
            Value::Object(mut node) => {
                if let (None, Some(Value::String(alias))) = (node.get("template"), node.get("name")) {
                    let target = targets.iter().find(|(known, _)| known == alias);
                    let (_, target) = target.ok_or_else(|| ImportError::Unknown { alias: alias.clone() })?;
                    node.remove("name");
                    return Ok(imported_node(target, &node, place));
                }
                for field in ["template", "recover"] {
                    let Some(inner) = node.remove(field) else { continue };
                    let inner = match self.delegated(place, &inner)? {
                        Some(target) => imported_node(&target, &Map::new(), place),
                        None => self.template(place, inner, targets)?,
                    };
                    node.insert(field.to_owned(), inner);
                }
                Ok(Value::Object(node))
            }
            other => Ok(other),
        }
    }

    /// Returns the recipe that a command line of one word stands for.
    fn delegated(&mut self, place: &Place, value: &Value) -> Result<Option<Target>, ImportError> {
        let Some(text) = value
            .as_str()
            .map(str::trim)
            .filter(|text| !text.contains(char::is_whitespace))
        else {
            return Ok(None);
        };
        if let Some(reference) = text.strip_prefix("recipe:") {
            return self.load(place, reference, reference).map(Some);
        }
        let extension = Path::new(text)
            .extension()
            .and_then(|e| e.to_str())
            .and_then(Form::of_extension);
        if extension.is_some() && text.contains('/') {
            return self.load(place, text, text).map(Some);
        }
        let shared = place.format == RootFormat::PiActors;
        if shared && !text.is_empty() && self.imports.find(text, place.dir()).is_some() {
            self.notes.push(Note::info(format!(
                "The one-word template {text} runs the recipe of that name, as shared roots do."
            )));
            return self.load(place, text, text).map(Some);
        }
        Ok(None)
    }
}

/// Returns the node of an imported recipe: its template with all defaults, and the fields of the importing node over it.
fn imported_node(target: &Target, node: &Map<String, Value>, place: &Place) -> Value {
    let mut fields = target.fields.clone();
    fields.remove("values");
    let mut defaults = target.defaults.clone();
    defaults.extend(target.values.clone());
    defaults.extend(map_of(node, "defaults"));
    defaults.extend(map_of(node, "values"));
    let dir = target.path.parent();
    if dir != place.dir()
        && let Some(dir) = dir
    {
        let dir = Value::String(dir.to_string_lossy().into_owned());
        defaults.entry(pentad_template::RECIPE_DIR).or_insert(dir);
    }
    fields.remove("defaults");
    let mut imported = match fold(&fields) {
        Value::Object(imported) => imported,
        other => return other,
    };
    if !defaults.is_empty() {
        let own = map_of(&imported, "defaults");
        defaults.extend(own);
        imported.insert("defaults".to_owned(), Value::Object(defaults));
    }
    let mut over = node.clone();
    over.remove("defaults");
    over.remove("values");
    overlay(&mut imported, &over);
    Value::Object(imported)
}

/// Adds the environment variables that an imported recipe declares: its commands still need them.
fn add_env(fields: &mut Map<String, Value>, imported: &Map<String, Value>) {
    let Some(Value::Array(more)) = imported.get("env") else {
        return;
    };
    let env = fields.entry("env").or_insert_with(|| Value::Array(Vec::new()));
    if let Value::Array(names) = env {
        for name in more {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
    }
}

/// Lets a recipe that is another recipe by name inherit what it does not say itself.
fn inherit_whole(
    fields: &mut Map<String, Value>,
    target: &Target,
    mut node: Map<String, Value>,
    place: &Place,
) {
    for name in [
        "description",
        "async",
        "args",
        "artifacts",
        "mailbox",
        "retire_when",
        "env",
        "hints",
        "returns",
    ] {
        if let (None, Some(value)) = (fields.get(name), target.fields.get(name)) {
            fields.insert(name.to_owned(), value.clone());
        }
    }
    let mut own = map_of(fields, "defaults");
    own.extend(map_of(&node, "defaults"));
    let mut defaults = map_of(&target.fields, "defaults");
    defaults.extend(own.clone());
    if !defaults.is_empty() {
        fields.insert("defaults".to_owned(), Value::Object(defaults));
    }
    node.remove("template");
    node.insert("defaults".to_owned(), Value::Object(own));
    fields.insert("template".to_owned(), imported_node(target, &node, place));
}
