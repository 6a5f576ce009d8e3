//! Command templates: words, placeholders, types, graph.
//!
//! A template is a command line, a sequence of templates, or a node with fields such as `parallel`, `retry` and `when`.
//! It is read once ([`Template::parse`]), tells its arguments ([`Interface`]), shows what it would run ([`explain`])
//! and runs through a [`Launcher`], so this crate starts no process itself. No shell is ever involved: a placeholder is
//! always part of exactly one argument.

mod args;
mod control;
mod error;
mod execute;
mod explain;
mod expression;
mod frame;
mod interface;
mod launch;
mod parse;
mod placeholder;
mod report;
mod risk;
mod site;
mod tree;
mod value;
mod words;

pub use args::{
    ArgType, ArgumentError, Declaration, normalize_values, read_declarations, split_declarations,
};
pub use control::{Control, Repeat, Wanted, When, inherit_defaults, repeat_values};
pub use error::ExpandError;
pub use execute::{ExecuteError, Executor, Limits};
pub use explain::{Explained, explain};
pub use interface::{Interface, Parameter, UsageError};
pub use launch::{Clock, Input, LaunchRequest, Launched, Launcher, Stream, SystemClock};
pub use parse::node_fields;
pub use placeholder::{Condition, Lookup, Pattern, is_name, substitute};
pub use report::{Branch, BranchFailure, BranchStatus, FailureReason, NonCritical, Report, SoftQuorum};
pub use risk::{Risk, command_warnings, risks};
pub use site::{Interpreters, MAX_ARGUMENT_BYTES, MAX_ARGUMENTS_BYTES, RECIPE_DIR, Scope, Site};
pub use tree::{CommandLine, Diagnostic, Failure, Node, Output, Parsed, Severity, Template, Word};
pub use value::{Values, is_falsy, number_text, plain_text};
pub use words::{SplitWord, is_space, quote_for_display, split_words};
