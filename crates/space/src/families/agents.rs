//! `agent:`: the agents of this home, from `agents/<name>.md`.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use pentad_model::Name;
use pentad_model::address::{Address, Family};
use pentad_model::outcome::Product;
use pentad_model::refusal::{Refusal, RefusalKind};
use pentad_model::verb::Read;
use serde_json::json;

use super::misdirected;
use crate::blocking::blocking;
use crate::family::AddressFamily;
use crate::handle::{self, Kind, Opened};
use crate::scene::Scene;
use crate::show;
use crate::trouble::from_io;

/// Largest file of an agent.
const MAX_BYTES: u64 = 256 << 10;
/// Most agents in a list.
const MAX_AGENTS: usize = 1000;

/// Serves `agent:`.
pub(crate) struct AgentFamily {
    folder: PathBuf,
}

impl AgentFamily {
    pub(crate) const fn new(folder: PathBuf) -> Self {
        Self { folder }
    }
}

/// An agent's file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct AgentFile {
    front: BTreeMap<String, String>,
    prompt: String,
}

#[async_trait]
impl AddressFamily for AgentFamily {
    fn families(&self) -> &'static [Family] {
        &[Family::Agents]
    }

    async fn read(&self, _scene: &Scene, read: &Read) -> Result<Product, Refusal> {
        let folder = self.folder.clone();
        match &read.address {
            Address::Agent(None) => blocking(move || list(&folder)).await,
            Address::Agent(Some(name)) => {
                let name = name.clone();
                blocking(move || one(&folder, &name)).await
            }
            other => Err(misdirected(other)),
        }
    }
}

fn names(folder: &Path) -> Result<Vec<Name>, Refusal> {
    let mut names: Vec<Name> = match handle::open_root(folder).and_then(|dir| handle::list(&dir, MAX_AGENTS))
    {
        Ok(level) => level
            .entries
            .into_iter()
            .filter(|entry| entry.kind == Kind::File)
            .filter_map(|entry| entry.name.strip_suffix(".md").and_then(|name| name.parse().ok()))
            .collect(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(from_io("agent:", &error)),
    };
    if !names.contains(&Name::main()) {
        names.push(Name::main());
    }
    names.sort();
    Ok(names)
}

fn list(folder: &Path) -> Result<Product, Refusal> {
    let mut text = "# Agents\n\n".to_owned();
    let mut agents = Vec::new();
    for name in names(folder)? {
        let file = load(folder, &name)?;
        let description = file
            .as_ref()
            .and_then(|file| file.front.get("description").cloned())
            .or_else(|| file.is_none().then(|| "the agent that every home has".to_owned()));
        let line = description
            .as_ref()
            .map_or_else(String::new, |text| format!(" {}", show::line(text, 200)));
        text.push_str(&format!("- agent:{name}{line}\n"));
        agents.push(json!({"name": name, "description": description}));
    }
    Ok(Product::text(text, "agent:").value(json!({"agents": agents})))
}

fn one(folder: &Path, name: &Name) -> Result<Product, Refusal> {
    let address = format!("agent:{name}");
    let Some(file) = load(folder, name)? else {
        if *name == Name::main() {
            let text =
                format!("# Agent {name}\n\nThe agent that every home has; it has no file of its own.\n");
            let value = json!({"name": name, "frontMatter": {}, "prompt": ""});
            return Ok(Product::text(text, address).value(value));
        }
        let message = format!("There is no agent '{name}'.");
        return Err(Refusal::new(RefusalKind::NotFound, address, message)
            .supported(names(folder)?.iter().map(|name| format!("agent:{name}"))));
    };
    let mut text = format!("# Agent {name}\n\n");
    for (key, value) in &file.front {
        text.push_str(&format!(
            "- {}: {}\n",
            show::line(key, 80),
            show::line(value, 400)
        ));
    }
    text.push_str(&format!(
        "\n{}\n",
        pentad_model::text::visible(file.prompt.trim())
    ));
    let value = json!({"name": name, "frontMatter": file.front, "prompt": file.prompt});
    Ok(Product::text(text, address).value(value))
}

fn load(folder: &Path, name: &Name) -> Result<Option<AgentFile>, Refusal> {
    let address = format!("agent:{name}");
    let opened = handle::open_root(folder).and_then(|dir| handle::open(&dir, format!("{name}.md").as_ref()));
    let file = match opened {
        Ok(Opened::File(file)) => file,
        Ok(Opened::Directory(_)) => return Ok(None),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(from_io(&address, &error)),
    };
    let mut text = String::new();
    file.take(MAX_BYTES)
        .read_to_string(&mut text)
        .map_err(|error| from_io(&address, &error))?;
    Ok(Some(parse(&text)))
}

/// Splits front matter (`key: value` lines between `---`) from the prompt; indented lines continue a value.
fn parse(text: &str) -> AgentFile {
    let normal = text.replace("\r\n", "\n");
    let text = normal.trim_start_matches('\u{feff}');
    let Some((head, prompt)) = text
        .strip_prefix("---\n")
        .and_then(|rest| rest.split_once("\n---"))
    else {
        return AgentFile {
            front: BTreeMap::new(),
            prompt: text.to_owned(),
        };
    };
    let mut front: BTreeMap<String, String> = BTreeMap::new();
    let mut last: Option<String> = None;
    for line in head.lines().filter(|line| !line.trim_start().starts_with('#')) {
        let indented = line.starts_with([' ', '\t', '-']);
        match (line.split_once(':'), &last) {
            (_, Some(key)) if indented => {
                if let Some(value) = front.get_mut(key) {
                    value.push(' ');
                    value.push_str(line.trim());
                }
            }
            (Some((key, value)), _) => {
                let key = key.trim().to_owned();
                front.insert(key.clone(), value.trim().to_owned());
                last = Some(key);
            }
            (None, _) => {}
        }
    }
    let prompt = prompt.split_once('\n').map_or("", |(_, prompt)| prompt);
    AgentFile {
        front,
        prompt: prompt.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn front_matter_and_prompt_are_apart() {
        let file = parse(
            "---\nmodel: gpt\n# a comment\ngrants:\n  - read:file:/src\n  - execute\n---\n\nYou help.\n",
        );
        assert_eq!(file.front.get("model").map(String::as_str), Some("gpt"));
        assert_eq!(
            file.front.get("grants").map(String::as_str),
            Some(" - read:file:/src - execute")
        );
        assert_eq!(file.prompt.trim(), "You help.");
        assert_eq!(parse("no front").prompt, "no front");
    }
}
