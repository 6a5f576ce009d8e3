//! The one declared table of options per address family, and their parsed values.
//!
//! Unknown option keys are refused, never ignored: a mistyped `delete` must not become a write.

mod write;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

pub use self::write::{WRITABLE, WriteForm, write_form};
use crate::address::Family;
use crate::refusal::{Refusal, RefusalKind};
use crate::verb::nearest_key;

/// The type of an option's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A text.
    Text,
    /// `true` or `false`.
    Flag,
    /// A whole number within limits.
    Number {
        /// Smallest accepted value.
        min: u64,
        /// Largest accepted value.
        max: u64,
    },
    /// One of some words.
    Word(&'static [&'static str]),
    /// An object, interpreted by the family.
    Object,
}

/// One declared option.
#[derive(Debug, Clone, Copy)]
pub struct OptionSpec {
    /// The key.
    pub key: &'static str,
    /// The value's type.
    pub kind: Kind,
    /// One line for `--help` and contracts.
    pub doc: &'static str,
}

const fn spec(key: &'static str, kind: Kind, doc: &'static str) -> OptionSpec {
    OptionSpec { key, kind, doc }
}

const LIMIT: OptionSpec = spec(
    "limit",
    Kind::Number { min: 1, max: 1000 },
    "most entries to return",
);
const AFTER: OptionSpec = spec(
    "after",
    Kind::Text,
    "continue after this mark, as `next` of the last page gave it",
);
const QUERY: OptionSpec = spec("query", Kind::Text, "words to search for");
const THREAD: OptionSpec = spec("thread", Kind::Text, "only this thread");

/// Options that choose a part of any long text; every read takes them.
pub const VIEW: &[OptionSpec] = &[
    spec(
        "lines",
        Kind::Text,
        "a range of lines: 10-20, 10-, or -20 for the last twenty",
    ),
    spec("bytes", Kind::Text, "a range of bytes: 0-4095, 4096-, or -4096"),
    spec(
        "grep",
        Kind::Text,
        "only lines that match this regular expression",
    ),
];

/// Returns the options that reading `family` takes besides [`VIEW`].
#[must_use]
pub const fn read_options(family: Family) -> &'static [OptionSpec] {
    match family {
        Family::ToolList => {
            const {
                &[
                    QUERY,
                    LIMIT,
                    spec("source", Kind::Text, "only tools of this source"),
                ]
            }
        }
        Family::ThreadList => {
            const {
                &[
                    QUERY,
                    LIMIT,
                    AFTER,
                    spec("agent", Kind::Text, "only threads of this agent, or * for all"),
                ]
            }
        }
        Family::Thread => {
            const {
                &[
                    QUERY,
                    LIMIT,
                    AFTER,
                    spec(
                        "before",
                        Kind::Text,
                        "continue before this event number; without it the newest come first",
                    ),
                    spec(
                        "tools",
                        Kind::Word(&["names", "full"]),
                        "full shows inputs and results of tool calls",
                    ),
                ]
            }
        }
        Family::RunList => {
            const {
                &[
                    LIMIT,
                    AFTER,
                    THREAD,
                    spec(
                        "status",
                        Kind::Text,
                        "only runs of this status, for example running or failed",
                    ),
                    spec(
                        "tree",
                        Kind::Flag,
                        "whole trees: each first run with everything below it, the newest trees first",
                    ),
                    spec(
                        "all",
                        Kind::Flag,
                        "verbs that succeeded too, besides calls and runs of programs",
                    ),
                ]
            }
        }
        Family::Run => {
            const {
                &[spec(
                    "tree",
                    Kind::Flag,
                    "this run and everything below it, instead of its record",
                )]
            }
        }
        Family::RunJournal => const { &[LIMIT, AFTER] },
        Family::RunOutput => {
            const {
                &[spec(
                    "stream",
                    Kind::Word(&["stdout", "stderr"]),
                    "which stream of a command",
                )]
            }
        }
        Family::Approvals => {
            const {
                &[
                    LIMIT,
                    spec("state", Kind::Text, "open, granted, denied, expired or void"),
                ]
            }
        }
        Family::Activity => {
            const {
                &[
                    spec(
                        "actor",
                        Kind::Text,
                        "user, system, client:NAME, agent:NAME or trigger:NAME",
                    ),
                    spec(
                        "verb",
                        Kind::Word(&["read", "write", "call", "delegate", "plan"]),
                        "only this verb",
                    ),
                    THREAD,
                    spec("since", Kind::Text, "RFC 3339 time, inclusive"),
                    spec("until", Kind::Text, "RFC 3339 time, exclusive"),
                    spec("steps", Kind::Flag, "the steps of runs too"),
                    LIMIT,
                    AFTER,
                ]
            }
        }
        Family::Web => {
            const {
                &[spec(
                    "raw",
                    Kind::Flag,
                    "the body as it is instead of readable Markdown",
                )]
            }
        }
        Family::Mcp => {
            const {
                &[spec(
                    "arguments",
                    Kind::Object,
                    "the arguments of a prompt, mcp:<server>/prompts/<name>",
                )]
            }
        }
        Family::Memory
        | Family::Tool
        | Family::Triggers
        | Family::Channels
        | Family::SelfAgent
        | Family::Attachment
        | Family::Hypermedia
        | Family::File
        | Family::Agents => &[],
    }
}

