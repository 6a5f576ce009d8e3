use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Cli;
use crate::render::Rendered;
use crate::terminal::Terminal;

const EXAMPLES: &str = "\
Examples:
  pentad completions bash > ~/.local/share/bash-completion/completions/pentad
  pentad completions zsh > ~/.zfunc/_pentad
  pentad completions fish > ~/.config/fish/completions/pentad.fish";

/// Print completions for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The shell
    pub shell: Shell,
}

impl Args {
    pub fn run(self, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "pentad", &mut script);
        let script = String::from_utf8(script)?;
        Ok(terminal.emit(&Rendered::data(script, 0)))
    }
}
