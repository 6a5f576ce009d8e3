//! The fields of a recipe: their types, and what an unknown or wrongly typed one means.

use std::collections::BTreeMap;

use pentad_model::tool::Hints;
use pentad_template::{RECIPE_DIR, node_fields};
use serde_json::{Map, Value};

use crate::note::Note;
use crate::root::RootFormat;

/// Holds the fields of a recipe that are not part of its template.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Fields {
    /// Is a title for people.
    pub title: Option<String>,
    /// Says what the tool does.
    pub description: Option<String>,
    /// Blocks calls; the name stays taken.
    pub disabled: bool,
    /// Asks to run detached.
    pub detached: bool,
    /// Are files that a run makes: name and path template.
    pub artifacts: BTreeMap<String, String>,
    /// Are names of environment variables that the commands need.
    pub env: Vec<String>,
    /// Lets processes outlive the command.
    pub leaves_processes: bool,
    /// Are hints that the author gives.
    pub hints: Hints,
    /// Is the JSON Schema of the input, when the author writes one.
    pub input: Option<Value>,
    /// Is the JSON Schema of the result.
    pub returns: Option<Value>,
    /// Names the language of `source`.
    pub runtime: Option<String>,
    /// Is authored code.
    pub source: Option<String>,
}

/// Are standard fields that shape reviews, mailboxes and supervision elsewhere and do nothing here.
const WITHOUT_EFFECT: [(&str, Kind); 7] = [
    ("mailbox", Kind::Mapping),
    ("retire_when", Kind::Text),
    ("actor_context", Kind::Any),
    ("usage", Kind::Mapping),
    ("control", Kind::List),
    ("singleton", Kind::Truth),
    ("name", Kind::Text),
];

/// Are fields that only our own roots know.
const OURS: [&str; 8] = [
    "title",
    "env",
    "leaves_processes",
    "hints",
    "input",
    "returns",
    "runtime",
    "source",
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Truth,
    List,
    Mapping,
    Any,
}

impl Kind {
    fn fits(self, value: &Value) -> bool {
        match self {
            Self::Text => value.is_string(),
            Self::Truth => value.is_boolean(),
            Self::List => value.is_array(),
            Self::Mapping => value.is_object(),
            Self::Any => true,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Text => "a text",
            Self::Truth => "true or false",
            Self::List => "a list",
            Self::Mapping => "a mapping",
            Self::Any => "a value",
        }
    }
}

impl Fields {
    /// Reads the fields; what is unknown or wrongly typed becomes a note.
    pub(crate) fn read(raw: &Map<String, Value>, format: RootFormat, notes: &mut Vec<Note>) -> Self {
        let mut fields = Self::default();
        for (name, value) in raw {
            if format == RootFormat::PiActors && OURS.contains(&name.as_str()) {
                notes.push(Note::warning(format!(
                    "{name} is no field of the shared recipe standard."
                )));
            }
            fields.field(name, value, notes);
        }
        for place in ["defaults", "values"] {
            if raw
                .get(place)
                .and_then(Value::as_object)
                .is_some_and(|map| map.contains_key(RECIPE_DIR))
            {
                notes.push(Note::error(format!(
                    "{place}.{RECIPE_DIR} cannot be set: it is the recipe's own directory."
                )));
            }
        }
        fields
    }

    fn field(&mut self, name: &str, value: &Value, notes: &mut Vec<Note>) {
        let mut expect = |kind: Kind| {
            let fits = kind.fits(value);
            if !fits {
                notes.push(Note::warning(format!(
                    "{name} must be {}; it has no effect as it is.",
                    kind.words()
                )));
            }
            fits
        };
        let text = || value.as_str().map(|text| text.trim().to_owned());
        match name {
            "title" if expect(Kind::Text) => self.title = text(),
            "description" if expect(Kind::Text) => self.description = text().filter(|text| !text.is_empty()),
            "runtime" if expect(Kind::Text) => self.runtime = text(),
            "source" if expect(Kind::Text) => self.source = value.as_str().map(str::to_owned),
            "disabled" if expect(Kind::Truth) => self.disabled = value == &Value::Bool(true),
            "leaves_processes" if expect(Kind::Truth) => self.leaves_processes = value == &Value::Bool(true),
            "async" if expect(Kind::Truth) => self.detached = value == &Value::Bool(true),
            "input" if expect(Kind::Mapping) => self.input = Some(value.clone()),
            "returns" if expect(Kind::Mapping) => self.returns = Some(value.clone()),
            "artifacts" if expect(Kind::Mapping) => self.artifacts(value, notes),
            "env" => self.env(value, notes),
            "hints" if expect(Kind::Mapping) => self.hints(value, notes),
            "imports" | "values" => drop(expect(Kind::Mapping)),
            "title" | "description" | "runtime" | "source" | "disabled" | "leaves_processes" | "async"
            | "input" | "returns" | "artifacts" | "hints" => {}
            _ if node_fields().contains(&name) => {}
            _ => match WITHOUT_EFFECT.iter().find(|(known, _)| *known == name) {
                Some((_, kind)) if expect(*kind) && name != "usage" => {
                    notes.push(Note::info(format!("{name} is kept, but has no effect here.")));
                }
                Some(_) => {}
                None => notes.push(Note::warning(format!("Unknown field {name} has no effect."))),
            },
        }
    }

