use std::process::ExitCode;

use clap::Subcommand;
use serde_json::{Map, Value};

use crate::args::Globals;
use crate::invoke::{Ask, ask};
use crate::terminal::Terminal;

const EXAMPLES: &str = "\
Examples:
  pentad tools
  pentad tools github/create_issue
  pentad tools search \"convert a video\"
  pentad tools list --source github";

/// List, search and show tools
///
/// Without anything it lists them; with a name it shows that tool's contract.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    pub action: Option<Action>,
    /// Show this tool: NAME or SOURCE/NAME
    pub name: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum Action {
    /// List the tools
    #[command(after_help = "Example:\n  pentad tools list --source recipes")]
    List {
        /// Only tools of this source
        #[arg(long, value_name = "NAME")]
        source: Option<String>,
        /// Most entries
        #[arg(long, value_name = "N")]
        limit: Option<u64>,
    },
    /// Search by what a tool should do
    #[command(after_help = "Example:\n  pentad tools search send a message to a channel --limit 3")]
    Search {
        /// What it should do
        #[arg(required = true)]
        words: Vec<String>,
        /// Only tools of this source
        #[arg(long, value_name = "NAME")]
        source: Option<String>,
        /// Most entries
        #[arg(long, value_name = "N")]
        limit: Option<u64>,
    },
    /// Show a tool's contract
    #[command(after_help = "Example:\n  pentad tools show transcribe")]
    Show {
        /// NAME or SOURCE/NAME
        name: String,
    },
}

impl Args {
    pub fn run(self, globals: &Globals, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        ask(globals, terminal, self.request())
    }

    fn request(self) -> Ask {
        match (self.action, self.name) {
            (Some(Action::List { source, limit }), _) => listing(None, source, limit),
            (Some(Action::Search { words, source, limit }), _) => {
                listing(Some(words.join(" ")), source, limit)
            }
            (Some(Action::Show { name }), _) | (None, Some(name)) => show(&name),
            (None, None) => listing(None, None, None),
        }
    }
}

fn listing(query: Option<String>, source: Option<String>, limit: Option<u64>) -> Ask {
    let options: Map<String, Value> = [
        ("query", query.map(Value::from)),
        ("source", source.map(Value::from)),
        ("limit", limit.map(Value::from)),
    ]
    .into_iter()
    .filter_map(|(key, value)| Some((key.to_owned(), value?)))
    .collect();
    Ask::read("~/tools/", options)
}

fn show(name: &str) -> Ask {
    let name = crate::address_arg::address(name);
    let bare = name.strip_prefix("~/tools/");
    let address = match bare {
        Some(_) => name.clone(),
        None => format!("~/tools/{}", pentad_model::address::encode_tool_name(&name)),
    };
    Ask::read(&address, Map::new())
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;
    use crate::args::Cli;
    use crate::commands::Command;

    #[test]
    fn a_word_is_a_tool_unless_it_is_an_action() {
        let arguments = |words: &[&str]| {
            let cli = Cli::try_parse_from([&["pentad", "tools"], words].concat()).unwrap();
            match cli.command {
                Command::Tools(args) => Value::Object(args.request().arguments),
                _ => panic!("not tools"),
            }
        };
        assert_eq!(arguments(&[]), json!({"address": "~/tools/"}));
        assert_eq!(
            arguments(&["github/a b"]),
            json!({"address": "~/tools/github/a%20b"})
        );
        assert_eq!(
            arguments(&["show", "search"]),
            json!({"address": "~/tools/search"})
        );
        assert_eq!(
            arguments(&["search", "send", "mail", "--limit", "3"]),
            json!({"address": "~/tools/", "options": {"query": "send mail", "limit": 3}})
        );
    }
}
