use std::process::ExitCode;

use pentad_model::Verb;
use pentad_model::address::Family;
use pentad_model::options::{VIEW, read_options};
use serde_json::{Map, Value};

use crate::address_arg::address;
use crate::args::Globals;
use crate::input_arg::{Pair, options};
use crate::invoke::{Ask, ask};
use crate::render::Ending;
use crate::terminal::Terminal;

const EXAMPLES: &str = "\
Examples:
  pentad read ~/tools/ --option query=\"send a message\"
  pentad read ~/memory/notes.md --lines 1-20
  pentad read run:nightly/output --grep error
  pentad read https://example.org
  pentad read --raw file:data.bin > copy.bin
  pentad read activity: --option actor=client:claude-code --format json";

/// How a result is rendered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For reading
    Markdown,
    /// The structured value
    Json,
}

/// Read anything by its address
///
/// Memory, tools, threads, runs and their output, what happened, files, web pages, resources of servers: all have an
/// address. A trailing / lists. Long texts are read in parts with --lines, --bytes or --grep.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The address, for example ~/memory/notes.md, thread: or file:README.md
    pub address: String,
    /// An option of this kind of address
    #[arg(short, long = "option", value_name = "KEY=VALUE")]
    pub options: Vec<Pair>,
    /// Only these lines: 10-20, 10-, or -20 for the last twenty
    #[arg(long, value_name = "RANGE", allow_hyphen_values = true)]
    pub lines: Option<String>,
    /// Only these bytes: 0-4095, 4096-, or -4096
    #[arg(long, value_name = "RANGE", allow_hyphen_values = true)]
    pub bytes: Option<String>,
    /// Only lines that match this regular expression
    #[arg(long, value_name = "REGEX")]
    pub grep: Option<String>,
    /// The text exactly as it is: of a web page the body, in a pipe no line break at the end
    #[arg(long)]
    pub raw: bool,
    /// How to render it
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<Format>,
}

impl Args {
    pub fn run(self, globals: &Globals, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        ask(globals, terminal, self.request()?)
    }

    fn request(self) -> anyhow::Result<Ask> {
        let address = address(&self.address);
        let family = pentad_model::Address::parse(&address)
            .ok()
            .map(|parsed| parsed.family());
        let own = family.map_or(&[][..], read_options);
        let mut options = options(&self.options, &[own, VIEW])?;
        for (key, value) in [("lines", self.lines), ("bytes", self.bytes), ("grep", self.grep)] {
            if let Some(value) = value {
                options.insert(key.to_owned(), value.into());
            }
        }
        if self.raw && family == Some(Family::Web) {
            options.insert("raw".to_owned(), true.into());
        }
        let mut arguments = Map::new();
        arguments.insert("address".to_owned(), address.into());
        if let Some(format) = self.format {
            let word = match format {
                Format::Markdown => "markdown",
                Format::Json => "json",
            };
            arguments.insert("format".to_owned(), word.into());
        }
        if !options.is_empty() {
            arguments.insert("options".to_owned(), Value::Object(options));
        }
        Ok(Ask {
            ending: if self.raw { Ending::Exact } else { Ending::Line },
            ..Ask::new(Verb::Read, arguments)
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use crate::args::Cli;
    use crate::commands::Command;

    fn arguments(words: &[&str]) -> serde_json::Value {
        let cli = Cli::try_parse_from([&["pentad", "read"], words].concat()).unwrap();
        match cli.command {
            Command::Read(args) => serde_json::Value::Object(args.request().unwrap().arguments),
            _ => panic!("not a read"),
        }
    }

    #[test]
    fn flags_are_options_of_the_read() {
        assert_eq!(
            arguments(&["~/tools/", "-o", "limit=5", "-o", "query=a b", "--format", "json"]),
            json!({"address": "~/tools/", "format": "json", "options": {"limit": 5, "query": "a b"}})
        );
        assert_eq!(
            arguments(&["file:x", "--lines", "-20", "--grep", "a"]),
            json!({"address": "file:x", "options": {"lines": "-20", "grep": "a"}})
        );
        assert_eq!(arguments(&["file:x", "--raw"]), json!({"address": "file:x"}));
        assert_eq!(
            arguments(&["https://x.example/", "--raw"]),
            json!({"address": "https://x.example/", "options": {"raw": true}})
        );
        assert_eq!(arguments(&["nonsense"]), json!({"address": "nonsense"}));
    }
}
