use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use pentad_import::{
    Client, ClientFile, Insist, Payload, Plan, Planner, Scope, Surroundings, Undone, apply, show, undo,
    undo_path,
};
use pentad_keeper::{Home, SecretName, SecretValue};
use serde_json::{Value, json};

use super::secret::prompt;
use crate::args::Globals;
use crate::failure::usage;
use crate::invoke::block_on;
use crate::render::Rendered;
use crate::shell::{prepared_home, require_no_agent, require_person_at_terminal};
use crate::terminal::Terminal;
use crate::wire::measure;

const EXAMPLES: &str = "\
Examples:
  pentad import claude-code
  pentad import cursor --apply
  pentad import vscode --project --apply
  pentad import ~/dotfiles/mcp.json --measure
  pentad import claude-code --undo

Clients: claude-code, claude (the desktop application), cursor, vscode, codex, windsurf, goose, opencode.";

/// Take over the MCP servers that a client has configured
///
/// Shows what it would do: which servers move, which values become ${secret:NAME}, what will be asked. With --apply the
/// servers move to config.toml, and the client's file keeps one entry that starts Pentad; its comments and order stay, and
/// a backup lies beside it. With --undo the file is put back byte for byte.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The client, or a file of one
    #[arg(value_name = "CLIENT|FILE")]
    pub from: String,
    /// Take the file of the project in this folder instead of your own
    #[arg(long)]
    pub project: bool,
    /// Do it
    #[arg(long, conflicts_with = "undo")]
    pub apply: bool,
    /// Put the client's file back as it was before the last import
    #[arg(long)]
    pub undo: bool,
    /// Let the client go on calling these servers without being asked
    #[arg(long, conflicts_with = "undo")]
    pub trust: bool,
    /// Start each server once to see how large its tools are
    #[arg(long, conflicts_with = "undo")]
    pub measure: bool,
    /// Do not ask before --apply
    #[arg(long, requires = "apply")]
    pub yes: bool,
    /// Put only the servers back into a file that was changed since, and keep its changes
    #[arg(long, requires = "undo", conflicts_with = "force")]
    pub merge: bool,
    /// Put the old file back even when the present one is not what the import wrote
    #[arg(long, requires = "undo")]
    pub force: bool,
}

/// What the first argument names.
enum From {
    Client(Client),
    File(PathBuf),
}

impl Args {
    pub fn run(self, globals: &Globals, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        require_no_agent("importing servers")?;
        if self.trust && self.apply {
            require_person_at_terminal("letting a client call without being asked")?;
        }
        let from = self.source()?;
        let around = surroundings(globals)?;
        let home = prepared_home(globals)?;
        if self.undo {
            return self.put_back(&home, &from, &around, terminal);
        }
        let file = match &from {
            From::Client(client) => ClientFile::of_client(*client, self.scope(), &around)?,
            From::File(path) => ClientFile::recognised(path)?,
        };
        let own = std::env::current_exe()?;
        let planner = Planner {
            home: &home,
            around: &around,
            own: &own,
            trust: self.trust,
        };
        let plan = planner.plan(file)?;
        let sizes = block_on(measure::sizes(&home, &plan, self.measure))??;
        let payload = Payload::of(plan.active(), &sizes);
        if self.apply && !plan.is_empty() {
            return self.carry_out(&home, &plan, &payload, terminal);
        }
        Ok(terminal.emit(&self.shown(&plan, &payload, terminal)))
    }

    const fn scope(&self) -> Scope {
        if self.project { Scope::Project } else { Scope::User }
    }

    const fn insist(&self) -> Insist {
        match (self.merge, self.force) {
            (_, true) => Insist::Force,
            (true, false) => Insist::Merge,
            (false, false) => Insist::No,
        }
    }

    /// A word is a client; what could be a path is a file.
    fn source(&self) -> anyhow::Result<From> {
        match self.from.parse() {
            Ok(client) => Ok(From::Client(client)),
            Err(unknown) => {
                let path = Path::new(&self.from);
                if self.from.contains(['/', '.']) || path.exists() {
                    if self.project {
                        return Err(usage(
                            "--project belongs to a client; a file is named by its path",
                        ));
                    }
                    return Ok(From::File(path.to_path_buf()));
                }
                Err(usage(unknown.to_string()))
            }
        }
    }

    fn shown(&self, plan: &Plan, payload: &Payload, terminal: &Terminal) -> Rendered {
        if terminal.json {
            return data("planned", show::value(plan, payload));
        }
        let mut err = String::new();
        if !plan.is_empty() {
            let project = if self.project { " --project" } else { "" };
            let trust = if self.trust { " --trust" } else { "" };
            err = format!(
                "Nothing was changed.\nNext: pentad import {}{project}{trust} --apply\n",
                self.from
            );
        }
        Rendered {
            out: terminal.foreign_out(&show::text(plan, payload)),
            err,
            code: 0,
        }
    }

