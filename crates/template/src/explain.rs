//! Shows what a template would run, without running it.

use serde_json::{Map, Value, json};

use crate::control::{Control, Wanted, repeat_values};
use crate::error::ExpandError;
use crate::execute::Limits;
use crate::frame::{Frame, Given};
use crate::site::Site;
use crate::tree::{CommandLine, Failure, Node, Output, Template};
use crate::value::Values;
use crate::words::quote_for_display;

/// Is one command that a template would run, or why it would not.
#[derive(Debug, Clone, PartialEq)]
pub struct Explained {
    /// Says where in the template it stands, such as `template[1].recover`.
    pub place: String,
    /// Is the label of the nearest node.
    pub label: Option<String>,
    /// Is the argument list.
    pub argv: Result<Vec<String>, ExpandError>,
    /// Tells that it reads the output of the step before.
    pub reads_previous: bool,
    /// Tells that it runs at the same time as its siblings.
    pub parallel: bool,
    /// Tells that its guard is false, so it would be skipped.
    pub skipped: bool,
    /// Is its time limit in milliseconds.
    pub timeout_ms: Option<f64>,
    /// Is the number of attempts.
    pub attempts: f64,
    /// Says how far its failure reaches.
    pub failure: Failure,
}

impl Explained {
    /// Returns the command as a shell would need it.
    pub fn command(&self) -> String {
        match &self.argv {
            Ok(argv) => argv
                .iter()
                .map(|word| quote_for_display(word))
                .collect::<Vec<_>>()
                .join(" "),
            Err(error) => format!("({error})"),
        }
    }

    /// Returns the explanation as JSON.
    pub fn to_value(&self) -> Value {
        let mut fields = Map::new();
        fields.insert("place".to_owned(), json!(self.place));
        if let Some(label) = &self.label {
            fields.insert("label".to_owned(), json!(label));
        }
        match &self.argv {
            Ok(argv) => fields.insert("argv".to_owned(), json!(argv)),
            Err(error) => fields.insert("error".to_owned(), json!(error.to_string())),
        };
        for (name, set) in [
            ("readsPrevious", self.reads_previous),
            ("parallel", self.parallel),
            ("skipped", self.skipped),
        ] {
            if set {
                fields.insert(name.to_owned(), json!(true));
            }
        }
        if let Some(timeout) = self.timeout_ms {
            fields.insert("timeoutMs".to_owned(), json!(timeout));
        }
        if self.attempts > 1.0 {
            fields.insert("attempts".to_owned(), json!(self.attempts));
        }
        Value::Object(fields)
    }
}

/// Is the largest number of commands that an explanation lists.
const MAX_EXPLAINED: usize = 1000;

/// Lists the commands that a template would run with these values.
///
/// A command that cannot be expanded is listed with its error, so that one missing value does not hide the others. After
/// a thousand commands the list ends.
pub fn explain(template: &Template, values: &Values, site: &Site) -> Vec<Explained> {
    let recipe_dir = site
        .recipe_dir
        .as_ref()
        .map(|dir| Value::String(dir.to_string_lossy().into_owned()));
    let given = Given { values, recipe_dir };
    let mut tour = Tour {
        given: &given,
        site,
        found: Vec::new(),
        limits: Limits::default(),
    };
    tour.template(
        template,
        &Frame::root(),
        &Around {
            place: "template".to_owned(),
            ..Around::default()
        },
    );
    tour.found
}

/// Holds what the nodes around a command say about it.
#[derive(Debug, Clone, Default)]
struct Around {
    place: String,
    label: Option<String>,
    reads_previous: bool,
    parallel: bool,
    skipped: bool,
    timeout_ms: Option<f64>,
    attempts: f64,
    failure: Failure,
}

struct Tour<'a> {
    given: &'a Given<'a>,
    site: &'a Site,
    found: Vec<Explained>,
    limits: Limits,
}

