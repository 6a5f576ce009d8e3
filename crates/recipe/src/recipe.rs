//! One tool file, understood.

use std::path::{Path, PathBuf};

use pentad_model::text::first_sentence;
use pentad_model::tool::{MAX_SUMMARY_BYTES, ToolDocument, ToolKind, ToolRef};
use pentad_model::{Refusal, RefusalKind};
use pentad_program::Severity;
use pentad_template::{Explained, Interface, Site, Template, Values, explain};
use serde_json::{Map, Value, json};

use crate::fields::{Fields, fold};
use crate::file::{FileError, Form, Lambda, RawFile};
use crate::imports::{Imports, Resolved};
use crate::note::Note;
use crate::root::RootFormat;

/// Says where a tool file stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Is the file; a packaged tool has none.
    pub path: Option<PathBuf>,
    /// Says which rules its root follows.
    pub format: RootFormat,
}

impl Place {
    /// Returns the directory that `{recipe_dir}` stands for.
    pub fn dir(&self) -> Option<&Path> {
        self.path.as_deref().and_then(Path::parent)
    }
}

/// Is what a tool file runs.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// A command template.
    Template {
        /// Is the template, read.
        template: Template,
        /// Is the template as JSON, imports resolved.
        document: Value,
    },
    /// Authored source code.
    Lambda(Lambda),
}

/// Holds a tool file that can be offered.
#[derive(Debug, Clone, PartialEq)]
pub struct Recipe {
    /// Is its name: the file's stem.
    pub name: String,
    /// Says where it stands.
    pub place: Place,
    /// Says how it is written.
    pub form: Form,
    /// Are its fields.
    pub fields: Fields,
    /// Says what it does; derived if the author did not.
    pub description: String,
    /// Tells that the description was derived.
    pub description_derived: bool,
    /// Is what it runs.
    pub body: Body,
    /// Are its arguments.
    pub interface: Interface,
    /// Are other files it was made of.
    pub depends_on: Vec<PathBuf>,
    /// Are remarks.
    pub notes: Vec<Note>,
}

/// Says why a tool file cannot be offered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .notes.iter().filter(|n| n.severity == Severity::Error).map(|n| n.message.as_str()).collect::<Vec<_>>().join(" "))]
pub struct InvalidRecipe {
    /// Are all remarks; at least one is an error.
    pub notes: Vec<Note>,
}

impl From<FileError> for InvalidRecipe {
    fn from(error: FileError) -> Self {
        Self {
            notes: vec![Note::error(error.to_string())],
        }
    }
}

impl Recipe {
    /// Reads a tool file.
    pub fn read(
        name: &str,
        place: Place,
        form: Form,
        bytes: &[u8],
        imports: &Imports,
    ) -> Result<Self, InvalidRecipe> {
        let raw = RawFile::read(form, bytes)?;
        Self::build(name, place, form, raw, imports)
    }

    fn build(
        name: &str,
        place: Place,
        form: Form,
        raw: RawFile,
        imports: &Imports,
    ) -> Result<Self, InvalidRecipe> {
        let mut notes = raw.notes;
        let resolved = match imports.resolve(&place, raw.fields) {
            Ok(resolved) => resolved,
            Err(error) => {
                notes.push(Note::error(error.to_string()));
                return Err(InvalidRecipe { notes });
            }
        };
        let Resolved {
            fields: resolved,
            files: depends_on,
            notes: import_notes,
        } = resolved;
        notes.extend(import_notes);
        let fields = Fields::read(&resolved, place.format, &mut notes);
        let lambda = raw.lambda.or_else(|| lambda_of(&fields, &mut notes));
        let (body, interface) = match lambda {
            Some(lambda) => (Some(Body::Lambda(lambda)), lambda_interface(&resolved)),
            None => match template_of(&resolved, &mut notes) {
                Some((template, document)) => {
                    let interface = Interface::derive(&template);
                    (Some(Body::Template { template, document }), interface)
                }
                None => (None, Interface::default()),
            },
        };
        let broken = notes.iter().any(|note| note.severity == Severity::Error);
        let Some(body) = body.filter(|_| !broken) else {
            return Err(InvalidRecipe { notes });
        };
        let (description, description_derived) = describe(&fields, &raw.prose, &body);
        if description_derived && !fields.disabled {
            notes.push(Note::info(
                "There is no description; one was derived from what it runs.",
            ));
        }
        if fields.detached {
            notes.push(Note::info(
                "async asks for a detached run: delegate it; a call waits for its end.",
            ));
        }
        let name = name.to_owned();
        Ok(Self {
            name,
            place,
            form,
            fields,
            description,
            description_derived,
            body,
            interface,
            depends_on,
            notes,
        })
    }

    /// Returns the JSON Schema of a call's input.
    pub fn input_schema(&self) -> Value {
        match (&self.body, &self.fields.input) {
            (Body::Lambda(_), Some(schema)) => schema.clone(),
            _ => self.interface.input_schema(),
        }
    }