    fn carry_out(
        &self,
        home: &Home,
        plan: &Plan,
        payload: &Payload,
        terminal: &Terminal,
    ) -> anyhow::Result<ExitCode> {
        let asks = std::io::stdin().is_terminal() && !terminal.json;
        if !self.yes && !asks {
            return Err(usage(
                "--apply asks before it changes anything, and nobody can answer here\nNext: look at the plan without --apply, then add --yes",
            ));
        }
        if !terminal.json && !terminal.stream(&terminal.foreign_out(&show::text(plan, payload))) {
            return Ok(ExitCode::FAILURE);
        }
        if !self.yes && !confirmed()? {
            return Ok(terminal.emit(&Rendered::notice("Nothing was changed.\n", 1)));
        }
        let answers = if asks { answers(plan)? } else { BTreeMap::new() };
        let applied = apply(home, plan, &answers)?;
        let missing: Vec<String> = applied.missing.iter().map(ToString::to_string).collect();
        if terminal.json {
            let mut value = show::value(plan, payload);
            merge(
                &mut value,
                json!({
                    "config": home.config_file(),
                    "backup": applied.backup,
                    "added": applied.servers,
                    "stored": applied.secrets.iter().map(ToString::to_string).collect::<Vec<_>>(),
                    "missing": missing,
                }),
            );
            return Ok(terminal.emit(&data("applied", value)));
        }
        let out = format!(
            "Imported {} into {}.\nThe old file, with its keys, is {}\n",
            servers(&applied.servers),
            home.config_file().display(),
            applied.backup.display()
        );
        let mut err = String::new();
        for name in &missing {
            err.push_str(&format!("Next: pentad secret set {name}\n"));
        }
        let client = plan.file.client.map_or("the client", Client::title);
        err.push_str(&format!(
            "Next: restart {client}; pentad import {} --undo puts its file back\n",
            self.again()
        ));
        Ok(terminal.emit(&Rendered { out, err, code: 0 }))
    }

    fn again(&self) -> String {
        let project = if self.project { " --project" } else { "" };
        format!("{}{project}", self.from)
    }

    fn put_back(
        &self,
        home: &Home,
        from: &From,
        around: &Surroundings,
        terminal: &Terminal,
    ) -> anyhow::Result<ExitCode> {
        let path = match from {
            From::Client(client) => undo_path(home, *client, self.scope(), around),
            From::File(path) => path.clone(),
        };
        let Undone {
            file,
            servers,
            replaced,
            merged,
        } = undo(home, &path, self.insist())?;
        if terminal.json {
            let value = json!({"file": file, "servers": servers, "replaced": replaced, "merged": merged});
            return Ok(terminal.emit(&data("undone", value)));
        }
        let mut out = if merged {
            format!(
                "{} has its servers again, and what was changed since.\n",
                file.display()
            )
        } else {
            format!("{} is as it was.\n", file.display())
        };
        if let Some(replaced) = replaced {
            out.push_str(&format!("What stood there is {}\n", replaced.display()));
        }
        let mut err = String::new();
        if let Some(first) = servers.first() {
            err = format!(
                "These servers stay in config.toml: {}\nNext: pentad disconnect {first} removes one\n",
                servers.join(", ")
            );
        }
        Ok(terminal.emit(&Rendered { out, err, code: 0 }))
    }
}

fn surroundings(globals: &Globals) -> anyhow::Result<Surroundings> {
    let home_dir = std::env::home_dir()
        .filter(|dir| dir.is_absolute())
        .ok_or_else(|| usage("HOME is not set, so the files of clients cannot be found\nNext: set HOME"))?;
    let folder = match &globals.cwd {
        Some(cwd) => std::path::absolute(cwd)?,
        None => std::env::current_dir()?,
    };
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    Ok(Surroundings {
        home_dir,
        folder,
        variables,
        macos: cfg!(target_os = "macos"),
    })
}

fn servers(names: &[String]) -> String {
    match names {
        [] => "no new server".to_owned(),
        [one] => format!("the server {one}"),
        many => format!("{} servers ({})", many.len(), many.join(", ")),
    }
}

fn data(status: &str, value: Value) -> Rendered {
    let mut whole = json!({"status": status});
    merge(&mut whole, value);
    Rendered::data(format!("{whole}\n"), 0)
}

fn merge(into: &mut Value, more: Value) {
    if let (Some(into), Value::Object(more)) = (into.as_object_mut(), more) {
        into.extend(more);
    }
}

fn confirmed() -> anyhow::Result<bool> {
    use std::io::Write;
    let mut err = std::io::stderr().lock();
    err.write_all(b"Do this? [y/N] ")?;
    err.flush()?;
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}

/// Asks for the values that only the client knew; an empty answer leaves one to be set later.
fn answers(plan: &Plan) -> anyhow::Result<BTreeMap<SecretName, SecretValue>> {
    let mut answers = BTreeMap::new();
    for asked in plan.asked() {
        let question = pentad_model::text::visible(&asked.question);
        let line = prompt(&format!(
            "{question}\nValue of {} (not shown; empty for later): ",
            asked.name
        ))?;
        let value = line.trim_end_matches(['\n', '\r']);
        if !value.is_empty() {
            answers.insert(asked.name.clone(), SecretValue::new(value.to_owned()));
        }
    }
    Ok(answers)
}
