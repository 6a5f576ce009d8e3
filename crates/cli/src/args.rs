//! The command line: what every command takes, and the commands.

use std::path::PathBuf;

use clap::{Args, Parser, ValueEnum};
use pentad_model::Name;

use crate::commands::Command;

const EXAMPLES: &str = "\
Examples:
  pentad tools search \"transcribe audio\"
  pentad register transcribe \"whisper {file:path} --lang {lang=en}\"
  pentad call transcribe file=talk.mp3
  pentad read ~/memory/
  pentad connect github --env GITHUB_TOKEN='${secret:github}' -- github-mcp-server stdio

Addresses: ~/memory/… ~/tools/… ~/self thread: run: activity: approval: attachment: file: https://…
Exit codes: 0 done, 1 failed, 2 wrong usage, 3 refused, 4 waiting for an approval.";

/// Five verbs instead of fifty tools: read, write, call, delegate, plan.
///
/// Everything has an address, and every capability is a tool document. A person, a script and any MCP client use the
/// same five verbs on the same home, and what happened stands in one journal.
#[derive(Debug, Parser)]
#[command(name = "pentad", version, after_help = EXAMPLES, max_term_width = 100, disable_help_subcommand = true)]
pub struct Cli {
    #[command(flatten)]
    pub globals: Globals,
    #[command(subcommand)]
    pub command: Command,
}

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum ColorChoice {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// What every command takes.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Everywhere")]
pub struct Globals {
    /// The home directory of this Pentad [default: $PENTAD_HOME, else ~/.pentad]
    #[arg(long, global = true, value_name = "DIR")]
    pub home: Option<PathBuf>,
    /// Print the whole outcome as JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// The agent whose memory and grants a new thread uses [default: main]
    #[arg(long, global = true, value_name = "NAME")]
    pub agent: Option<Name>,
    /// The thread to work in: an id, or its last eight characters or more
    #[arg(long, global = true, value_name = "ID")]
    pub thread: Option<String>,
    /// The folder to work in [default: this one, unless it is / or the home directory]
    #[arg(long, global = true, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// When to use colours: auto, always or never
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true,
        hide_default_value = true
    )]
    pub color: ColorChoice,
    /// Do everything in this process instead of a keeper of this home
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        env = "PENTAD_IN_PROCESS",
        hide_env_values = true,
        value_parser = clap::builder::FalseyValueParser::new()
    )]
    pub in_process: bool,
}

#[cfg(test)]
mod tests {
    use clap::{Command, CommandFactory};

    use super::*;

    fn every_help(command: &mut Command, path: &str, visit: &mut impl FnMut(&str, String)) {
        visit(path, command.render_long_help().to_string());
        let names: Vec<String> = command
            .get_subcommands()
            .filter(|sub| !sub.is_hide_set())
            .map(|sub| sub.get_name().to_owned())
            .collect();
        for name in names {
            if let Some(sub) = command.find_subcommand_mut(&name) {
                every_help(sub, &format!("{path}-{name}"), visit);
            }
        }
    }

    #[test]
    fn every_help_text_is_as_reviewed() {
        let mut command = Cli::command().term_width(100);
        command.build();
        every_help(&mut command, "pentad", &mut |path, text| {
            let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
            insta::assert_snapshot!(path, lines.join("\n"));
        });
    }

    #[test]
    fn every_command_has_an_example() {
        let mut command = Cli::command();
        command.build();
        every_help(&mut command, "pentad", &mut |path, text| {
            assert!(text.contains("Example"), "{path} shows no example");
        });
    }

    #[test]
    fn the_arguments_contradict_nothing() {
        Cli::command().debug_assert();
    }
}
