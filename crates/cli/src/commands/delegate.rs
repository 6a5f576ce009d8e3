use std::process::ExitCode;

use anyhow::Context;
use pentad_keeper::config::Period;
use pentad_model::{Name, Verb};
use serde_json::{Map, Value, json};

use crate::address_arg::address;
use crate::args::Globals;
use crate::house::House;
use crate::input_arg::{Pair, input};
use crate::invoke::{Ask, ask_in, block_on};
use crate::terminal::Terminal;
use crate::text_arg::text;

const EXAMPLES: &str = "\
Examples:
  pentad delegate --recipe nightly-report day=monday
  pentad delegate --recipe build --detach
  pentad delegate --brief \"Find out why the tests fail\" --wall 20m --cost 0.50
  pentad delegate --brief @brief.md --output @result.schema.json --tools recipes/grep,github/";

/// Start a child run
///
/// It runs a recipe with its input, works on a brief, or executes a script. Without --detach the command waits for the
/// result; with it, pentad read run:ID shows how far it is.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(group(clap::ArgGroup::new("work").required(true).args(["recipe", "brief", "script"])))]
pub struct Args {
    /// Run this recipe
    #[arg(long, value_name = "TOOL")]
    pub recipe: Option<String>,
    /// Let an agent work on this, - for standard input, or @FILE
    #[arg(long, value_name = "TEXT")]
    pub brief: Option<String>,
    /// Execute this script, - for standard input, or @FILE
    #[arg(long, value_name = "SOURCE")]
    pub script: Option<String>,
    /// The input
    #[arg(value_name = "KEY=VALUE")]
    pub pairs: Vec<Pair>,
    /// The input as a JSON object, - for standard input, or @FILE; KEY=VALUE stands over it
    #[arg(short, long, value_name = "JSON")]
    pub input: Option<String>,
    /// A title for lists
    #[arg(long)]
    pub title: Option<String>,
    /// Another agent of this home
    #[arg(long, value_name = "NAME")]
    pub agent_id: Option<Name>,
    /// The tools that it may use
    #[arg(long, value_name = "TOOLS", value_delimiter = ',')]
    pub tools: Option<Vec<String>>,
    /// The JSON Schema of the result that it owes, - for standard input, or @FILE
    #[arg(long, value_name = "SCHEMA")]
    pub output: Option<String>,
    /// Do not wait for the result
    #[arg(long)]
    pub detach: bool,
    /// The longest it may take, for example 20m
    #[arg(long, value_name = "TIME", value_parser = Period::parse)]
    pub wall: Option<Period>,
    /// The most model tokens
    #[arg(long, value_name = "N")]
    pub tokens: Option<u64>,
    /// The most it may cost in US dollars
    #[arg(long, value_name = "USD")]
    pub cost: Option<f64>,
    /// The most child runs, all generations
    #[arg(long, value_name = "N")]
    pub children: Option<u64>,
    /// The most generations below it
    #[arg(long, value_name = "N")]
    pub depth: Option<u64>,
}

impl Args {
    pub fn run(self, globals: &Globals, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        let base = self.input.as_deref().map(text).transpose()?;
        let mut arguments = self.arguments()?;
        block_on(async {
            let house = House::open(globals).await?;
            let schema = match arguments.get("recipe").and_then(Value::as_str) {
                Some(recipe) => house.desk.input_schema(recipe).await,
                None => None,
            };
            let code = match input(base.as_deref(), &self.pairs, schema.as_ref()) {
                Ok(input) => {
                    if !input.is_empty() {
                        arguments.insert("input".to_owned(), Value::Object(input));
                    }
                    Ok(ask_in(&house, terminal, Ask::new(Verb::Delegate, arguments)).await)
                }
                Err(error) => Err(error),
            };
            house.close().await;
            code
        })?
    }

    fn arguments(&self) -> anyhow::Result<Map<String, Value>> {
        let mut arguments = Map::new();
        let mut set = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                arguments.insert(key.to_owned(), value);
            }
        };
        let taken = |argument: &Option<String>| argument.as_deref().map(text).transpose();
        set(
            "recipe",
            self.recipe.as_deref().map(|recipe| address(recipe).into()),
        );
        set("brief", taken(&self.brief)?.map(Value::from));
        set("script", taken(&self.script)?.map(Value::from));
        set("title", self.title.clone().map(Value::from));
        set("agentId", self.agent_id.as_ref().map(|name| name.as_str().into()));
        set("tools", self.tools.clone().map(Value::from));
        let output = taken(&self.output)?
            .map(|schema| serde_json::from_str::<Value>(&schema).context("--output is no JSON"))
            .transpose()?;
        set("output", output);
        set("await", self.detach.then_some(Value::Bool(false)));
        let budget: Map<String, Value> = [
            ("wallSeconds", self.wall.map(|wall| json!(wall.0.as_secs_f64()))),
            ("tokens", self.tokens.map(Value::from)),
            ("costUsd", self.cost.map(Value::from)),
            ("children", self.children.map(Value::from)),
            ("depth", self.depth.map(Value::from)),
        ]
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), value?)))
        .collect();
        set("budget", (!budget.is_empty()).then_some(Value::Object(budget)));
        Ok(arguments)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use pentad_model::verb::Request;

    use super::*;
    use crate::args::Cli;
    use crate::commands::Command;

    #[test]
    fn every_flag_is_an_argument_that_the_verb_takes() {
        let words = [
            "pentad",
            "delegate",
            "--brief",
            "find it",
            "--title",
            "t",
            "--agent-id",
            "ada",
            "--tools",
            "a,b/",
            "--output",
            "{\"type\":\"object\"}",
            "--detach",
            "--wall",
            "20m",
            "--tokens",
            "5",
            "--cost",
            "0.5",
            "--children",
            "2",
            "--depth",
            "1",
        ];
        let Command::Delegate(args) = Cli::try_parse_from(words).unwrap().command else {
            panic!("not a delegate")
        };
        let arguments = args.arguments().unwrap();
        insta::assert_snapshot!(serde_json::to_string(&arguments).unwrap(), @r#"
        {"brief":"find it","title":"t","agentId":"ada","tools":["a","b/"],"output":{"type":"object"},"await":false,"budget":{"wallSeconds":1200.0,"tokens":5,"costUsd":0.5,"children":2,"depth":1}}
        "#);
        Request::parse(Verb::Delegate, &Value::Object(arguments)).unwrap();
        assert!(Cli::try_parse_from(["pentad", "delegate"]).is_err());
        assert!(Cli::try_parse_from(["pentad", "delegate", "--brief", "a", "--recipe", "b"]).is_err());
    }
}
