use std::process::ExitCode;

use clap::Subcommand;
use pentad_model::approval::{ApprovalState, Scope};
use pentad_model::{IdEnding, Refusal, Status};
use pentad_program::Answer;
use serde_json::{Map, Value, json};

use crate::args::Globals;
use crate::failure::usage;
use crate::house::House;
use crate::invoke::{Ask, ask, block_on};
use crate::render::Rendered;
use crate::shell::require_person_at_terminal;
use crate::terminal::Terminal;

const EXAMPLES: &str = "\
Examples:
  pentad approvals
  pentad approvals show 7k2m9q4x
  pentad approvals grant 7k2m9q4x
  pentad approvals grant 7k2m9q4x --always
  pentad approvals deny 7k2m9q4x";

/// See and answer what waits for a person
///
/// An approval is bound to the actor, the act, its input and everything that would run: when one of them changes, it
/// is void. Granting and denying need a person at a terminal.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    pub action: Option<Action>,
}

#[derive(Debug, Subcommand)]
pub enum Action {
    /// List approvals; without --state the open ones
    #[command(after_help = "Example:\n  pentad approvals list --state granted")]
    List {
        /// Only of this state
        #[arg(long, default_value = "open", value_parser = ["open", "granted", "used", "denied", "expired", "void", "all"])]
        state: String,
        /// Most entries
        #[arg(long, value_name = "N")]
        limit: Option<u64>,
    },
    /// Show one with its question and input
    #[command(after_help = "Example:\n  pentad approvals show 7k2m9q4x")]
    Show {
        /// The approval: its id, or the id's last eight characters or more
        id: String,
    },
    /// Permit it
    #[command(
        after_help = "Examples:\n  pentad approvals grant 7k2m9q4x\n  pentad approvals grant 7k2m9q4x --run"
    )]
    Grant {
        /// The approval: its id, or the id's last eight characters or more
        id: String,
        /// For this input, one time (the default)
        #[arg(long, group = "scope")]
        once: bool,
        /// For every call of the tool by the same actor in this thread
        #[arg(long, group = "scope")]
        run: bool,
        /// For every call of the tool, as it is now, by the same actor
        #[arg(long, group = "scope")]
        always: bool,
    },
    /// Refuse it
    #[command(after_help = "Example:\n  pentad approvals deny 7k2m9q4x")]
    Deny {
        /// The approval: its id, or the id's last eight characters or more
        id: String,
    },
}

impl Args {
    pub fn run(self, globals: &Globals, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        match self.action {
            None => ask(globals, terminal, listing("open", None)),
            Some(Action::List { state, limit }) => ask(globals, terminal, listing(&state, limit)),
            Some(Action::Show { id }) => {
                let id = ending(&id)?;
                ask(
                    globals,
                    terminal,
                    Ask::read(&format!("approval:{id}"), Map::new()),
                )
            }
            Some(Action::Grant { id, run, always, .. }) => {
                let scope = match (run, always) {
                    (true, _) => Scope::Run,
                    (_, true) => Scope::Always,
                    _ => Scope::Once,
                };
                answer_in(globals, terminal, &ending(&id)?, Answer::Granted(scope))
            }
            Some(Action::Deny { id }) => answer_in(globals, terminal, &ending(&id)?, Answer::Denied),
        }
    }
}

fn ending(id: &str) -> anyhow::Result<IdEnding> {
    let bare = id.strip_prefix("approval:").unwrap_or(id);
    bare.parse()
        .map_err(|error| usage(format!("{error}\nNext: pentad approvals lists the open ones")))
}

fn listing(state: &str, limit: Option<u64>) -> Ask {
    let options: Map<String, Value> = [
        ("state", (state != "all").then(|| state.into())),
        ("limit", limit.map(Value::from)),
    ]
    .into_iter()
    .filter_map(|(key, value)| Some((key.to_owned(), value?)))
    .collect();
    Ask::read("approval:", options)
}

fn answer_in(
    globals: &Globals,
    terminal: &Terminal,
    id: &IdEnding,
    answer: Answer,
) -> anyhow::Result<ExitCode> {
    require_person_at_terminal("answering an approval")?;
    block_on(async {
        let house = House::open(globals).await?;
        let answered = house.desk.answer(id, answer, &house.calling.actor).await;
        house.close().await;
        let approval = match answered {
            Ok(approval) => approval,
            Err(refusal) => return Ok(terminal.emit(&refused(&refusal, terminal))),
        };
        let rendered = if terminal.json {
            Rendered::data(format!("{}\n", serde_json::to_string(&approval)?), 0)
        } else {
            let act = terminal.foreign_out(&approval.subject.act);
            let (word, next) = match approval.state {
                ApprovalState::Granted(scope) => (
                    format!("Granted {act} to {} ({})", approval.subject.actor, scope.word()),
                    "Next: repeating the call runs it; a run that waits goes on by itself\n",
                ),
                _ => (format!("Denied {act} to {}", approval.subject.actor), ""),
            };
            Rendered {
                out: format!("{word}.\n"),
                err: next.to_owned(),
                code: 0,
            }
        };
        Ok(terminal.emit(&rendered))
    })?
}

fn refused(refusal: &Refusal, terminal: &Terminal) -> Rendered {
    let code = Status::from(refusal).exit_code();
    if terminal.json {
        return Rendered::data(
            format!("{}\n", json!({"status": "refused", "refusal": refusal})),
            code,
        );
    }
    Rendered::notice(terminal.foreign_err(&refusal.to_text()) + "\n", code)
}
