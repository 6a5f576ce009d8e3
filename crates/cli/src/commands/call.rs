use std::process::ExitCode;

use pentad_keeper::config::Period;
use pentad_model::Verb;
use serde_json::{Map, Value};

use crate::address_arg::address;
use crate::args::Globals;
use crate::house::House;
use crate::input_arg::{Pair, input};
use crate::invoke::{Ask, ask_in, block_on};
use crate::terminal::Terminal;
use crate::text_arg::text;

const EXAMPLES: &str = "\
Examples:
  pentad call transcribe file=talk.mp3 lang=de
  pentad call github/create_issue title=\"It fails\" labels=bug labels=cli
  pentad call weather days:=3
  pentad call report --input @report.json
  jq -n '{city: \"Basel\"}' | pentad call weather --input -";

/// Call a tool
///
/// key=value is typed by the tool's contract: numbers, flags and lists come out as such, and a key that is given
/// several times is a list. key:=JSON takes JSON as it stands. pentad tools NAME shows the contract. A form that the
/// tool's server wants to be filled in meanwhile is shown at your terminal.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The tool: NAME or SOURCE/NAME
    pub tool: String,
    /// The input
    #[arg(value_name = "KEY=VALUE")]
    pub pairs: Vec<Pair>,
    /// The input as a JSON object, - for standard input, or @FILE; KEY=VALUE stands over it
    #[arg(short, long, value_name = "JSON")]
    pub input: Option<String>,
    /// The longest it may take, for example 30s or 5m
    #[arg(long, value_name = "TIME", value_parser = Period::parse)]
    pub timeout: Option<Period>,
}

impl Args {
    pub fn run(self, globals: &Globals, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        let base = self.input.as_deref().map(text).transpose()?;
        block_on(async {
            let house = House::open(globals).await?;
            let code = self.call(&house, terminal, base.as_deref()).await;
            house.close().await;
            code
        })?
    }

    async fn call(self, house: &House, terminal: &Terminal, base: Option<&str>) -> anyhow::Result<ExitCode> {
        let tool = address(&self.tool);
        let schema = house.desk.input_schema(&tool).await;
        let input = input(base, &self.pairs, schema.as_ref())?;
        let mut ask = request(&tool, input);
        ask.time_limit = self.timeout.map(|limit| limit.0);
        Ok(ask_in(house, terminal, ask).await)
    }
}

fn request(tool: &str, input: Map<String, Value>) -> Ask {
    let mut arguments = Map::new();
    arguments.insert("tool".to_owned(), tool.into());
    arguments.insert("input".to_owned(), Value::Object(input));
    Ask::new(Verb::Call, arguments)
}
