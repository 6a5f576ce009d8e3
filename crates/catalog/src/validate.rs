//! Inputs against the schemas that sources declare.
//!
//! A schema is foreign text: it is compiled without ever fetching anything, within limits, once per version of the
//! tool. One that cannot be compiled accepts any object; the tool itself judges then, and a diagnostic says so.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use jsonschema::{Draft, PatternOptions, Retrieve, Uri, Validator};
use pentad_model::canonical::dag_cbor_cid;
use pentad_model::text::{excerpt, visible};
use pentad_model::tool::ToolDocument;
use pentad_program::{Diagnostic, Severity};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::catalog::Catalog;

/// Most errors that one validation returns.
pub const MAX_ERRORS: usize = 20;
/// Longest message of one error in bytes.
const MAX_MESSAGE_BYTES: usize = 300;
/// Longest path of one error in bytes.
const MAX_PATH_BYTES: usize = 200;
/// Largest schema that is compiled, in bytes of JSON.
const MAX_SCHEMA_BYTES: usize = 512 * 1024;
/// Compiled schemas that are kept.
const MAX_KEPT: usize = 512;
/// Steps that one pattern may take on one value before it counts as not matching.
const BACKTRACK_LIMIT: usize = 100_000;

/// Returns the refusal of an input that does not fit a tool's contract.
#[must_use]
pub fn unfit(tool: &pentad_model::ToolRef, errors: &[ValidationError]) -> pentad_model::Refusal {
    let list: Vec<String> = errors.iter().map(|error| format!("- {error}")).collect();
    let message = format!(
        "The input does not fit the contract of {tool}:\n{}",
        list.join("\n")
    );
    pentad_model::Refusal::new(pentad_model::RefusalKind::Invalid, tool.to_string(), message)
        .next_step(format!("read {} shows the contract", tool.address()))
}

/// One thing that is wrong with an input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValidationError {
    /// Where, as a JSON pointer; empty for the whole input.
    pub path: String,
    /// What is wrong.
    pub message: String,
}

impl std::fmt::Display for ValidationError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = if self.path.is_empty() {
            "(input)"
        } else {
            &self.path
        };
        write!(f, "{path}: {}", self.message)
    }
}

enum Compiled {
    Checks(Box<Validator>),
    AcceptsAny(String),
}

/// Compiled schemas by version.
#[derive(Default)]
pub(crate) struct Validators(Mutex<HashMap<String, Arc<Compiled>>>);

impl Validators {
    fn take(&self, schema: &Value) -> Arc<Compiled> {
        let Ok(key) = dag_cbor_cid(schema) else {
            return Arc::new(compile(schema));
        };
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(compiled) = lock().get(&key) {
            return Arc::clone(compiled);
        }
        let compiled = Arc::new(compile(schema));
        let mut kept = lock();
        if kept.len() >= MAX_KEPT {
            kept.clear();
        }
        kept.insert(key, Arc::clone(&compiled));
        compiled
    }
}

/// Never fetches: a schema must not make us open connections or files.
struct NoRetrieval;

impl Retrieve for NoRetrieval {
    fn retrieve(&self, uri: &Uri<String>) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Err(format!("it refers to {uri}, and references outside the schema are not fetched").into())
    }
}

fn compile(schema: &Value) -> Compiled {
    let bytes = serde_json::to_vec(schema).map_or(0, |json| json.len());
    if bytes > MAX_SCHEMA_BYTES {
        return Compiled::AcceptsAny(format!(
            "it has {bytes} bytes; at most {MAX_SCHEMA_BYTES} are checked"
        ));
    }
    let options = jsonschema::options()
        .with_retriever(NoRetrieval)
        .with_pattern_options(PatternOptions::fancy_regex().backtrack_limit(BACKTRACK_LIMIT))
        .should_ignore_unknown_formats(true);
    let options = if schema.get("$schema").is_some_and(Value::is_string) {
        options
    } else {
        options.with_draft(Draft::Draft202012)
    };
    match options.build(schema) {
        Ok(validator) => Compiled::Checks(Box::new(validator)),
        Err(error) => Compiled::AcceptsAny(bounded(&error.to_string(), MAX_MESSAGE_BYTES)),
    }
}

fn bounded(text: &str, bytes: usize) -> String {
    excerpt(&visible(text), bytes)
}

fn check(compiled: &Compiled, value: &Value) -> Vec<ValidationError> {
    match compiled {
        Compiled::AcceptsAny(_) => Vec::new(),
        Compiled::Checks(validator) => validator
            .iter_errors(value)
            .take(MAX_ERRORS)
            .map(|error| ValidationError {
                path: bounded(error.instance_path().as_str(), MAX_PATH_BYTES),
                message: bounded(&message(&error), MAX_MESSAGE_BYTES),
            })
            .collect(),
    }
}

/// Returns the message; the offending value is left out where it is long, since the caller has it.
fn message(error: &jsonschema::ValidationError<'_>) -> String {
    let whole = error.to_string();
    if whole.len() <= MAX_MESSAGE_BYTES {
        whole
    } else {
        error.masked().to_string()
    }
}

impl Catalog {
    /// Checks an input against the tool's schema; empty when it fits.
    #[must_use]
    pub fn validate(&self, document: &ToolDocument, input: &Map<String, Value>) -> Vec<ValidationError> {
        check(
            &self.validators.take(&document.input),
            &Value::Object(input.clone()),
        )
    }

    /// Checks a value against a schema that is no tool's, for example a result against the schema that it owes.
    #[must_use]
    pub fn validate_value(&self, schema: &Value, value: &Value) -> Vec<ValidationError> {
        check(&self.validators.take(schema), value)
    }

    /// Says why the tool's inputs are not checked, if they are not.
    #[must_use]
    pub fn schema_diagnostic(&self, document: &ToolDocument) -> Option<Diagnostic> {
        match self.validators.take(&document.input).as_ref() {
            Compiled::Checks(_) => None,
            Compiled::AcceptsAny(why) => Some(Diagnostic {
                severity: Severity::Warning,
                subject: document.tool.to_string(),
                message: format!(
                    "The input schema cannot be used: {why}. Inputs are not checked here; the tool judges them."
                ),
                next: None,
            }),
        }
    }

    /// Says why a schema cannot be used, if it cannot: for schemas that our own callers write.
    #[must_use]
    pub fn schema_problem(&self, schema: &Value) -> Option<String> {
        match self.validators.take(schema).as_ref() {
            Compiled::Checks(_) => None,
            Compiled::AcceptsAny(why) => Some(why.clone()),
        }
    }
}

#[cfg(test)]
mod tests;
