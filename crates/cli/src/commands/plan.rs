use std::process::ExitCode;

use anyhow::Context;
use pentad_model::Verb;
use pentad_model::plan::StepStatus;
use serde_json::{Map, Value, json};

use crate::args::Globals;
use crate::failure::usage;
use crate::invoke::{Ask, ask};
use crate::terminal::Terminal;
use crate::text_arg::text;

const EXAMPLES: &str = "\
Examples:
  pentad plan --title \"Release\" \"done:write notes\" \"running:run the tests\" \"publish\"
  pentad plan --steps @plan.json --thread 7k2m9q4x";

/// Replace the plan of a thread
///
/// Each use gives the whole list. A step is a label, with a status before it where it is not pending: pending:,
/// running:, done:, failed: or skipped:.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(group(clap::ArgGroup::new("list").required(true).args(["labels", "steps"])))]
pub struct Args {
    /// The steps in order
    #[arg(value_name = "[STATUS:]LABEL")]
    pub labels: Vec<String>,
    /// The steps as a JSON list of {id, label, status}, - for standard input, or @FILE
    #[arg(long, value_name = "JSON")]
    pub steps: Option<String>,
    /// What the plan is for
    #[arg(long)]
    pub title: Option<String>,
}

impl Args {
    pub fn run(self, globals: &Globals, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        ask(globals, terminal, Ask::new(Verb::Plan, self.arguments()?))
    }

    fn arguments(self) -> anyhow::Result<Map<String, Value>> {
        let steps = match self.steps {
            Some(steps) => serde_json::from_str(&text(&steps)?).context("--steps is no JSON")?,
            None => Value::Array(
                self.labels
                    .iter()
                    .map(|label| step(label))
                    .collect::<Result<_, _>>()?,
            ),
        };
        let mut arguments = Map::new();
        if let Some(title) = self.title {
            arguments.insert("title".to_owned(), title.into());
        }
        arguments.insert("steps".to_owned(), steps);
        Ok(arguments)
    }
}

fn step(text: &str) -> anyhow::Result<Value> {
    let (status, label) = match text.split_once(':') {
        Some((word, label)) if StepStatus::WORDS.contains(&word) => (word, label.trim()),
        _ => ("pending", text.trim()),
    };
    if label.is_empty() {
        return Err(usage(format!("the step '{text}' has no label")));
    }
    Ok(json!({"label": label, "status": status}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_stands_before_the_label() {
        assert_eq!(
            step("done: a:b").unwrap(),
            json!({"label": "a:b", "status": "done"})
        );
        assert_eq!(
            step("note: x").unwrap(),
            json!({"label": "note: x", "status": "pending"})
        );
        assert!(step("done:").is_err());
    }
}