    fn artifacts(&mut self, value: &Value, notes: &mut Vec<Note>) {
        for (name, value) in value.as_object().into_iter().flatten() {
            let path = value
                .as_str()
                .or_else(|| value.get("path").and_then(Value::as_str));
            match path {
                Some(path) => drop(self.artifacts.insert(name.clone(), path.to_owned())),
                None => notes.push(Note::warning(format!(
                    "artifacts.{name} must be a path, or have a path."
                ))),
            }
        }
    }

    fn env(&mut self, value: &Value, notes: &mut Vec<Note>) {
        let names: Vec<&str> = match value {
            Value::String(text) => text
                .split(',')
                .map(str::trim)
                .filter(|name| !name.is_empty())
                .collect(),
            Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let legal = |name: &&str| {
            !name.is_empty()
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
                && !name.starts_with(|c: char| c.is_ascii_digit())
        };
        let expected = value.as_array().map_or(names.len(), Vec::len);
        if names.is_empty() || names.len() != expected || !names.iter().all(legal) {
            notes.push(Note::error(
                "env must be a list of names of environment variables, never of values.",
            ));
        }
        self.env = names
            .into_iter()
            .filter(|name| legal(name))
            .map(str::to_owned)
            .collect();
    }

    fn hints(&mut self, value: &Value, notes: &mut Vec<Note>) {
        for (name, value) in value.as_object().into_iter().flatten() {
            let slot = match name.as_str() {
                "read_only" => &mut self.hints.read_only,
                "destructive" => &mut self.hints.destructive,
                "idempotent" => &mut self.hints.idempotent,
                "open_world" => &mut self.hints.open_world,
                _ => {
                    notes.push(Note::warning(format!(
                        "Unknown hint {name}; hints are read_only, destructive, idempotent, open_world."
                    )));
                    continue;
                }
            };
            *slot = value.as_bool();
            if slot.is_none() {
                notes.push(Note::warning(format!("hints.{name} must be true or false.")));
            }
        }
    }
}

/// Makes one template node of a recipe: its fields around its template; a template object's own fields win.
pub(crate) fn fold(raw: &Map<String, Value>) -> Value {
    let mut node = Map::new();
    for field in node_fields() {
        if let Some(value) = raw.get(*field).filter(|_| *field != "template") {
            node.insert((*field).to_owned(), value.clone());
        }
    }
    // `output` as a mapping would be a schema, which is spelled `returns`.
    let mut defaults = raw
        .get("defaults")
        .cloned()
        .unwrap_or_else(|| Value::Object(Map::new()));
    if let (Some(defaults), Some(Value::Object(values))) = (defaults.as_object_mut(), raw.get("values")) {
        defaults.extend(values.clone());
    }
    if defaults != Value::Object(Map::new()) {
        node.insert("defaults".to_owned(), defaults);
    }
    match raw.get("template") {
        Some(Value::Object(own)) if own.contains_key("template") => overlay(&mut node, own),
        Some(body) => drop(node.insert("template".to_owned(), body.clone())),
        None => {}
    }
    Value::Object(node)
}

/// Lays fields over a node; defaults are merged.
pub(crate) fn overlay(node: &mut Map<String, Value>, over: &Map<String, Value>) {
    for (name, value) in over {
        match (node.get_mut(name).and_then(Value::as_object_mut), value) {
            (Some(defaults), Value::Object(more)) if name == "defaults" => defaults.extend(more.clone()),
            _ => drop(node.insert(name.clone(), value.clone())),
        }
    }
}
