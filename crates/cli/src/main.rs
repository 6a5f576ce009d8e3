//! Pentad: five verbs instead of fifty tools.

mod address_arg;
mod args;
mod commands;
mod failure;
mod fill;
mod house;
mod input_arg;
mod invoke;
mod keep;
mod logging;
mod parent;
mod render;
mod shell;
mod terminal;
mod text_arg;
mod wire;

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser;

use crate::args::Cli;
use crate::terminal::Terminal;

fn main() -> ExitCode {
    // The spawner must exist before any thread does, and needs nothing of what follows.
    if std::env::args_os()
        .nth(1)
        .is_some_and(|argument| argument == wire::SPAWNER_ARGUMENT)
    {
        return pentad_process::spawner_main();
    }
    // Scripts ask for the version often, and building all the commands takes longer than answering.
    if std::env::args_os().len() == 2
        && std::env::args_os()
            .nth(1)
            .is_some_and(|a| a == "--version" || a == "-V")
    {
        let _ = writeln!(std::io::stdout(), "pentad {}", env!("CARGO_PKG_VERSION"));
        return ExitCode::SUCCESS;
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // A reader that went away (`pentad --help | head`) is no failure of ours.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    let terminal = Terminal::detect(&cli.globals);
    logging::start(&terminal);
    match commands::run(cli, &terminal) {
        Ok(code) => code,
        Err(error) => failure::report(&error, &terminal),
    }
}
