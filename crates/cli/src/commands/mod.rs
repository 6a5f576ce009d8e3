//! The commands, one file each. Doc comments are the help text.

mod approvals;
mod attach;
mod call;
mod completions;
mod connect;
mod delegate;
mod disconnect;
mod doctor;
mod explain;
mod import;
mod keeper;
mod log;
mod mcp;
mod plan;
mod read;
mod register;
mod runs;
mod secret;
mod stop;
mod threads;
mod tools;
mod up;
mod write;

use std::process::ExitCode;

use clap::Subcommand;

use crate::args::Cli;
use crate::terminal::Terminal;

/// A command.
#[derive(Debug, Subcommand)]
pub enum Command {
    Read(read::Args),
    Write(write::Args),
    Call(call::Args),
    Delegate(delegate::Args),
    Plan(plan::Args),
    Tools(tools::Args),
    Register(register::Args),
    Explain(explain::Args),
    Connect(connect::Args),
    Disconnect(disconnect::Args),
    Import(import::Args),
    Threads(threads::Args),
    Runs(runs::Args),
    Log(log::Args),
    Approvals(approvals::Args),
    Attach(attach::Args),
    Secret(secret::Args),
    Up(up::Args),
    Stop(stop::Args),
    Mcp(mcp::Args),
    Doctor(doctor::Args),
    Completions(completions::Args),
    #[command(name = "__keeper", hide = true)]
    Keeper(keeper::Args),
    #[command(name = "__spawner", hide = true)]
    Spawner,
}

/// Runs a command.
pub fn run(cli: Cli, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    let Cli { globals, command } = cli;
    match command {
        Command::Read(args) => args.run(&globals, terminal),
        Command::Write(args) => args.run(&globals, terminal),
        Command::Call(args) => args.run(&globals, terminal),
        Command::Delegate(args) => args.run(&globals, terminal),
        Command::Plan(args) => args.run(&globals, terminal),
        Command::Tools(args) => args.run(&globals, terminal),
        Command::Register(args) => args.run(&globals, terminal),
        Command::Explain(args) => args.run(&globals, terminal),
        Command::Connect(args) => args.run(&globals, terminal),
        Command::Disconnect(args) => args.run(&globals, terminal),
        Command::Import(args) => args.run(&globals, terminal),
        Command::Threads(args) => args.run(&globals, terminal),
        Command::Runs(args) => args.run(&globals, terminal),
        Command::Log(args) => args.run(&globals, terminal),
        Command::Approvals(args) => args.run(&globals, terminal),
        Command::Attach(args) => args.run(&globals, terminal),
        Command::Secret(args) => args.run(&globals, terminal),
        Command::Up(args) => args.run(&globals, terminal),
        Command::Stop(args) => args.run(&globals, terminal),
        Command::Mcp(args) => args.run(&globals, terminal),
        Command::Doctor(args) => args.run(&globals, terminal),
        Command::Completions(args) => args.run(terminal),
        Command::Keeper(args) => args.run(&globals, terminal),
        Command::Spawner => Ok(pentad_process::spawner_main()),
    }
}
