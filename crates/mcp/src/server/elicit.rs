//! Forms of servers: read from the protocol, put before whoever is behind the call, checked before they go back.

use async_trait::async_trait;
use jsonschema::{Draft, Validator};
use pentad_model::text::{excerpt, visible};
use pentad_model::{Form, FormAnswer};
use pentad_program::Attendance;
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction};
use serde_json::{Map, Value};

use super::core::Core;
use super::log::{LogLine, LogStream, Origin};

/// Longest text about one misfit.
const MISFIT_BYTES: usize = 200;

/// Puts forms before a person that belong to no single call: several were in flight, and nobody knows which is meant.
/// Servers are told that they may ask only where there is one.
#[async_trait]
pub trait Elicitor: Send + Sync {
    /// Asks; bounded by the elicitor's own limit, and taken back when the future is dropped. `callers` are the runs one
    /// of which the form is about.
    async fn elicit(&self, form: &Form, callers: &[Origin]) -> FormAnswer;
}

/// One value that a form does not take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    /// The field.
    pub field: String,
    /// What is wrong with its value, which is not repeated: it may be a secret.
    pub rule: String,
}

impl std::fmt::Display for Misfit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.field, self.rule)
    }
}

/// Returns what is wrong with values for a form; nothing when they fit.
#[must_use]
pub fn misfits(form: &Form, values: &Map<String, Value>) -> Vec<Misfit> {
    let misfit = |field: &str, rule: &str| Misfit {
        field: excerpt(&visible(field), MISFIT_BYTES),
        rule: excerpt(&visible(rule), MISFIT_BYTES),
    };
    let Some(validator) = validator(form) else {
        return vec![misfit("form", "its schema cannot be used")];
    };
    let unknown = values
        .keys()
        .filter(|name| !is_field(form, name))
        .map(|name| misfit(name, "is no field of the form"));
    let missing = form
        .fields()
        .into_iter()
        .filter(|field| field.required && !values.contains_key(field.name))
        .map(|field| misfit(field.name, "must be filled in"));
    let whole = Value::Object(values.clone());
    let wrong = validator.iter_errors(&whole).filter_map(|error| {
        let path = error.instance_path().to_string();
        let field = path.split('/').nth(1)?.replace("~1", "/").replace("~0", "~");
        let keyword = error.schema_path().to_string();
        let keyword = keyword.rsplit('/').next().unwrap_or_default();
        Some(match keyword {
            "enum" | "oneOf" | "anyOf" => misfit(&field, "value is none of the choices"),
            "format" => misfit(&field, "value does not have the format that is asked for"),
            _ => misfit(&field, &error.masked().to_string()),
        })
    });
    unknown.chain(missing).chain(wrong).collect()
}

fn is_field(form: &Form, name: &str) -> bool {
    form.schema
        .get("properties")
        .is_some_and(|fields| fields.get(name).is_some())
}

fn validator(form: &Form) -> Option<Validator> {
    jsonschema::options()
        .with_draft(Draft::Draft202012)
        .should_validate_formats(true)
        .should_ignore_unknown_formats(true)
        .build(&form.schema)
        .ok()
}

/// Reads what a server asks, or says what it is answered at once.
pub fn form_of(server: &str, asked: ElicitRequestParams) -> Result<Form, FormAnswer> {
    let ElicitRequestParams::FormElicitationParams {
        message,
        requested_schema,
        ..
    } = asked
    else {
        // A page elsewhere is nothing that we can vouch for, and none was offered.
        return Err(FormAnswer::Declined);
    };
    let schema = serde_json::to_value(&requested_schema).unwrap_or_default();
    read_form(server, &message, &schema)
}

/// Reads a form whose schema is one of no revision, for example because it marks a field as a password.
pub fn raw_form_of(server: &str, asked: &Value) -> Result<Form, FormAnswer> {
    if asked.get("mode").is_some_and(|mode| mode != "form") {
        return Err(FormAnswer::Declined);
    }
    let message = asked.get("message").and_then(Value::as_str).unwrap_or_default();
    read_form(
        server,
        message,
        asked.get("requestedSchema").unwrap_or(&Value::Null),
    )
}

fn read_form(server: &str, message: &str, schema: &Value) -> Result<Form, FormAnswer> {
    let form =
        Form::new(server, message, schema).map_err(|error| FormAnswer::unanswered(error.to_string()))?;
    if validator(&form).is_none() {
        return Err(FormAnswer::unanswered("the schema of the form cannot be used"));
    }
    Ok(form)
}

/// Returns an answer as the protocol has it.
pub fn result(answer: FormAnswer) -> ElicitResult {
    match answer {
        FormAnswer::Accepted(values) => {
            ElicitResult::new(ElicitationAction::Accept).with_content(Value::Object(values))
        }
        FormAnswer::Declined => ElicitResult::new(ElicitationAction::Decline),
        FormAnswer::Unanswered { .. } => ElicitResult::new(ElicitationAction::Cancel),
    }
}

/// Puts a form before whoever is behind one call, and journals in its run that it was asked and what came of it.
pub async fn ask_one(
    core: &Core,
    form: Result<Form, FormAnswer>,
    attendance: &Attendance,
    origin: Option<&Origin>,
) -> FormAnswer {
    let form = match form {
        Ok(form) => form,
        Err(answer) => return ended(core, answer, origin).await,
    };
    let asks = format!("the server asks for a form to be filled in: {}", form.names());
    note(core, "info", asks, origin).await;
    let answer = match &attendance.asker {
        None => FormAnswer::unanswered("nobody is behind the call who could be asked"),
        Some(asker) => tokio::select! {
            answer = asker.fill(&form) => answer,
            () = attendance.cancel.cancelled() => FormAnswer::unanswered("the call ended first"),
        },
    };
    ended(core, fitting(&form, answer), origin).await
}

/// Keeps only what the form asks for, and nothing of an answer that does not fit it.
pub fn fitting(form: &Form, answer: FormAnswer) -> FormAnswer {
    let FormAnswer::Accepted(mut values) = answer else {
        return answer;
    };
    values.retain(|name, _| is_field(form, name));
    let wrong = misfits(form, &values);
    if wrong.is_empty() {
        return FormAnswer::Accepted(values);
    }
    let wrong: Vec<String> = wrong.iter().map(ToString::to_string).collect();
    FormAnswer::unanswered(format!("the answer does not fit the form: {}", wrong.join("; ")))
}

/// Journals in these runs what came of a form: names of fields, never values.
pub async fn ended(
    core: &Core,
    answer: FormAnswer,
    origins: impl IntoIterator<Item = &Origin>,
) -> FormAnswer {
    let (level, text) = match &answer {
        FormAnswer::Accepted(values) => {
            let names: Vec<&str> = values.keys().map(String::as_str).collect();
            ("info", format!("the form was filled in: {}", names.join(", ")))
        }
        FormAnswer::Declined => ("info", "the form was declined".to_owned()),
        FormAnswer::Unanswered { why } => ("warning", format!("the form was cancelled: {why}")),
    };
    note(core, level, text, origins).await;
    answer
}

async fn note(core: &Core, level: &'static str, text: String, origins: impl IntoIterator<Item = &Origin>) {
    let Some(log) = &core.runtime.log else { return };
    let origins: Vec<&Origin> = origins.into_iter().collect();
    for origin in origins {
        let line = LogLine {
            stream: LogStream::Form,
            level,
            text: core.mask().apply(text.clone()),
        };
        log.keep(&core.config.name, origin, vec![line]).await;
    }
}

#[cfg(test)]
mod tests;
