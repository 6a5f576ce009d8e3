use std::process::ExitCode;

use clap::ValueEnum;
use serde_json::{Map, Value};

use crate::args::Globals;
use crate::invoke::{Ask, ask};
use crate::render::Ending;
use crate::terminal::Terminal;

const EXAMPLES: &str = "\
Examples:
  pentad runs --status failed
  pentad runs nightly
  pentad runs nightly journal
  pentad runs 7k2m9q4x output > result.txt";

/// A part of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PartName {
    /// What happened in it
    Journal,
    /// What it printed or returned
    Output,
    /// The files it kept
    Artifacts,
}

/// List runs, or show one
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The run: its name, its id, or the id's last eight characters or more
    pub run: Option<String>,
    /// The part to show
    pub part: Option<PartName>,
    /// Only runs of this status
    #[arg(long, value_name = "STATUS", conflicts_with = "run", value_parser = clap::builder::PossibleValuesParser::new(pentad_model::run::RunStatus::WORDS))]
    pub status: Option<String>,
    /// Most entries
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// Continue after this mark of the last page
    #[arg(long, value_name = "MARK")]
    pub after: Option<String>,
}

impl Args {
    pub fn run(self, globals: &Globals, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        ask(globals, terminal, self.request(globals.thread.as_deref()))
    }

    fn request(self, thread: Option<&str>) -> Ask {
        let listing = self.run.is_none();
        let thread = thread.filter(|_| listing).map(str::to_owned);
        let options: Map<String, Value> = [
            ("status", self.status.map(Value::from)),
            ("thread", thread.map(Value::from)),
            ("limit", self.limit.map(Value::from)),
            ("after", self.after.map(Value::from)),
        ]
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), value?)))
        .collect();
        let run = self.run.unwrap_or_default();
        let run = run.strip_prefix("run:").unwrap_or(&run);
        let part = match self.part {
            None => "",
            Some(PartName::Journal) => "/journal",
            Some(PartName::Output) => "/output",
            Some(PartName::Artifacts) => "/artifacts",
        };
        let mut ask = Ask::read(&format!("run:{run}{part}"), options);
        if self.part == Some(PartName::Output) {
            ask.ending = Ending::Exact;
        }
        ask
    }
}
