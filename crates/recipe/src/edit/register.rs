//! Registers a tool from its parts.

use pentad_model::{Refusal, RefusalKind};
use pentad_program::Authored;
use pentad_template::{Template, read_declarations};
use serde_json::{Map, Value, json};

use super::{Author, Present, check_name, markdown, refuse};
use crate::file::{Form, RawFile};
use crate::name::normalize;
use crate::recipe::derive_description;

/// Asks to make or change a tool; what is not named stays as it is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Registration {
    /// Is the name; it is normalized.
    pub name: String,
    /// Says what the tool does.
    pub description: Option<String>,
    /// Is what it runs; null or a blank text deletes the tool.
    pub template: Option<Value>,
    /// Are declarations, separated by commas.
    pub args: Option<String>,
    /// Are defaults.
    pub defaults: Option<Map<String, Value>>,
    /// Asks for a detached run.
    pub detached: Option<bool>,
    /// Allows to change a tool that exists.
    pub update: bool,
    /// Validates everything and changes nothing.
    pub dry_run: bool,
}

impl Author {
    /// Makes, changes or deletes a tool.
    pub fn register(&self, registration: &Registration) -> Result<Authored, Refusal> {
        let name = normalize(&registration.name);
        if name.is_empty() {
            return Err(refuse(
                RefusalKind::BadRequest,
                &registration.name,
                "Invalid tool name.",
            ));
        }
        check_name(&name)?;
        if deletes(registration.template.as_ref()) {
            return self.delete(&name, registration.dry_run);
        }
        let lock = self.lock(&name)?;
        let present = self.present(&name)?;
        if !present.is_empty() && !registration.update {
            let message = format!("Tool \"{name}\" already registered. Use update=true to overwrite.");
            return Err(refuse(RefusalKind::Conflict, &name, message));
        }
        let changes = changes(&name, registration, present.is_empty())?;
        let (form, text) = match present.first() {
            None => (Form::Json, new_text(&changes)),
            Some(file) => (file.form, changed_text(&name, file, changes)?),
        };
        self.put(
            &lock,
            &name,
            form,
            text.as_bytes(),
            &present,
            registration.dry_run,
        )
    }

    /// Makes a tool from a command line; a missing description is derived, and the answer says so.
    pub fn register_shorthand(
        &self,
        name: &str,
        command: &str,
        description: Option<&str>,
        update: bool,
    ) -> Result<Authored, Refusal> {
        let parsed = Template::command(command);
        let Some(template) = parsed.template else {
            let reason = parsed
                .diagnostics
                .first()
                .map_or("it is empty", |d| d.message.as_str());
            return Err(refuse(
                RefusalKind::Invalid,
                name,
                format!("The command line cannot be used: {reason}"),
            ));
        };
        let given = description.map(str::trim).filter(|text| !text.is_empty());
        let description = given.map_or_else(|| derive_description(&template), str::to_owned);
        let mut authored = self.register(&Registration {
            name: name.to_owned(),
            description: Some(description.clone()),
            template: Some(json!(command)),
            update,
            ..Registration::default()
        })?;
        if given.is_none() {
            authored.message.push_str(&format!(
                " The description was derived: \"{description}\" Give one that says what it is for."
            ));
        }
        Ok(authored)
    }
}

fn deletes(template: Option<&Value>) -> bool {
    match template {
        Some(Value::Null) => true,
        Some(Value::String(text)) => text.trim().is_empty(),
        _ => false,
    }
}

/// Returns the fields that a registration sets, in the order of a new file.
fn changes(name: &str, registration: &Registration, new: bool) -> Result<Map<String, Value>, Refusal> {
    let invalid = |message: String| refuse(RefusalKind::Invalid, name, message);
    let mut fields = Map::new();
    match registration.description.as_deref().map(str::trim) {
        Some("") => {
            return Err(invalid(
                "Tool description is required unless deleting.".to_owned(),
            ));
        }
        Some(description) => drop(fields.insert("description".to_owned(), json!(description))),
        None if new => {
            return Err(invalid(
                "Tool description is required unless deleting.".to_owned(),
            ));
        }
        None => {}
    }
    if let Some(detached) = registration.detached {
        fields.insert("async".to_owned(), json!(detached));
    }
    let mut defaults = Map::new();
    if let Some(args) = &registration.args {
        let declarations = read_declarations(args).map_err(|error| invalid(error.to_string()))?;
        let texts: Vec<String> = declarations
            .iter()
            .map(pentad_template::Declaration::text)
            .collect();
        fields.insert("args".to_owned(), json!(texts));
        defaults.extend(
            declarations
                .into_iter()
                .filter_map(|d| Some((d.name, Value::String(d.default?)))),
        );
    }
    defaults.extend(registration.defaults.clone().unwrap_or_default());
    if !defaults.is_empty() || registration.defaults.is_some() {
        fields.insert("defaults".to_owned(), Value::Object(defaults));
    }
    match &registration.template {
        Some(Value::Array(steps)) if steps.is_empty() => {
            return Err(invalid("Tool template sequence is empty.".to_owned()));
        }
        Some(template @ (Value::String(_) | Value::Array(_) | Value::Object(_))) => {
            fields.insert("template".to_owned(), template.clone());
        }
        Some(_) => {
            return Err(invalid(
                "Tool template must be a string, object, or sequence.".to_owned(),
            ));
        }
        None if new => {
            return Err(invalid(
                "Tool template is required for new registrations.".to_owned(),
            ));
        }
        None => {}
    }
    Ok(fields)
}

fn new_text(fields: &Map<String, Value>) -> String {
    let mut text = serde_json::to_string_pretty(fields).unwrap_or_default();
    text.push('\n');
    text
}

fn changed_text(name: &str, file: &Present, changes: Map<String, Value>) -> Result<String, Refusal> {
    let broken = |reason: String| {
        let message = format!("Tool \"{name}\" cannot be updated in place: {reason}.");
        refuse(RefusalKind::Conflict, name, message)
            .next_step(format!("Write the whole file at ~/tools/{name}."))
    };
    match file.form {
        Form::Json => {
            let mut fields = RawFile::read(Form::Json, &file.bytes)
                .map_err(|error| broken(error.to_string()))?
                .fields;
            fields.extend(changes);
            Ok(new_text(&fields))
        }
        Form::Markdown => {
            let text = std::str::from_utf8(&file.bytes).map_err(|error| broken(error.to_string()))?;
            markdown::set_fields(text, &changes).map_err(broken)
        }
    }
}
