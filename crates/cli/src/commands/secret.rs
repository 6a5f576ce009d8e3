use std::io::{IsTerminal, Read, Write};
use std::process::ExitCode;

use anyhow::Context;
use clap::Subcommand;
use pentad_keeper::secrets::MAX_SECRET_BYTES;
use pentad_keeper::{SecretName, SecretValue, Secrets};

use crate::args::Globals;
use crate::failure::usage;
use crate::render::Rendered;
use crate::shell::{prepared_home, require_person_at_terminal};
use crate::terminal::Terminal;

const EXAMPLES: &str = "\
Examples:
  pentad secret set github
  gh auth token | pentad secret set github
  pentad secret list
  pentad connect github --env GITHUB_TOKEN='${secret:github}' -- github-mcp-server stdio";

/// Keep values that config.toml refers to as ${secret:NAME}
///
/// They lie in keys/secrets.toml of the home, readable by its owner only, and are shown to nobody but a person at a
/// terminal.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    pub action: Action,
}

#[derive(Debug, Subcommand)]
pub enum Action {
    /// Set a secret, from standard input or a prompt; never from an argument, which others could see
    #[command(after_help = "Examples:\n  pentad secret set openai\n  cat key.txt | pentad secret set openai")]
    Set {
        /// Its name
        name: SecretName,
    },
    /// List the names
    #[command(after_help = "Example:\n  pentad secret list")]
    List,
    /// Remove a secret
    #[command(after_help = "Example:\n  pentad secret rm openai")]
    Rm {
        /// Its name
        name: SecretName,
    },
    /// Show a value; needs a person at a terminal
    #[command(after_help = "Example:\n  pentad secret show openai")]
    Show {
        /// Its name
        name: SecretName,
    },
}

impl Args {
    pub fn run(self, globals: &Globals, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        if matches!(self.action, Action::Show { .. }) {
            require_person_at_terminal("showing a secret")?;
        }
        let secrets = Secrets::of(&prepared_home(globals)?);
        let rendered = match self.action {
            Action::Set { name } => {
                let replaced = secrets.set(&name, &value(&name)?)?;
                let word = if replaced { "Replaced" } else { "Set" };
                Rendered {
                    out: format!("{word} {name}.\n"),
                    err: format!("Next: refer to it in config.toml as ${{secret:{name}}}\n"),
                    code: 0,
                }
            }
            Action::List => list(&secrets, terminal)?,
            Action::Rm { name } => match secrets.remove(&name)? {
                true => Rendered::data(format!("Removed {name}.\n"), 0),
                false => missing(&name),
            },
            Action::Show { name } => match secrets.get(&name)? {
                Some(value) => Rendered::data(format!("{}\n", value.reveal()), 0),
                None => missing(&name),
            },
        };
        Ok(terminal.emit(&rendered))
    }
}

fn missing(name: &SecretName) -> Rendered {
    Rendered::notice(
        format!("error: there is no secret '{name}'\nNext: pentad secret list shows the names\n"),
        1,
    )
}

fn list(secrets: &Secrets, terminal: &Terminal) -> anyhow::Result<Rendered> {
    let names: Vec<String> = secrets.list()?.iter().map(ToString::to_string).collect();
    if terminal.json {
        return Ok(Rendered::data(
            format!("{}\n", serde_json::json!({"secrets": names})),
            0,
        ));
    }
    if names.is_empty() {
        return Ok(Rendered::notice(
            "There are no secrets.\nNext: pentad secret set NAME\n",
            0,
        ));
    }
    Ok(Rendered::data(names.join("\n") + "\n", 0))
}

fn value(name: &SecretName) -> anyhow::Result<SecretValue> {
    let stdin = std::io::stdin();
    let text = if stdin.is_terminal() {
        prompt(&format!("Value of {name} (not shown): "))?
    } else {
        let mut text = String::new();
        let most = MAX_SECRET_BYTES as u64 + 2;
        stdin
            .lock()
            .take(most)
            .read_to_string(&mut text)
            .context("standard input is no UTF-8 text")?;
        text
    };
    let value = text.strip_suffix('\n').unwrap_or(&text);
    let value = value.strip_suffix('\r').unwrap_or(value);
    if value.is_empty() {
        return Err(usage(format!(
            "no value was given for {name}; nothing was changed"
        )));
    }
    Ok(SecretValue::new(value.to_owned()))
}

/// Reads a line from the terminal without showing it; the terminal is put back whatever happens.
pub fn prompt(question: &str) -> anyhow::Result<String> {
    use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
    let stdin = std::io::stdin();
    let before = tcgetattr(&stdin)?;
    let mut silent = before.clone();
    silent.local_modes.remove(LocalModes::ECHO);
    let mut err = std::io::stderr().lock();
    err.write_all(question.as_bytes())?;
    err.flush()?;
    // Flushing drops what was typed ahead, visibly.
    tcsetattr(&stdin, OptionalActions::Flush, &silent)?;
    let mut line = String::new();
    let read = stdin.read_line(&mut line);
    tcsetattr(&stdin, OptionalActions::Now, &before)?;
    err.write_all(b"\n")?;
    read?;
    Ok(line)
}
