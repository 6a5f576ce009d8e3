//! Reads a template from JSON.

use serde_json::{Map, Value};

use crate::args::{Declaration, split_declarations};
use crate::control::{Control, Repeat, Wanted, When};
use crate::placeholder::Pattern;
use crate::tree::{CommandLine, Diagnostic, Failure, Node, Output, Parsed, Severity, Template};
use crate::value::{Values, plain_text};
use crate::words::is_space;

const MAX_NESTING: usize = 64;

pub(crate) const EMPTY_COMMAND: &str = "Tool template produced an empty command.";
pub(crate) const NO_STEPS: &str = "Tool template produced no command steps.";

pub(crate) fn parse(value: &Value) -> Parsed {
    let mut reader = Reader {
        diagnostics: Vec::new(),
    };
    let template = reader.template(value, "template", 0);
    let broken = reader.diagnostics.iter().any(|d| d.severity == Severity::Error);
    Parsed {
        template: template.filter(|_| !broken),
        diagnostics: reader.diagnostics,
    }
}

struct Reader {
    diagnostics: Vec<Diagnostic>,
}

impl Reader {
    fn report(&mut self, severity: Severity, place: impl Into<String>, message: impl Into<String>) {
        self.diagnostics.push(Diagnostic {
            severity,
            place: place.into(),
            message: message.into(),
        });
    }

    fn error(&mut self, place: impl Into<String>, message: impl Into<String>) {
        self.report(Severity::Error, place, message);
    }

    fn warning(&mut self, place: impl Into<String>, message: impl Into<String>) {
        self.report(Severity::Warning, place, message);
    }

    fn template(&mut self, value: &Value, place: &str, depth: usize) -> Option<Template> {
        if depth > MAX_NESTING {
            self.error(
                place,
                format!("Templates nest at most {MAX_NESTING} levels deep."),
            );
            return None;
        }
        match value {
            Value::String(text) => {
                let line = CommandLine::read(text);
                if line.words.is_empty() {
                    self.error(place, EMPTY_COMMAND);
                    return None;
                }
                if text.contains('\0') {
                    self.error(place, "A command line cannot contain a NUL character.");
                    return None;
                }
                Some(Template::Command(line))
            }
            Value::Array(items) => self.sequence(items, place, depth),
            Value::Object(fields) => self.node(fields, place, depth),
            Value::Null | Value::Bool(_) | Value::Number(_) => {
                self.error(place, format!("{place} must be a string, object, or sequence."));
                None
            }
        }
    }

