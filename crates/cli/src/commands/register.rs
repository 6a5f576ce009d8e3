use std::process::ExitCode;

use pentad_model::Verb;
use pentad_model::text::excerpt;
use serde_json::{Map, Value, json};

use crate::args::Globals;
use crate::failure::usage;
use crate::invoke::{Ask, ask};
use crate::terminal::Terminal;
use crate::text_arg::text;

const EXAMPLES: &str = "\
Examples:
  pentad register transcribe \"whisper {file:path} --lang {lang=en}\"
  pentad register disk-usage \"du -sh {dir:path}\" --description \"Shows how much space a folder takes.\"
  pentad register report @report.md
  pentad register transcribe --delete

Placeholders: {name}, {name:type}, {name=default}. Types: string, int, number, bool, path and others; pentad read
~/tools/write has all of it.";

/// Make a command a tool that every agent finds
///
/// The command is no shell line: each word is one argument, whatever a placeholder is filled with. @FILE takes a whole
/// recipe in Markdown or JSON. An existing tool of that name is replaced, its old version stays readable.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The tool's name
    pub name: String,
    /// The command with placeholders, - for a whole recipe from standard input, or @FILE
    #[arg(required_unless_present = "delete")]
    pub template: Option<String>,
    /// What it does and when to use it; agents must give one
    #[arg(short, long, value_name = "TEXT")]
    pub description: Option<String>,
    /// Check everything, change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Delete the tool's file
    #[arg(long, conflicts_with_all = ["template", "description"])]
    pub delete: bool,
}

impl Args {
    pub fn run(self, globals: &Globals, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        let agent = crate::shell::calling().evidence;
        let (arguments, note) = self.arguments(agent.as_deref())?;
        if let Some(note) = note {
            terminal.notice(&note);
        }
        ask(globals, terminal, Ask::new(Verb::Write, arguments))
    }

    /// Returns the arguments of the write and what a person should know about it.
    fn arguments(self, agent: Option<&str>) -> anyhow::Result<(Map<String, Value>, Option<String>)> {
        let mut arguments = Map::new();
        let name = pentad_model::address::encode_tool_name(&self.name);
        arguments.insert("address".to_owned(), format!("~/tools/{name}").into());
        let mut note = None;
        match self.template {
            None => {
                arguments.insert("options".to_owned(), json!({"delete": true}));
            }
            Some(given) if given == "-" || (given.starts_with('@') && !given.starts_with("@@")) => {
                if self.description.is_some() {
                    return Err(usage(
                        "a whole recipe has its own description; leave --description out",
                    ));
                }
                arguments.insert("content".to_owned(), text(&given)?.into());
            }
            Some(template) => {
                let template = text(&template)?;
                let description = match self.description {
                    Some(description) => description,
                    None if agent.is_some() => {
                        return Err(usage(
                            "a tool needs a description\nNext: add --description \"what it does and when to use it\"",
                        ));
                    }
                    None => {
                        let derived = format!("Runs `{}`.", excerpt(&template, 100));
                        note = Some(format!(
                            "The description is derived: \"{derived}\" Agents find the tool by it; --description gives a better one."
                        ));
                        derived
                    }
                };
                let content = json!({"description": description, "template": template});
                // The file is a person's to read and edit.
                arguments.insert("content".to_owned(), format!("{content:#}\n").into());
            }
        }
        if self.dry_run {
            arguments.insert("dryRun".to_owned(), true.into());
        }
        Ok((arguments, note))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::Cli;
    use crate::commands::Command;

    fn arguments(words: &[&str], agent: Option<&str>) -> anyhow::Result<(Value, Option<String>)> {
        let cli = Cli::try_parse_from([&["pentad", "register"], words].concat())?;
        match cli.command {
            Command::Register(args) => args
                .arguments(agent)
                .map(|(map, note)| (Value::Object(map), note)),
            _ => panic!("not register"),
        }
    }

    #[test]
    fn a_person_gets_a_derived_description_and_is_told() {
        let (written, note) = arguments(&["say", "echo {text}"], None).unwrap();
        let content = "{\n  \"description\": \"Runs `echo {text}`.\",\n  \"template\": \"echo {text}\"\n}\n";
        assert_eq!(written, json!({"address": "~/tools/say", "content": content}));
        assert!(note.unwrap().contains("is derived"));
    }

    #[test]
    fn an_agent_must_give_one() {
        let error = arguments(&["say", "echo {text}"], Some("CLAUDECODE")).unwrap_err();
        assert!(error.to_string().contains("Next: add --description"), "{error}");
        assert!(
            arguments(&["say", "echo", "-d", "Says it."], Some("CLAUDECODE"))
                .unwrap()
                .1
                .is_none()
        );
    }

    #[test]
    fn deleting_takes_no_template() {
        let (written, _) = arguments(&["say", "--delete", "--dry-run"], None).unwrap();
        assert_eq!(
            written,
            json!({"address": "~/tools/say", "options": {"delete": true}, "dryRun": true})
        );
        assert!(arguments(&["say"], None).is_err());
        assert!(arguments(&["say", "x", "--delete"], None).is_err());
    }
}
