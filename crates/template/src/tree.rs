//! The tree of a template: a command line, a sequence, or a node with fields.

use serde_json::Value;

use crate::args::Declaration;
use crate::control::{Control, Repeat, When};
use crate::error::ExpandError;
use crate::placeholder::{COMMAND_LABEL, Lookup, Pattern};
use crate::value::Values;
use crate::words::split_words;

/// Holds one word of a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    pub(crate) pattern: Pattern,
    literally_empty: bool,
}

/// Holds a command line that was split and whose placeholders were read once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine {
    text: String,
    pub(crate) words: Vec<Word>,
}

impl CommandLine {
    /// Reads a command line.
    pub fn read(text: &str) -> Self {
        let words = split_words(text)
            .into_iter()
            .map(|word| Word {
                pattern: Pattern::read(&word.text),
                literally_empty: word.literally_empty,
            })
            .collect();
        Self {
            text: text.to_owned(),
            words,
        }
    }

    /// Returns the line as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Fills in the values and returns the words.
    ///
    /// Each word stays one word whatever its value holds. A word that substitution empties is dropped; one that the
    /// author wrote as empty quotes stays.
    pub fn expand(&self, values: &impl Lookup) -> Result<Vec<String>, ExpandError> {
        let mut words = Vec::with_capacity(self.words.len());
        for (index, word) in self.words.iter().enumerate() {
            let text = word.pattern.fill(values, COMMAND_LABEL)?;
            if index == 0 && text.is_empty() {
                return Err(ExpandError::EmptyCommand);
            }
            if !text.is_empty() || word.literally_empty {
                words.push(text);
            }
        }
        if words.is_empty() {
            return Err(ExpandError::EmptyCommand);
        }
        Ok(words)
    }
}

/// Says how far a failure reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Failure {
    /// The next step goes on with empty input.
    #[default]
    Continue,
    /// The nearest parallel branch ends.
    Branch,
    /// The whole run ends.
    Root,
}

/// Says which output of a node is its result.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Output {
    /// What the command wrote to stdout.
    #[default]
    Stdout,
    /// What the command wrote to stderr.
    Stderr,
    /// A text made of values, usually the path of the file that was written.
    Text(Pattern),
}

/// Is a template.
#[derive(Debug, Clone, PartialEq)]
pub enum Template {
    /// One command.
    Command(CommandLine),
    /// Steps, each reading what the one before wrote.
    Sequence(Vec<Self>),
    /// A template with fields.
    Node(Box<Node>),
}

/// Holds a template with the fields that rule how it runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Is what the node runs.
    pub body: Template,
    /// Names the node in reports.
    pub label: Option<String>,
    /// Declares arguments; those of a leaf replace inherited ones.
    pub args: Option<Vec<Declaration>>,
    /// Are defaults, laid over inherited ones.
    pub defaults: Values,
    /// Runs the steps at the same time.
    pub parallel: bool,
    /// Limits how many steps run at the same time.
    pub concurrency: Option<Control>,
    /// Is the number of usable branches wanted.
    pub min_successful: Option<Control>,
    /// Decides whether the node runs.
    pub when: Option<When>,
    /// Limits the time of one attempt, in milliseconds.
    pub timeout: Option<Control>,
    /// Is waited before the node runs, in milliseconds.
    pub delay: Option<Control>,
    /// Is the number of attempts.
    pub retry: Option<Control>,
    /// Says how far a failure reaches.
    pub failure: Failure,
    /// Runs between a failed attempt and the next.
    pub recover: Option<Template>,
    /// Runs the node several times.
    pub repeat: Option<Repeat>,
    /// Refuses output that is no review evidence.
    pub accept_review_evidence: bool,
    /// Says which output is the result.
    pub output: Output,
}

impl Template {
    /// Returns the failure scope that the template itself states.
    pub(crate) fn own_failure(&self) -> Failure {
        match self {
            Self::Node(node) => node.failure,
            Self::Command(_) | Self::Sequence(_) => Failure::Continue,
        }
    }

    pub(crate) fn label(&self) -> Option<&str> {
        match self {
            Self::Node(node) => node.label.as_deref(),
            Self::Command(_) | Self::Sequence(_) => None,
        }
    }
}

/// Says how grave a diagnostic is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The template runs, but something in it has no effect.
    Warning,
    /// The template cannot run.
    Error,
}

/// Is a remark about a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Says how grave it is.
    pub severity: Severity,
    /// Says where in the document it is, such as `template[1].retry`.
    pub place: String,
    /// Says what is wrong and what to do.
    pub message: String,
}

/// Holds what reading a document gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// Is the template; absent if a diagnostic is an error.
    pub template: Option<Template>,
    /// Are all remarks, in the order of the document.
    pub diagnostics: Vec<Diagnostic>,
}

impl Parsed {
    /// Returns the first error.
    pub fn error(&self) -> Option<&Diagnostic> {
        self.diagnostics.iter().find(|d| d.severity == Severity::Error)
    }
}

impl Template {
    /// Reads a template from JSON; nothing is dropped without a diagnostic.
    pub fn parse(value: &Value) -> Parsed {
        crate::parse::parse(value)
    }

    /// Reads a command line.
    pub fn command(text: &str) -> Parsed {
        crate::parse::parse(&Value::String(text.to_owned()))
    }
}