impl Tour<'_> {
    fn template(&mut self, template: &Template, frame: &Frame, around: &Around) {
        if self.found.len() >= MAX_EXPLAINED {
            return;
        }
        match template {
            Template::Command(line) => self.command(line, frame, around),
            Template::Sequence(steps) => self.steps(steps, frame, around, false),
            Template::Node(node) => self.node(node, frame, around),
        }
    }

    fn steps(&mut self, steps: &[Template], frame: &Frame, around: &Around, parallel: bool) {
        for (index, step) in steps.iter().enumerate() {
            let inner = Around {
                place: format!("{}[{index}]", around.place),
                reads_previous: around.reads_previous || (!parallel && index > 0),
                parallel: around.parallel || parallel,
                ..around.clone()
            };
            self.template(step, &frame.inside(), &inner);
        }
    }

    fn node(&mut self, node: &Node, frame: &Frame, around: &Around) {
        let frame = frame.enter(node);
        let mut inner = around.clone();
        inner.label = node.label.clone().or(inner.label);
        inner.failure = inner.failure.max(node.failure);
        if let Some(when) = &node.when {
            inner.skipped |= !when.holds(&frame.scope(self.given)).unwrap_or(false);
        }
        let Some(repeat) = &node.repeat else {
            return self.body(node, &frame, &inner);
        };
        match repeat.resolve(&frame.list_scope(self.given)) {
            Ok(Some(count)) => {
                let shown = count.min(self.limits.max_repeat);
                for index in 0..shown {
                    let mut copy = inner.clone();
                    copy.place = format!("{}#{index}", inner.place);
                    copy.parallel |= node.parallel;
                    copy.reads_previous |= !node.parallel && index > 0;
                    self.body(
                        node,
                        &frame.inside().with_defaults(repeat_values(index, count)),
                        &copy,
                    );
                    if self.found.len() >= MAX_EXPLAINED {
                        break;
                    }
                }
            }
            Ok(None) => self.push(Err(ExpandError::RepeatUnresolved), &inner),
            Err(error) => self.push(Err(error), &inner),
        }
    }

    fn body(&mut self, node: &Node, frame: &Frame, around: &Around) {
        let mut inner = around.clone();
        let controls: [(&Option<Control>, &'static str, Wanted); 5] = [
            (&node.retry, "retry", Wanted::Positive),
            (&node.timeout, "timeout", Wanted::NonNegative),
            (&node.delay, "delay", Wanted::NonNegative),
            (&node.concurrency, "concurrency", Wanted::Positive),
            (&node.min_successful, "min_successful", Wanted::Count),
        ];
        for (control, field, wanted) in controls {
            let Some(control) = control else { continue };
            match control.resolve(field, wanted, &frame.scope(self.given)) {
                Ok(number) if field == "retry" => inner.attempts = number.unwrap_or(1.0),
                Ok(number) if field == "timeout" => inner.timeout_ms = number.filter(|n| *n > 0.0),
                Ok(_) => {}
                Err(error) => return self.push(Err(error), &inner),
            }
        }
        if let Output::Text(pattern) = &node.output
            && let Err(error) = pattern.fill(&frame.scope(self.given), "output")
        {
            self.push(Err(error), &inner);
        }
        inner.place.push_str(".template");
        match &node.body {
            Template::Sequence(steps) => self.steps(steps, frame, &inner, node.parallel),
            other => self.template(other, frame, &inner),
        }
        if let Some(recover) = &node.recover {
            let recovering = Around {
                place: format!("{}.recover", around.place),
                reads_previous: true,
                ..around.clone()
            };
            self.template(recover, &frame.inside(), &recovering);
        }
    }

    fn command(&mut self, line: &CommandLine, frame: &Frame, around: &Around) {
        let argv = line
            .expand(&frame.scope(self.given))
            .and_then(|words| self.site.argv(words));
        self.push(argv, around);
    }

    fn push(&mut self, argv: Result<Vec<String>, ExpandError>, around: &Around) {
        self.found.push(Explained {
            place: around.place.clone(),
            label: around.label.clone(),
            argv,
            reads_previous: around.reads_previous,
            parallel: around.parallel,
            skipped: around.skipped,
            timeout_ms: around.timeout_ms,
            attempts: around.attempts.max(1.0),
            failure: around.failure,
        });
    }
}
