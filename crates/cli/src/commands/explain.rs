use std::process::ExitCode;

use pentad_model::{Status, Verb};
use serde_json::{Map, Value, json};

use crate::address_arg::address;
use crate::args::Globals;
use crate::house::House;
use crate::input_arg::{Pair, input};
use crate::invoke::block_on;
use crate::render::Rendered;
use crate::terminal::Terminal;
use crate::text_arg::text;

const EXAMPLES: &str = "\
Examples:
  pentad explain transcribe file=talk.mp3
  pentad explain github/create_issue title=x --json";

/// Show what a call would do, without doing it
///
/// The words of each command after substitution, its folder, the names (never the values) of its environment, and
/// whether the call would run, ask or be refused.
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
}

impl Args {
    pub fn run(self, globals: &Globals, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        let base = self.input.as_deref().map(text).transpose()?;
        block_on(async {
            let house = House::open(globals).await?;
            let rendered = self.explain(&house, terminal, base.as_deref()).await;
            house.close().await;
            rendered.map(|rendered| terminal.emit(&rendered))
        })?
    }

    async fn explain(
        &self,
        house: &House,
        terminal: &Terminal,
        base: Option<&str>,
    ) -> anyhow::Result<Rendered> {
        let tool = address(&self.tool);
        let schema = house.desk.input_schema(&tool).await;
        let input = input(base, &self.pairs, schema.as_ref())?;
        let mut arguments = Map::new();
        arguments.insert("tool".to_owned(), tool.as_str().into());
        arguments.insert("input".to_owned(), Value::Object(input.clone()));
        let invocation = house.invocation(Verb::Call, arguments);
        Ok(match house.desk.explain(&invocation, &tool, input, None).await {
            Ok(explanation) if terminal.json => Rendered::data(format!("{}\n", explanation.value), 0),
            Ok(explanation) => {
                let text = terminal.foreign_out(explanation.text.trim_end());
                Rendered::data(text + "\n", 0)
            }
            Err(refusal) => {
                let code = Status::from(&refusal).exit_code();
                if terminal.json {
                    Rendered::data(
                        format!("{}\n", json!({"status": "refused", "refusal": refusal})),
                        code,
                    )
                } else {
                    Rendered::notice(terminal.foreign_err(&refusal.to_text()) + "\n", code)
                }
            }
        })
    }
}