    fn sequence(&mut self, items: &[Value], place: &str, depth: usize) -> Option<Template> {
        if items.is_empty() {
            self.error(place, NO_STEPS);
            return None;
        }
        let mut steps = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let place = format!("{place}[{index}]");
            if item.is_array() {
                self.error(
                    place,
                    format!(
                        "{EMPTY_COMMAND} A list is no step of a list: wrap it as {{\"template\": [...]}}."
                    ),
                );
                continue;
            }
            steps.extend(self.template(item, &place, depth + 1));
        }
        Some(Template::Sequence(steps))
    }

    fn node(&mut self, fields: &Map<String, Value>, place: &str, depth: usize) -> Option<Template> {
        let Some(body) = fields.get("template") else {
            let message = match fields.get("name").and_then(Value::as_str) {
                Some(name) => format!("Unknown recipe import: {name}"),
                None => EMPTY_COMMAND.to_owned(),
            };
            self.error(place, message);
            return None;
        };
        let body = self.template(body, &format!("{place}.template"), depth + 1);
        let mut node = Node::plain(Template::Sequence(Vec::new()));
        for (field, value) in fields {
            let place = format!("{place}.{field}");
            self.field(&mut node, field, value, &place, depth);
        }
        node.body = body?;
        if node.parallel && !matches!(node.body, Template::Sequence(_)) && node.repeat.is_none() {
            self.warning(
                format!("{place}.parallel"),
                "parallel has no effect on a single command.",
            );
        }
        if node.recover.is_some() && node.retry.is_none() {
            self.warning(format!("{place}.recover"), "recover has no effect without retry.");
        }
        Some(Template::Node(Box::new(node)))
    }

    fn field(&mut self, node: &mut Node, field: &str, value: &Value, place: &str, depth: usize) {
        match field {
            "template" => {}
            "label" => match value {
                Value::String(text) => node.label = Some(text.clone()),
                _ => self.warning(place, "label must be a text; it has no effect."),
            },
            "args" => node.args = self.args(value, place),
            "defaults" => node.defaults = self.defaults(value, place),
            "parallel" => match value {
                Value::Bool(parallel) => node.parallel = *parallel,
                _ => self.wrong_type(place, "true or false"),
            },
            "concurrency" => node.concurrency = self.control(value, "concurrency", Wanted::Positive, place),
            "min_successful" => {
                node.min_successful = self.control(value, "min_successful", Wanted::Count, place)
            }
            "timeout" => node.timeout = self.control(value, "timeout", Wanted::NonNegative, place),
            "delay" => node.delay = self.control(value, "delay", Wanted::NonNegative, place),
            "retry" => node.retry = self.control(value, "retry", Wanted::Positive, place),
            "when" => match When::read(value) {
                Some(when) => node.when = Some(when),
                None => self.wrong_type(place, "true, false, or a text"),
            },
            "failure" => match value.as_str() {
                Some("continue") => node.failure = Failure::Continue,
                Some("branch") => node.failure = Failure::Branch,
                Some("root") => node.failure = Failure::Root,
                _ => self.error(
                    place,
                    "Command template failure must be one of: continue, branch, root.",
                ),
            },
            "recover" => node.recover = self.template(value, place, depth + 1),
            "repeat" => match Repeat::read(value) {
                Ok(repeat) => node.repeat = Some(repeat),
                Err(error) => self.error(place, error.to_string()),
            },
            "accept_output" => match value.as_str() {
                Some("review_evidence") => node.accept_review_evidence = true,
                _ => self.error(place, "Command template accept_output must be: review_evidence."),
            },
            "output" => match value.as_str() {
                Some(text) => node.output = read_output(text),
                None => self.wrong_type(place, "a text"),
            },
            // Imports are expanded before a template is read; what they leave behind carries no behaviour.
            "actorRecipeContext" => {}
            other => self.warning(place, unknown_field(other)),
        }
    }

    fn wrong_type(&mut self, place: &str, wanted: &str) {
        let field = place.rsplit('.').next().unwrap_or(place).to_owned();
        self.error(place, format!("{field} must be {wanted}."));
    }

    fn control(
        &mut self,
        value: &Value,
        field: &'static str,
        wanted: Wanted,
        place: &str,
    ) -> Option<Control> {
        let Some(control) = Control::read(value) else {
            self.wrong_type(place, "a number, or a text with placeholders");
            return None;
        };
        let fixed = control
            .pattern()
            .is_none_or(|pattern| pattern.literal().is_some());
        if fixed && let Err(error) = control.resolve(field, wanted, &Values::new()) {
            self.error(place, error.to_string());
        }
        Some(control)
    }

    fn args(&mut self, value: &Value, place: &str) -> Option<Vec<Declaration>> {
        let items = match value {
            Value::String(text) => split_declarations(text),
            Value::Array(items) => {
                let mut texts = Vec::new();
                for (index, item) in items.iter().enumerate() {
                    match item {
                        Value::String(text) => texts.push(text.trim_matches(is_space).to_owned()),
                        Value::Number(_) | Value::Bool(_) => {
                            self.warning(format!("{place}[{index}]"), "A declaration should be a text.");
                            texts.push(plain_text(item).into_owned());
                        }
                        _ => self.error(format!("{place}[{index}]"), "A declaration must be a text."),
                    }
                }
                texts
            }
            _ => {
                self.wrong_type(place, "a list of declarations");
                return None;
            }
        };
        let mut declarations: Vec<Declaration> = Vec::new();
        for text in items {
            let declaration = Declaration::read(&text);
            if let Some(unknown) = &declaration.unknown_type {
                self.warning(
                    place,
                    format!(
                        "Argument {} has the unknown type {unknown} and counts as text. Types are string, path, int, number, bool, array, enum(a,b).",
                        declaration.name
                    ),
                );
            }
            if declarations.iter().any(|known| known.name == declaration.name) {
                self.warning(
                    place,
                    format!(
                        "Argument {} is declared twice; the first one counts.",
                        declaration.name
                    ),
                );
            } else if !declaration.name.is_empty() {
                declarations.push(declaration);
            }
        }
        Some(declarations)
    }

    fn defaults(&mut self, value: &Value, place: &str) -> Values {
        let Value::Object(map) = value else {
            self.wrong_type(place, "a mapping");
            return Values::new();
        };
        let mut defaults = Values::new();
        for (name, value) in map {
            let value = match value {
                Value::Array(_) | Value::String(_) => value.clone(),
                scalar => Value::String(plain_text(scalar).into_owned()),
            };
            defaults.insert(name.trim_matches(is_space).to_owned(), value);
        }
        defaults
    }
}

fn read_output(text: &str) -> Output {
    match text.trim_matches(is_space) {
        "stdout" | "" => Output::Stdout,
        "stderr" => Output::Stderr,
        name if crate::placeholder::is_name(name) => Output::Text(Pattern::read(&format!("{{{name}}}"))),
        other => Output::Text(Pattern::read(other)),
    }
}

pub(crate) const NODE_FIELDS: [&str; 16] = [
    "template",
    "label",
    "args",
    "defaults",
    "parallel",
    "concurrency",
    "min_successful",
    "when",
    "timeout",
    "delay",
    "retry",
    "failure",
    "recover",
    "repeat",
    "accept_output",
    "output",
];

/// Returns the fields that a node can have.
pub fn node_fields() -> &'static [&'static str] {
    &NODE_FIELDS
}

fn unknown_field(field: &str) -> String {
    match field {
        "command" => "Unknown field command: write the command line as template.".to_owned(),
        "cwd" | "env" => {
            format!("Unknown field {field}: a command runs in the workspace with the caller's environment.")
        }
        _ => format!(
            "Unknown field {field}: it has no effect. Known fields are {}.",
            NODE_FIELDS.join(", ")
        ),
    }
}

impl Node {
    /// Returns a node without fields around a template.
    pub fn plain(body: Template) -> Self {
        Self {
            body,
            label: None,
            args: None,
            defaults: Values::new(),
            parallel: false,
            concurrency: None,
            min_successful: None,
            when: None,
            timeout: None,
            delay: None,
            retry: None,
            failure: Failure::Continue,
            recover: None,
            repeat: None,
            accept_review_evidence: false,
            output: Output::Stdout,
        }
    }
}
