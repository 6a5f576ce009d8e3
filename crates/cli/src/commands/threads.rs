use std::process::ExitCode;

use serde_json::{Map, Value};

use crate::args::Globals;
use crate::invoke::{Ask, ask};
use crate::terminal::Terminal;

const EXAMPLES: &str = "\
Examples:
  pentad threads
  pentad threads deploy failed
  pentad read thread:7k2m9q4x --option tools=full";

/// List and search conversations
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Words that must occur
    pub words: Vec<String>,
    /// Threads of all agents
    #[arg(long)]
    pub all: bool,
    /// Most entries
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// Continue after this mark of the last page
    #[arg(long, value_name = "MARK")]
    pub after: Option<String>,
}

impl Args {
    pub fn run(self, globals: &Globals, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        let query = (!self.words.is_empty()).then(|| self.words.join(" "));
        let agent = if self.all {
            Some("*".to_owned())
        } else {
            globals.agent.as_ref().map(ToString::to_string)
        };
        let options: Map<String, Value> = [
            ("query", query.map(Value::from)),
            ("agent", agent.map(Value::from)),
            ("limit", self.limit.map(Value::from)),
            ("after", self.after.map(Value::from)),
        ]
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), value?)))
        .collect();
        ask(globals, terminal, Ask::read("thread:", options))
    }
}