    /// Lists the commands that a call with this input would run, without running them.
    pub fn explain(&self, input: &Value, site: &Site) -> Result<Vec<Explained>, Refusal> {
        let Body::Template { template, .. } = &self.body else {
            let message = format!(
                "Tool \"{}\" is authored code: there is no command to show.",
                self.name
            );
            return Err(Refusal::new(RefusalKind::NotSupported, &self.name, message));
        };
        let values = self.accept(input)?;
        let site = Site {
            recipe_dir: self.place.dir().map(Path::to_owned),
            ..site.clone()
        };
        Ok(explain(template, &values, &site))
    }

    /// Checks and normalizes the input of a call; a refusal shows a call that fits.
    pub fn accept(&self, input: &Value) -> Result<Values, Refusal> {
        self.interface.accept(&self.name, input).map_err(|usage| {
            Refusal::new(
                RefusalKind::Invalid,
                usage.argument.unwrap_or_default(),
                usage.text,
            )
        })
    }

    /// Returns the document of this tool in a source.
    pub fn document(&self, source: &str) -> ToolDocument {
        let (kind, body) = match &self.body {
            Body::Template { document, .. } => (ToolKind::Recipe, self.template_body(document)),
            Body::Lambda(lambda) => (
                ToolKind::Lambda,
                json!({"runtime": lambda.runtime, "source": lambda.source}),
            ),
        };
        ToolDocument {
            tool: ToolRef::new(source, &self.name),
            kind,
            title: self.fields.title.clone(),
            summary: first_sentence(&self.description, MAX_SUMMARY_BYTES),
            description: self.description.clone(),
            input: self.input_schema(),
            output: self.fields.returns.clone(),
            body: Some(body),
            declared: self.fields.hints,
            trusted: pentad_model::tool::Hints::default(),
        }
    }

    /// Returns everything that decides what runs, so that a change of any part is a change of the document.
    fn template_body(&self, document: &Value) -> Value {
        let mut body = Map::new();
        body.insert("template".to_owned(), document.clone());
        if !self.fields.env.is_empty() {
            body.insert("env".to_owned(), json!(self.fields.env));
        }
        if self.fields.leaves_processes {
            body.insert("leavesProcesses".to_owned(), json!(true));
        }
        if !self.fields.artifacts.is_empty() {
            body.insert("artifacts".to_owned(), json!(self.fields.artifacts));
        }
        if let Some(dir) = self
            .place
            .dir()
            .filter(|_| document.to_string().contains("{recipe_dir}"))
        {
            body.insert("recipeDir".to_owned(), json!(dir.to_string_lossy()));
        }
        Value::Object(body)
    }
}

fn lambda_of(fields: &Fields, notes: &mut Vec<Note>) -> Option<Lambda> {
    match (&fields.source, &fields.runtime) {
        (Some(source), Some(runtime)) => Some(Lambda {
            runtime: runtime.clone(),
            source: source.clone(),
        }),
        (Some(_), None) => {
            notes.push(Note::error("source needs a runtime, such as js or python."));
            None
        }
        (None, _) => None,
    }
}

/// Derives the arguments of a lambda from its declarations.
fn lambda_interface(raw: &Map<String, Value>) -> Interface {
    let mut node = Map::new();
    for field in ["args", "defaults"] {
        if let Some(value) = raw.get(field) {
            node.insert(field.to_owned(), value.clone());
        }
    }
    node.insert("template".to_owned(), json!("lambda"));
    let parsed = Template::parse(&Value::Object(node));
    parsed
        .template
        .map(|template| Interface::derive(&template))
        .unwrap_or_default()
}

fn template_of(raw: &Map<String, Value>, notes: &mut Vec<Note>) -> Option<(Template, Value)> {
    let document = fold(raw);
    let parsed = Template::parse(&document);
    notes.extend(parsed.diagnostics.into_iter().map(Note::from));
    let template = parsed.template?;
    notes.extend(
        pentad_template::command_warnings(&template)
            .into_iter()
            .map(Note::warning),
    );
    Some((template, document))
}

fn describe(fields: &Fields, prose: &str, body: &Body) -> (String, bool) {
    if let Some(description) = &fields.description {
        return (description.clone(), false);
    }
    if !prose.is_empty() {
        return (prose.to_owned(), false);
    }
    let derived = match body {
        Body::Lambda(lambda) => format!("Runs {} code.", lambda.runtime),
        Body::Template { template, .. } => derive_description(template),
    };
    (derived, true)
}

/// Returns a description of a template whose author gave none.
pub fn derive_description(template: &Template) -> String {
    let mut lines = Vec::new();
    collect_lines(template, &mut lines);
    let shown: Vec<String> = lines
        .iter()
        .take(3)
        .map(|line| pentad_model::text::excerpt(line, 100))
        .collect();
    let more = if lines.len() > 3 {
        format!(" and {} more", lines.len() - 3)
    } else {
        String::new()
    };
    format!("Runs `{}`{more}.", shown.join("`, then `"))
}

fn collect_lines<'a>(template: &'a Template, lines: &mut Vec<&'a str>) {
    match template {
        Template::Command(line) => lines.push(line.text()),
        Template::Sequence(steps) => steps.iter().for_each(|step| collect_lines(step, lines)),
        Template::Node(node) => collect_lines(&node.body, lines),
    }
}