/// Returns the form of a family as texts show it.
#[must_use]
pub const fn form_name(family: Family) -> &'static str {
    match family {
        Family::Memory => "~/memory/<path>",
        Family::ToolList => "~/tools/",
        Family::Tool => "~/tools/<name>",
        Family::Triggers => "~/triggers/<name>",
        Family::Channels => "~/channels/<name>",
        Family::SelfAgent => "~/self",
        Family::ThreadList => "thread:",
        Family::Thread => "thread:<id>",
        Family::RunList => "run:",
        Family::Run => "run:<id>",
        Family::RunJournal => "run:<id>/journal",
        Family::RunOutput => "run:<id>/output",
        Family::Approvals => "approval:<id>",
        Family::Activity => "activity:",
        Family::Attachment => "attachment:<cid>",
        Family::Hypermedia => "hm://…",
        Family::Web => "https://…",
        Family::File => "file:<path>",
        Family::Mcp => "mcp:<server>/<uri>",
        Family::Agents => "agent:<name>",
    }
}

/// A checked option value.
#[derive(Debug, Clone, PartialEq)]
enum Checked {
    Text(String),
    Flag(bool),
    Number(u64),
    Object(Map<String, Value>),
}

/// Option values that passed their family's table.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Options(BTreeMap<&'static str, Checked>);

impl Options {
    /// Checks the options of a `read`.
    ///
    /// # Errors
    /// Refuses unknown keys and wrong types.
    pub fn for_read(family: Family, given: &Map<String, Value>) -> Result<Self, Refusal> {
        check(family, "read", given, &[read_options(family), VIEW])
    }

    /// Checks the options of a `write`.
    ///
    /// # Errors
    /// Refuses families that cannot be written, unknown keys and wrong types.
    pub fn for_write(family: Family, given: &Map<String, Value>) -> Result<Self, Refusal> {
        let form = write_form(family).ok_or_else(|| {
            let name = form_name(family);
            Refusal::new(
                RefusalKind::NotSupported,
                name,
                format!("{name} cannot be written."),
            )
            .supported(WRITABLE.iter().map(|f| form_name(*f)))
        })?;
        check(family, "write", given, &[form.options])
    }

