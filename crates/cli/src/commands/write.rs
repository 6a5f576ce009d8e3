use std::process::ExitCode;

use pentad_model::Verb;
use pentad_model::options::write_form;
use serde_json::{Map, Value};

use crate::address_arg::address;
use crate::args::Globals;
use crate::input_arg::{Pair, options};
use crate::invoke::{Ask, ask};
use crate::terminal::Terminal;
use crate::text_arg::text;

const EXAMPLES: &str = "\
Examples:
  pentad write ~/memory/notes.md \"Buy milk\"
  pentad write ~/memory/log.txt @build.log
  date | pentad write ~/memory/today -
  pentad write ~/memory/old.md --delete
  pentad write ~/memory/page.html --option fromUrl=https://example.org
  pentad write ~/tools/transcribe @transcribe.md --dry-run";

/// Write to an address
///
/// The content replaces what was there. Use - for standard input and @FILE for a file (@@ for a text that begins
/// with @).
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The address, for example ~/memory/notes.md
    pub address: String,
    /// The new content, - for standard input, or @FILE
    pub content: Option<String>,
    /// An option of this kind of address
    #[arg(short, long = "option", value_name = "KEY=VALUE")]
    pub options: Vec<Pair>,
    /// Delete instead of writing
    #[arg(long, conflicts_with = "content")]
    pub delete: bool,
    /// Check everything, change nothing
    #[arg(long)]
    pub dry_run: bool,
}

impl Args {
    pub fn run(self, globals: &Globals, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        ask(globals, terminal, self.request()?)
    }

    fn request(self) -> anyhow::Result<Ask> {
        let address = address(&self.address);
        let form = pentad_model::Address::parse(&address)
            .ok()
            .and_then(|parsed| write_form(parsed.family()));
        let mut options = options(&self.options, &[form.map_or(&[], |form| form.options)])?;
        if self.delete {
            options.insert("delete".to_owned(), true.into());
        }
        let mut arguments = Map::new();
        arguments.insert("address".to_owned(), address.into());
        if let Some(content) = self.content {
            arguments.insert("content".to_owned(), text(&content)?.into());
        }
        if !options.is_empty() {
            arguments.insert("options".to_owned(), Value::Object(options));
        }
        if self.dry_run {
            arguments.insert("dryRun".to_owned(), true.into());
        }
        Ok(Ask::new(Verb::Write, arguments))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use crate::args::Cli;
    use crate::commands::Command;

    #[test]
    fn content_options_and_switches_become_arguments() {
        let arguments = |words: &[&str]| {
            let cli = Cli::try_parse_from([&["pentad", "write"], words].concat()).unwrap();
            match cli.command {
                Command::Write(args) => serde_json::Value::Object(args.request().unwrap().arguments),
                _ => panic!("not a write"),
            }
        };
        assert_eq!(
            arguments(&["~/memory/a", "x", "--dry-run"]),
            json!({"address": "~/memory/a", "content": "x", "dryRun": true})
        );
        assert_eq!(
            arguments(&["~/memory/a", "--delete"]),
            json!({"address": "~/memory/a", "options": {"delete": true}})
        );
        assert_eq!(
            arguments(&["~/tools/a", "-o", "tool={\"template\":\"ls\"}"]),
            json!({"address": "~/tools/a", "options": {"tool": {"template": "ls"}}})
        );
        assert!(Cli::try_parse_from(["pentad", "write", "~/memory/a", "x", "--delete"]).is_err());
    }
}
