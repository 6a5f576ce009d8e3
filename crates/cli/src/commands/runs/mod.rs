mod watch;

use std::process::ExitCode;

use clap::{Subcommand, ValueEnum};
use pentad_model::Verb;
use serde_json::{Map, Value, json};

use crate::args::Globals;
use crate::failure::usage;
use crate::invoke::{Ask, ask};
use crate::render::Ending;
use crate::terminal::Terminal;
use crate::text_arg::text;

const EXAMPLES: &str = "\
Examples:
  pentad runs --status failed
  pentad runs nightly
  pentad runs nightly journal
  pentad runs 7k2m9q4x output > result.txt
  pentad runs tree
  pentad runs watch nightly
  pentad runs signal nightly approve '{\"by\": \"ada\"}'
  pentad runs cancel 7k2m9q4x --reason \"wrong branch\"

A run whose name is that of a command below is written run:NAME.";

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

/// List runs, show one, or tell one something
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, disable_help_subcommand = true)]
pub struct Args {
    #[command(subcommand)]
    pub action: Option<Action>,
    /// The run: its name, its id, or the id's last eight characters or more
    pub run: Option<String>,
    /// The part to show
    pub part: Option<PartName>,
    /// Only runs of this status
    #[arg(long, value_name = "STATUS", conflicts_with = "run", value_parser = clap::builder::PossibleValuesParser::new(pentad_model::run::RunStatus::WORDS))]
    pub status: Option<String>,
    /// Verbs that succeeded, too
    #[arg(long, conflicts_with = "run")]
    pub all: bool,
    /// Most entries
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// Continue after this mark of the last page
    #[arg(long, value_name = "MARK")]
    pub after: Option<String>,
}

/// What can be done with runs besides showing one.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Show who started whom, where each stands, and what it waits for
    #[command(
        after_help = "Examples:\n  pentad runs tree\n  pentad runs tree nightly\n  pentad runs tree --status waiting"
    )]
    Tree {
        /// The run at the top; without it, the newest trees
        root: Option<String>,
        /// Only trees with runs of this status
        #[arg(long, value_name = "STATUS", conflicts_with = "root", value_parser = clap::builder::PossibleValuesParser::new(pentad_model::run::RunStatus::WORDS))]
        status: Option<String>,
        /// Most trees
        #[arg(long, value_name = "N", conflicts_with = "root")]
        limit: Option<u64>,
        /// Continue after this mark of the last page
        #[arg(long, value_name = "MARK", conflicts_with = "root")]
        after: Option<String>,
    },
    /// Follow a tree until the run at its top has ended
    ///
    /// On a terminal the tree is drawn anew as it changes; elsewhere each change of a run is a line, with --json an object.
    /// Exit code 1 when the run did not end well. Without a run, the newest trees are followed until you interrupt.
    #[command(
        after_help = "Examples:\n  pentad runs watch nightly\n  pentad runs watch 7k2m9q4x --json | jq .status"
    )]
    Watch {
        /// The run at the top; without it, the newest trees
        root: Option<String>,
    },
    /// End a run and everything below it
    ///
    /// What is being done is ended first, processes included: the run is canceled when nothing of it is left.
    #[command(
        after_help = "Examples:\n  pentad runs cancel nightly\n  pentad runs cancel 7k2m9q4x --reason \"wrong branch\""
    )]
    Cancel {
        /// The run: its name, its id, or the id's last eight characters or more
        run: String,
        /// Why, for whoever reads its record
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Send an event to a run
    ///
    /// It is delivered once: now, or when the run waits for it.
    #[command(
        after_help = "Examples:\n  pentad runs signal nightly approve\n  pentad runs signal nightly approve '{\"by\": \"ada\"}'\n  pentad runs signal nightly data @data.json"
    )]
    Signal {
        /// The run: its name, its id, or the id's last eight characters or more
        run: String,
        /// The name of the event
        event: String,
        /// Its value, JSON or text; - for standard input, or @FILE
        value: Option<String>,
    },
    /// Answer what a run waits for
    ///
    /// pentad runs why RUN shows the places and what each waits for. More budget is an object of wallSeconds, tokens,
    /// costUsd, children and depth, where each limit takes the place of the old one.
    #[command(
        after_help = "Examples:\n  pentad runs answer nightly 4 '{\"tokens\": 200000}'\n  pentad runs answer nightly 2 '\"yes\"'"
    )]
    Answer {
        /// The run: its name, its id, or the id's last eight characters or more
        run: String,
        /// The place that waits
        position: u32,
        /// The answer as JSON, - for standard input, or @FILE; variables need none
        #[arg(value_name = "JSON")]
        answer: Option<String>,
    },
    /// Start a run that has ended again, from its beginning, as a new run
    #[command(after_help = "Example:\n  pentad runs retry 7k2m9q4x")]
    Retry {
        /// The run: its name, its id, or the id's last eight characters or more
        run: String,
    },
    /// Say why a run stands where it stands, and what ends its wait
    #[command(after_help = "Example:\n  pentad runs why nightly")]
    Why {
        /// The run: its name, its id, or the id's last eight characters or more
        run: String,
    },
}

