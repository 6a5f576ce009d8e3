//! The public arguments of a template, their JSON Schema, and what to say when a call does not fit.

use serde_json::{Map, Value, json};

use crate::args::{ArgType, ArgumentError, normalize_values};
use crate::control::{Control, When, is_repeat_name};
use crate::placeholder::{Pattern, Slot};
use crate::site::RECIPE_DIR;
use crate::tree::{Node, Output, Template};
use crate::value::Values;

/// Is one argument that a caller can give.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// Is its name.
    pub name: String,
    /// Is its type.
    pub kind: ArgType,
    /// Is the value that is used when the caller gives none.
    pub default: Option<Value>,
    /// Tells that a call without it fails.
    pub required: bool,
    /// Tells that the template declares it, rather than only using it.
    pub declared: bool,
}

/// Holds the arguments of a template.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Interface {
    /// Are the arguments: declared ones first, then in order of appearance.
    pub parameters: Vec<Parameter>,
}

/// Says why a call was refused, with a sample of a call that fits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct UsageError {
    /// Is the argument that was wrong, if one was.
    pub argument: Option<String>,
    /// Says what is wrong and shows a sample call.
    pub text: String,
}

impl Interface {
    /// Derives the arguments of a template.
    pub fn derive(template: &Template) -> Self {
        let mut survey = Survey::default();
        survey.declare(template);
        survey.template(template, &Known::default());
        let mut parameters = survey.parameters;
        for found in &mut parameters {
            let kind = found.declared_type.clone().or_else(|| found.used_type.clone());
            found.parameter.kind = match (kind, found.as_flag, found.as_text) {
                (Some(kind), _, _) => kind,
                (None, true, false) => ArgType::Bool,
                (None, _, _) => ArgType::String,
            };
            found.parameter.default = found
                .default_text
                .as_deref()
                .map(|text| found.parameter.kind.default_value(text));
        }
        Self {
            parameters: parameters.into_iter().map(|found| found.parameter).collect(),
        }
    }

    /// Returns the argument of a name.
    pub fn parameter(&self, name: &str) -> Option<&Parameter> {
        self.parameters.iter().find(|parameter| parameter.name == name)
    }

    /// Returns the JSON Schema of a call's input.
    pub fn input_schema(&self) -> Value {
        let mut properties = Map::new();
        for parameter in &self.parameters {
            let mut schema = parameter.kind.schema();
            if let (Some(fields), Some(default)) = (schema.as_object_mut(), &parameter.default) {
                fields.insert("default".to_owned(), default.clone());
            }
            properties.insert(parameter.name.clone(), schema);
        }
        let required: Vec<&str> = self
            .parameters
            .iter()
            .filter(|p| p.required)
            .map(|p| p.name.as_str())
            .collect();
        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
    }

    /// Checks and normalizes the input of a call.
    pub fn accept(&self, tool: &str, input: &Value) -> Result<Values, UsageError> {
        let empty = Values::new();
        let values = match input {
            Value::Object(values) => values,
            Value::Null => &empty,
            _ => return Err(self.usage(tool, None, "The input must be a JSON object.")),
        };
        if let Some(unknown) = values.keys().find(|name| self.parameter(name).is_none()) {
            let message = format!("Unknown argument {unknown}.");
            return Err(self.usage(tool, Some(unknown), &message));
        }
        if let Some(missing) = self
            .parameters
            .iter()
            .find(|p| p.required && !values.contains_key(&p.name))
        {
            let message = format!("Missing argument {}.", missing.name);
            return Err(self.usage(tool, Some(&missing.name), &message));
        }
        normalize_values(values, |name| {
            self.parameter(name).map(|parameter| &parameter.kind)
        })
        .map_err(|error| {
            let argument = match &error {
                ArgumentError::Type { name, .. }
                | ArgumentError::Default { name, .. }
                | ArgumentError::Duplicate { name } => name.clone(),
            };
            self.usage(tool, Some(&argument), &error.to_string())
        })
    }

    /// Returns a refusal with a sample call.
    pub fn usage(&self, tool: &str, argument: Option<&str>, message: &str) -> UsageError {
        let sample: Map<String, Value> = self
            .parameters
            .iter()
            .map(|parameter| (parameter.name.clone(), parameter.sample()))
            .collect();
        let sample = serde_json::to_string_pretty(&sample).unwrap_or_default();
        let names = |required: bool| {
            let names: Vec<&str> = self
                .parameters
                .iter()
                .filter(|p| p.required == required)
                .map(|p| p.name.as_str())
                .collect();
            if names.is_empty() {
                "none".to_owned()
            } else {
                names.join(", ")
            }
        };
        let text = format!(
            "Invalid arguments for tool \"{tool}\": {message}\n\nExpected call shape for {tool}:\n{sample}\nRequired: {}\nOptional: {}",
            names(true),
            names(false)
        );
        UsageError {
            argument: argument.map(str::to_owned),
            text,
        }
    }
}

impl Parameter {
    fn sample(&self) -> Value {
        if let Some(default) = &self.default {
            return default.clone();
        }
        let name = &self.name;
        match &self.kind {
            ArgType::String => json!(format!("<{name}>")),
            ArgType::Path => json!(format!("./{name}")),
            ArgType::Int => json!(1),
            ArgType::Number => json!(1.5),
            ArgType::Bool => json!(true),
            ArgType::Array => json!([format!("<{name}>")]),
            ArgType::Enum(values) => json!(values.first()),
        }
    }
}

