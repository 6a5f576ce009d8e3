//! Where in a file the servers stand.

use serde_json::Value;

use crate::client::{Client, Surroundings};
use crate::file::ClientFile;
use crate::syntax::at;
use crate::text::{Input, Inputs};

/// One map of servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerMap {
    /// The keys that lead to it.
    pub path: Vec<String>,
    /// The folder for which alone its servers are meant.
    pub folder: Option<String>,
}

/// The maps of one file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Maps {
    /// Those that are taken over.
    pub here: Vec<ServerMap>,
    /// Folders for which the file has servers that are not taken over, with how many.
    pub elsewhere: Vec<(String, usize)>,
}

/// Finds the maps of servers in a file.
#[must_use]
pub fn maps(file: &ClientFile, around: &Surroundings) -> Maps {
    let mut maps = Maps::default();
    let folder = file.folder().map(|folder| folder.to_string_lossy().into_owned());
    let path: &[&str] = match file.client {
        Some(Client::VsCode) if is_map(&file.value, "/servers") => &["servers"],
        Some(Client::VsCode) => &["mcp", "servers"],
        Some(Client::Codex) => &["mcp_servers"],
        Some(Client::Goose) => &["extensions"],
        Some(Client::OpenCode) if is_second_version(&file.value) => &["mcp", "servers"],
        Some(Client::OpenCode) => &["mcp"],
        Some(Client::ClaudeCode | Client::Claude | Client::Cursor | Client::Windsurf) | None => {
            &["mcpServers"]
        }
    };
    let path: Vec<String> = path.iter().map(|key| (*key).to_owned()).collect();
    if at(&file.value, &path).is_some_and(Value::is_object) {
        maps.here.push(ServerMap { path, folder });
    }
    if file.client == Some(Client::ClaudeCode) {
        projects(&file.value, around, &mut maps);
    }
    maps
}

fn is_map(value: &Value, pointer: &str) -> bool {
    value.pointer(pointer).is_some_and(Value::is_object)
}

/// The second version of OpenCode keeps servers one level deeper; in the first, `servers` would be a server itself.
fn is_second_version(value: &Value) -> bool {
    let servers = value.pointer("/mcp/servers");
    servers.is_some_and(|servers| servers.is_object() && !servers.get("type").is_some_and(Value::is_string))
}

/// Finds what Claude Code keeps for single folders: this one's is taken over, others are named.
fn projects(value: &Value, around: &Surroundings, maps: &mut Maps) {
    let here = around.folder.to_string_lossy();
    for (folder, project) in value
        .get("projects")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        let servers = project.get("mcpServers").and_then(Value::as_object);
        match servers.map_or(0, serde_json::Map::len) {
            0 => {}
            _ if *folder == *here => maps.here.push(ServerMap {
                path: vec!["projects".to_owned(), folder.clone(), "mcpServers".to_owned()],
                folder: Some(folder.clone()),
            }),
            count => maps.elsewhere.push((folder.clone(), count)),
        }
    }
}

/// Returns what a file asks its person for.
#[must_use]
pub fn inputs(file: &ClientFile) -> Inputs {
    let listed = file
        .value
        .get("inputs")
        .or_else(|| file.value.pointer("/mcp/inputs"))
        .and_then(Value::as_array);
    listed
        .into_iter()
        .flatten()
        .filter_map(|input| {
            let id = input.get("id")?.as_str()?;
            let question = input.get("description").and_then(Value::as_str).unwrap_or(id);
            let question = pentad_model::text::first_sentence(question, 120);
            Some((id.to_owned(), Input { question }))
        })
        .collect()
}