impl Args {
    pub fn run(self, globals: &Globals, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        self.check()?;
        match self.action {
            None => ask(globals, terminal, self.request(globals.thread.as_deref())),
            Some(Action::Watch { root }) => watch::watch(globals, terminal, root.as_deref()),
            Some(action) => ask(globals, terminal, action.request(globals.thread.as_deref())?),
        }
    }

    /// Refuses what stands before a command and would be passed over.
    fn check(&self) -> anyhow::Result<()> {
        let stray = self.run.is_some() || self.part.is_some() || self.status.is_some();
        let stray = stray || self.all || self.limit.is_some() || self.after.is_some();
        if self.action.is_some() && stray {
            return Err(usage(
                "what stands before the command belongs to lists and single runs\nNext: write it after the command, as \
                 in pentad runs tree --status failed; a run whose name is that of a command is written run:NAME",
            ));
        }
        Ok(())
    }

    fn request(self, thread: Option<&str>) -> Ask {
        let listing = self.run.is_none();
        let thread = thread.filter(|_| listing).map(str::to_owned);
        let options = given([
            ("status", self.status.map(Value::from)),
            ("thread", thread.map(Value::from)),
            ("all", self.all.then_some(Value::Bool(true))),
            ("limit", self.limit.map(Value::from)),
            ("after", self.after.map(Value::from)),
        ]);
        let run = self.run.unwrap_or_default();
        let part = match self.part {
            None => "",
            Some(PartName::Journal) => "/journal",
            Some(PartName::Output) => "/output",
            Some(PartName::Artifacts) => "/artifacts",
        };
        let mut ask = Ask::read(&address(&run, part), options);
        if self.part == Some(PartName::Output) {
            ask.ending = Ending::Exact;
        }
        ask
    }
}

impl Action {
    fn request(self, thread: Option<&str>) -> anyhow::Result<Ask> {
        Ok(match self {
            Self::Tree { root: Some(root), .. } => tree(Some(&root)),
            Self::Tree {
                root: None,
                status,
                limit,
                after,
            } => {
                let options = given([
                    ("tree", Some(Value::Bool(true))),
                    ("status", status.map(Value::from)),
                    ("thread", thread.map(Value::from)),
                    ("limit", limit.map(Value::from)),
                    ("after", after.map(Value::from)),
                ]);
                Ask::read("run:", options)
            }
            Self::Watch { root } => tree(root.as_deref()),
            Self::Cancel { run, reason } => steer(&run, json!({"cancel": true}), reason),
            Self::Signal { run, event, value } => {
                let value = value.as_deref().map(text).transpose()?;
                steer(&run, json!({"signal": event}), value)
            }
            Self::Answer {
                run,
                position,
                answer,
            } => {
                let answer = answer.as_deref().map(text).transpose()?;
                steer(&run, json!({"answer": position}), answer)
            }
            Self::Retry { run } => steer(&run, json!({"retry": true}), None),
            Self::Why { run } => Ask::read(&address(&run, "/why"), Map::new()),
        })
    }
}