/// Holds the defaults that are known at a place of the tree.
#[derive(Debug, Clone, Default)]
struct Known {
    defaults: Values,
    declared: Values,
}

impl Known {
    fn enter(&self, node: &Node) -> Self {
        let mut inner = self.clone();
        if let Some(args) = &node.args {
            let with_default = args
                .iter()
                .filter_map(|a| Some((a.name.clone(), Value::String(a.default.clone()?))));
            inner.declared = with_default.collect();
        }
        inner.defaults.extend(
            node.defaults
                .iter()
                .map(|(name, value)| (name.clone(), value.clone())),
        );
        inner
    }

    fn default_of(&self, name: &str) -> Option<String> {
        let value = self.defaults.get(name).or_else(|| self.declared.get(name))?;
        Some(crate::value::placeholder_text(value).into_owned())
    }
}

#[derive(Debug)]
struct Found {
    parameter: Parameter,
    declared_type: Option<ArgType>,
    used_type: Option<ArgType>,
    as_flag: bool,
    as_text: bool,
    default_text: Option<String>,
}

#[derive(Debug, Default)]
struct Survey {
    parameters: Vec<Found>,
}

impl Survey {
    fn found(&mut self, name: &str) -> Option<&mut Found> {
        if name == RECIPE_DIR || is_repeat_name(name) {
            return None;
        }
        let at = self
            .parameters
            .iter()
            .position(|found| found.parameter.name == name)
            .unwrap_or_else(|| {
                self.parameters.push(Found {
                    parameter: Parameter {
                        name: name.to_owned(),
                        kind: ArgType::String,
                        default: None,
                        required: false,
                        declared: false,
                    },
                    declared_type: None,
                    used_type: None,
                    as_flag: false,
                    as_text: false,
                    default_text: None,
                });
                self.parameters.len() - 1
            });
        self.parameters.get_mut(at)
    }

    fn declare(&mut self, template: &Template) {
        match template {
            Template::Command(_) => {}
            Template::Sequence(steps) => steps.iter().for_each(|step| self.declare(step)),
            Template::Node(node) => {
                for argument in node.args.iter().flatten() {
                    if let Some(found) = self.found(&argument.name) {
                        found.parameter.declared = true;
                        found.declared_type.get_or_insert_with(|| argument.kind.clone());
                        if found.default_text.is_none() {
                            found.default_text.clone_from(&argument.default);
                        }
                    }
                }
                self.declare(&node.body);
                node.recover.iter().for_each(|recover| self.declare(recover));
            }
        }
    }

    fn template(&mut self, template: &Template, known: &Known) {
        match template {
            Template::Command(line) => line
                .words
                .iter()
                .for_each(|word| self.pattern(&word.pattern, known)),
            Template::Sequence(steps) => steps.iter().for_each(|step| self.template(step, known)),
            Template::Node(node) => self.node(node, &known.enter(node)),
        }
    }

    fn node(&mut self, node: &Node, known: &Known) {
        self.template(&node.body, known);
        node.recover
            .iter()
            .for_each(|recover| self.template(recover, known));
        let controls = [
            &node.timeout,
            &node.delay,
            &node.retry,
            &node.concurrency,
            &node.min_successful,
        ];
        for pattern in controls.into_iter().flatten().filter_map(Control::pattern) {
            self.pattern(pattern, known);
        }
        if let Output::Text(pattern) = &node.output {
            self.pattern(pattern, known);
        }
        match &node.when {
            Some(When::Condition(condition)) => {
                if let Some(name) = condition.name() {
                    self.flag(name);
                }
            }
            // A condition that cannot be filled in is false, so nothing in it is required.
            Some(When::Placeholder(pattern)) => {
                for placeholder in pattern.placeholders() {
                    match &placeholder.slot {
                        Slot::Simple { name, .. } | Slot::Nullish { name, .. } => {
                            if let Some(found) = self.found(name) {
                                found.as_text = true;
                            }
                        }
                        _ => self.slot(&placeholder.slot, known),
                    }
                }
            }
            Some(When::Fixed(_)) | None => {}
        }
    }

    fn pattern(&mut self, pattern: &Pattern, known: &Known) {
        pattern
            .placeholders()
            .for_each(|placeholder| self.slot(&placeholder.slot, known));
    }

    fn flag(&mut self, name: &str) {
        if let Some(found) = self.found(name) {
            found.as_flag = true;
        }
    }

    fn slot(&mut self, slot: &Slot, known: &Known) {
        match slot {
            Slot::Ternary { condition, .. } => {
                if let Some(name) = condition.name() {
                    self.flag(name);
                }
            }
            Slot::Nullish { name, fallback } => {
                if let Some(found) = self.found(name) {
                    found.as_text = true;
                    let default = known.default_of(name).unwrap_or_else(|| fallback.clone());
                    found.default_text.get_or_insert(default);
                }
            }
            Slot::Simple {
                name,
                declared,
                default,
                ..
            } => {
                let Some(found) = self.found(name) else { return };
                found.as_text = true;
                if found.used_type.is_none() {
                    found.used_type.clone_from(declared);
                }
                match known.default_of(name).or_else(|| default.clone()) {
                    Some(default) => {
                        found.default_text.get_or_insert(default);
                    }
                    None => found.parameter.required = true,
                }
            }
            Slot::Index { .. } | Slot::Arithmetic(_) | Slot::Unknown => {}
        }
    }
}
