//! What the process around a command says: who calls, from where.

use std::io::IsTerminal;

use pentad_keeper::{Calling, Home, ancestors, caller_of, is_person_at_terminal, shell_thread};
use pentad_model::invocation::ThreadChoice;

use crate::args::Globals;
use crate::failure::{not_allowed, usage};

/// Finds the home that the arguments and the environment name, without touching it.
pub fn locate(globals: &Globals) -> anyhow::Result<Home> {
    let variable = std::env::var_os(pentad_keeper::home::HOME_VARIABLE);
    let home_dir = std::env::home_dir();
    Ok(Home::locate(
        globals.home.as_deref(),
        variable.as_deref(),
        home_dir.as_deref(),
    )?)
}

/// Finds the home and makes what is missing.
pub fn prepared_home(globals: &Globals) -> anyhow::Result<Home> {
    let home = locate(globals)?;
    home.prepare()?;
    Ok(home)
}

/// Decides who is calling.
pub fn calling() -> Calling {
    let environment: Vec<(String, String)> = std::env::vars_os()
        .map(|(name, value)| {
            (
                name.to_string_lossy().into_owned(),
                value.to_string_lossy().into_owned(),
            )
        })
        .collect();
    let pairs = environment
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()));
    caller_of(pairs, &ancestors())
}

/// Refuses unless a person sits at the terminal.
pub fn require_person_at_terminal(what: &str) -> anyhow::Result<()> {
    let calling = calling();
    if is_person_at_terminal(&calling, std::io::stdin().is_terminal()) {
        return Ok(());
    }
    let why = calling.evidence.map_or_else(
        || "standard input is no terminal".to_owned(),
        |evidence| format!("found {evidence}"),
    );
    Err(not_allowed(format!(
        "{what} needs a person at a terminal ({why})\nNext: run it in a terminal of your own, outside of any agent"
    )))
}

/// Refuses when an agent calls; scripts of a person may.
pub fn require_no_agent(what: &str) -> anyhow::Result<()> {
    match calling().evidence {
        None => Ok(()),
        Some(evidence) => Err(not_allowed(format!(
            "{what} is for a person, and this is an agent's shell (found {evidence})\nNext: ask a person to run it"
        ))),
    }
}

/// Chooses the thread: the named one, else one for each caller and agent.
pub fn thread_choice(globals: &Globals, calling: &Calling) -> anyhow::Result<ThreadChoice> {
    if let Some(text) = &globals.thread {
        let bare = text.strip_prefix("thread:").unwrap_or(text);
        bare.parse::<pentad_model::IdEnding>()
            .map_err(|error| usage(format!("--thread: {error}\nNext: pentad threads lists them")))?;
        return Ok(ThreadChoice::Id(bare.to_owned()));
    }
    Ok(ThreadChoice::Key(shell_thread(
        &calling.actor,
        globals.agent.as_ref(),
    )))
}