    /// Returns a text option (or the word of a word option).
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        match self.0.get(key) {
            Some(Checked::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// Returns a flag; false when absent.
    #[must_use]
    pub fn flag(&self, key: &str) -> bool {
        matches!(self.0.get(key), Some(Checked::Flag(true)))
    }

    /// Returns a number option.
    #[must_use]
    pub fn number(&self, key: &str) -> Option<u64> {
        match self.0.get(key) {
            Some(Checked::Number(number)) => Some(*number),
            _ => None,
        }
    }

    /// Returns `limit` as a count, or `default`.
    #[must_use]
    pub fn limit(&self, default: usize) -> usize {
        self.number("limit")
            .and_then(|n| usize::try_from(n).ok())
            .unwrap_or(default)
    }

    /// Returns an object option.
    #[must_use]
    pub fn object(&self, key: &str) -> Option<&Map<String, Value>> {
        match self.0.get(key) {
            Some(Checked::Object(map)) => Some(map),
            _ => None,
        }
    }

    /// Returns what was given, as JSON.
    #[must_use]
    pub fn given(&self) -> Map<String, Value> {
        let value = |checked: &Checked| match checked {
            Checked::Text(text) => Value::from(text.as_str()),
            Checked::Flag(flag) => Value::from(*flag),
            Checked::Number(number) => Value::from(*number),
            Checked::Object(map) => Value::Object(map.clone()),
        };
        self.0
            .iter()
            .map(|(key, checked)| ((*key).to_owned(), value(checked)))
            .collect()
    }

    /// Tells whether no option was given.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn check(
    family: Family,
    verb: &str,
    given: &Map<String, Value>,
    tables: &[&'static [OptionSpec]],
) -> Result<Options, Refusal> {
    let specs = || tables.iter().flat_map(|table| table.iter());
    let form = form_name(family);
    let mut options = BTreeMap::new();
    for (key, value) in given {
        let Some(spec) = specs().find(|spec| spec.key == key) else {
            let message = format!("{form} has no {verb} option '{}'.", crate::text::excerpt(key, 80));
            let keys: Vec<&str> = specs().map(|spec| spec.key).collect();
            let refusal =
                Refusal::new(RefusalKind::BadRequest, key.as_str(), message).supported(keys.iter().copied());
            return Err(match nearest_key(key, keys) {
                Some(near) => refusal.next_step(format!("did you mean '{near}'?")),
                None => refusal,
            });
        };
        options.insert(spec.key, check_value(form, spec, value)?);
    }
    Ok(Options(options))
}

fn check_value(form: &str, spec: &OptionSpec, value: &Value) -> Result<Checked, Refusal> {
    let key = spec.key;
    let refuse = |expected: &str| {
        let message = format!("The option '{key}' of {form} must be {expected}.");
        Refusal::new(RefusalKind::BadRequest, key, message)
    };
    match spec.kind {
        Kind::Text => match value {
            Value::String(text) if !text.trim().is_empty() => Ok(Checked::Text(text.clone())),
            Value::Number(number) => Ok(Checked::Text(number.to_string())),
            _ => Err(refuse("a text")),
        },
        Kind::Flag => value
            .as_bool()
            .map(Checked::Flag)
            .ok_or_else(|| refuse("true or false")),
        Kind::Number { min, max } => value
            .as_u64()
            .filter(|n| (min..=max).contains(n))
            .map(Checked::Number)
            .ok_or_else(|| refuse(&format!("a whole number from {min} to {max}"))),
        Kind::Word(words) => value
            .as_str()
            .filter(|word| words.contains(word))
            .map(|word| Checked::Text(word.to_owned()))
            .ok_or_else(|| refuse("one of the supported words").supported(words.iter().copied())),
        Kind::Object => match value {
            Value::Object(map) => Ok(Checked::Object(map.clone())),
            _ => Err(refuse("an object")),
        },
    }
}

/// Refuses `dryRun` where it cannot be honoured.
///
/// # Errors
/// A dry run of such a form is refused (400): it would have to act to know.
pub fn check_dry_run(family: Family, dry_run: bool) -> Result<(), Refusal> {
    if dry_run && write_form(family).is_some_and(|form| !form.dry_run) {
        let form = form_name(family);
        return Err(Refusal::new(
            RefusalKind::BadRequest,
            "dryRun",
            format!("{form} cannot honour dryRun."),
        ));
    }
    Ok(())
}