/// Returns the address of a run, however it was written.
fn address(run: &str, part: &str) -> String {
    format!("run:{}{part}", run.strip_prefix("run:").unwrap_or(run))
}

fn given<const N: usize>(options: [(&str, Option<Value>); N]) -> Map<String, Value> {
    options
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), value?)))
        .collect()
}

/// Returns the request of a tree, or of the newest ones.
fn tree(root: Option<&str>) -> Ask {
    let address = address(root.unwrap_or_default(), "");
    Ask::read(&address, given([("tree", Some(Value::Bool(true)))]))
}

fn steer(run: &str, options: Value, content: Option<String>) -> Ask {
    let arguments = given([
        ("address", Some(address(run, "").into())),
        ("options", Some(options)),
        ("content", content.map(Value::from)),
    ]);
    Ask::new(Verb::Write, arguments)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use pentad_model::verb::Request;

    use super::*;
    use crate::args::Cli;
    use crate::commands::Command;

    fn asked(words: &[&str]) -> Ask {
        let cli = Cli::try_parse_from([&["pentad", "runs"], words].concat()).unwrap();
        let Command::Runs(args) = cli.command else {
            panic!("not runs")
        };
        match args.action {
            Some(action) => action.request(Some("7k2m9q4x")).unwrap(),
            None => args.request(Some("7k2m9q4x")),
        }
    }

    #[test]
    fn every_command_is_a_request_that_the_verb_takes() {
        let commands: [&[&str]; 16] = [
            &[],
            &["--status", "failed", "--all", "--limit", "3", "--after", "x"],
            &["nightly"],
            &["nightly", "output"],
            &["run:tree", "journal", "--limit", "5"],
            &["tree"],
            &["tree", "--status", "waiting", "--limit", "2"],
            &["tree", "run:nightly"],
            &["cancel", "nightly"],
            &["cancel", "run:nightly", "--reason", "wrong branch"],
            &["signal", "nightly", "approve"],
            &["signal", "nightly", "approve", "{\"by\": \"ada\"}"],
            &["answer", "nightly", "4", "{\"tokens\": 2000}"],
            &["answer", "nightly", "5"],
            &["retry", "nightly"],
            &["why", "nightly"],
        ];
        let mut shown = String::new();
        for words in commands {
            let Ask { verb, arguments, .. } = asked(words);
            shown.push_str(&format!(
                "runs {}\n  {verb} {}\n",
                words.join(" "),
                Value::Object(arguments.clone())
            ));
            Request::parse(verb, &Value::Object(arguments)).unwrap();
        }
        insta::assert_snapshot!(shown);
    }

    #[test]
    fn what_belongs_to_a_list_is_refused_beside_a_command() {
        let parsed = |words: &[&str]| Cli::try_parse_from([&["pentad", "runs"], words].concat());
        for words in [
            &["tree", "x", "--limit", "3"][..],
            &["answer", "x", "y", "1"],
            &["cancel"],
            &["signal", "x"],
            &["nightly", "reasons"],
        ] {
            assert!(parsed(words).is_err(), "{words:?}");
        }
        for (words, fits) in [
            (&["--status", "failed", "tree"][..], false),
            (&["nightly", "tree"], false),
            (&["--json", "tree"], true),
            (&["--json", "nightly"], true),
        ] {
            let Command::Runs(args) = parsed(words).unwrap().command else {
                panic!("not runs")
            };
            assert_eq!(args.check().is_ok(), fits, "{words:?}");
        }
    }
}
