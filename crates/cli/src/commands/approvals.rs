mod forms;

use std::process::ExitCode;

use clap::Subcommand;
use pentad_model::approval::{ApprovalState, Scope};
use pentad_model::{IdEnding, Refusal, Status};
use pentad_program::{Answer, Attendance};
use serde_json::{Map, Value, json};

use crate::args::Globals;
use crate::failure::usage;
use crate::house::House;
use crate::input_arg::Pair;
use crate::invoke::{Ask, ask_in, block_on};
use crate::render::{Ending, Rendered, render};
use crate::shell::require_person_at_terminal;
use crate::terminal::Terminal;

const EXAMPLES: &str = "\
Examples:
  pentad approvals
  pentad approvals show 7k2m9q4x
  pentad approvals grant 7k2m9q4x
  pentad approvals grant 7k2m9q4x --always
  pentad approvals deny 7k2m9q4x
  pentad approvals fill 7k2m9q4x";

/// See and answer what waits for a person
///
/// An approval is bound to the actor, the act, its input and everything that would run: when one of them changes, it
/// is void. A form is what a server asks to be filled in while several calls of it are in flight; it waits for ten
/// minutes at most. Granting, denying and filling in need a person at a terminal.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    pub action: Option<Action>,
}

#[derive(Debug, Subcommand)]
pub enum Action {
    /// List approvals and forms; without --state the open ones
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
        /// The approval or form: its id, or the id's last eight characters or more
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
    /// Fill a server's form in; without values it is asked for field by field
    #[command(
        after_help = "Examples:\n  pentad approvals fill 7k2m9q4x\n  pentad approvals fill 7k2m9q4x name=Ada seats=3\n  pentad approvals fill 7k2m9q4x --decline"
    )]
    Fill {
        /// The form: its id, or the id's last eight characters or more
        id: String,
        /// The values, typed by the form's fields; what should not stand in the shell's history is better left out here
        #[arg(value_name = "KEY=VALUE", conflicts_with = "decline")]
        pairs: Vec<Pair>,
        /// Tell the server that it gets no answer
        #[arg(long)]
        decline: bool,
    },
}

impl Args {
    pub fn run(self, globals: &Globals, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        match self.action {
            None => list(globals, terminal, "open", None),
            Some(Action::List { state, limit }) => list(globals, terminal, &state, limit),
            Some(Action::Show { id }) => show(globals, terminal, &ending(&id)?),
            Some(Action::Fill { id, pairs, decline }) => {
                forms::fill(globals, terminal, &ending(&id)?, &pairs, decline)
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
    let bare = ["approval:", "form:"]
        .iter()
        .find_map(|prefix| id.strip_prefix(prefix))
        .unwrap_or(id);
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

/// Lists approvals, and the forms that wait beside the open ones.
fn list(globals: &Globals, terminal: &Terminal, state: &str, limit: Option<u64>) -> anyhow::Result<ExitCode> {
    block_on(async {
        let house = House::open(globals).await?;
        let asked = listing(state, limit);
        let invocation = house.invocation(asked.verb, asked.arguments);
        let mut outcome = house.desk.invoke(invocation, Attendance::default()).await;
        if outcome.refusal.is_none() && matches!(state, "open" | "all") {
            match house.desk.forms().await {
                Ok(open) => forms::append(&mut outcome, &open),
                // A keeper of an older build has approvals only.
                Err(refusal) => tracing::debug!(%refusal, "the forms are not known"),
            }
        }
        house.close().await;
        Ok(terminal.emit(&render(&outcome, terminal, Ending::Line)))
    })?
}

/// Shows the form that has this id, else the approval.
fn show(globals: &Globals, terminal: &Terminal, id: &IdEnding) -> anyhow::Result<ExitCode> {
    block_on(async {
        let house = House::open(globals).await?;
        let open = house.desk.forms().await.unwrap_or_default();
        let code = match open.iter().find(|open| id.matches(open.id.0)) {
            Some(open) if terminal.json => {
                let line = serde_json::to_string(open)?;
                terminal.emit(&Rendered::data(format!("{line}\n"), 0))
            }
            Some(open) => terminal.emit(&Rendered::data(forms::one(open), 0)),
            None => {
                let asked = Ask::read(&format!("approval:{id}"), Map::new());
                ask_in(&house, terminal, asked).await
            }
        };
        house.close().await;
        Ok(code)
    })?
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
