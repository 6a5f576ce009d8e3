//! What an import will do, decided before anything is done.

use std::collections::BTreeSet;
use std::path::Path;

use pentad_keeper::config::ServerEntry;
use pentad_keeper::{Config, ConfigError, Home, SecretError, SecretName, Secrets};
use serde_json::{Map, Value, json};

use crate::client::{Client, Surroundings};
use crate::dialect::{self, ForeignServer, Launch, Reading};
use crate::entry::{Entry, Maker};
use crate::file::{ClientFile, FileError};
use crate::itself::{is_pentad, own_command};
use crate::maps::{ServerMap, inputs, maps};
use crate::names::choose;
use crate::syntax::{MapEdit, MapRestore, at};
use crate::text::{Inputs, Meaning};
use crate::vault::{Asked, Vault};

/// The name of our own entry in a client's file.
const OWN_ENTRY: &str = "pentad";

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The client's file.
    #[error(transparent)]
    File(#[from] FileError),
    /// Our configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The secret store.
    #[error(transparent)]
    Secrets(#[from] SecretError),
    /// A client that has no name cannot be given grants.
    #[error(
        "--trust needs a client with a name, and {path} may be of several\nNext: import without --trust, and answer when a tool asks"
    )]
    NoClient {
        /// The file.
        path: std::path::PathBuf,
    },
}

/// What becomes of one entry.
#[derive(Debug, Clone, PartialEq)]
pub enum Fate {
    /// It becomes a server of ours.
    Added {
        /// Its name.
        name: String,
        /// Why the name is not the client's.
        renamed: Option<&'static str>,
        /// What will be written.
        entry: Box<Entry>,
        /// Keys without a counterpart.
        left_out: Vec<String>,
    },
    /// It is a server of ours already.
    Reused {
        /// Its name.
        name: String,
    },
    /// It stays in the client's file.
    Stays {
        /// Why.
        reason: String,
    },
    /// It is Pentad.
    Pentad,
}

/// One entry of the client's file.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    /// What the client calls it.
    pub from: String,
    /// The folder for which alone the client has it.
    pub folder: Option<String>,
    /// What becomes of it.
    pub fate: Fate,
}

/// What an import will do.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The client's file as it was read.
    pub file: ClientFile,
    /// Its entries, in their order.
    pub servers: Vec<Planned>,
    /// The secrets that are stored.
    pub vault: Vault,
    /// Standing grants that `[clients.NAME]` gets.
    pub grants: Vec<String>,
    /// The command that the client will start, and its arguments.
    pub command: Vec<String>,
    /// Folders for which the file has further servers.
    pub elsewhere: Vec<(String, usize)>,
    edits: Vec<MapEdit>,
}

/// What is known to whoever plans.
#[derive(Debug)]
pub struct Planner<'a> {
    /// The home that takes the servers.
    pub home: &'a Home,
    /// What is around the person.
    pub around: &'a Surroundings,
    /// This program.
    pub own: &'a Path,
    /// Whether the client may go on calling without being asked.
    pub trust: bool,
}

impl Planner<'_> {
    /// Plans the import of a file. Nothing is changed.
    ///
    /// # Errors
    /// Fails when our configuration or secrets cannot be read, or when the file cannot be changed safely.
    pub fn plan(&self, file: ClientFile) -> Result<Plan, PlanError> {
        let config = Config::load(self.home)?;
        let vault = Vault::open(&Secrets::of(self.home))?;
        let maps = maps(&file, self.around);
        let inputs = inputs(&file);
        let mut work = Work {
            planner: self,
            taken: config.servers.keys().cloned().collect(),
            config,
            vault,
            inputs: &inputs,
            client: file.client,
            servers: Vec::new(),
        };
        let command = self.command(file.client);
        let mut edits = Vec::new();
        let mut present = false;
        for map in &maps.here {
            let before = work.servers.len();
            work.map(&file, map);
            let planned = work.servers.get(before..).unwrap_or_default();
            present |= map.folder.is_none() && planned.iter().any(|one| one.fate == Fate::Pentad);
            edits.extend(edit(map, planned, !present, &own_entry(&file, map, &command)));
            present |= map.folder.is_none() && !edits.is_empty();
        }
        let Work { servers, vault, .. } = work;
        let grants = self.grants(&file, &servers)?;
        let plan = Plan {
            file,
            servers,
            vault,
            grants,
            command,
            elsewhere: maps.elsewhere,
            edits,
        };
        // A file that cannot be changed is refused now, not after the person said yes.
        plan.changed_text()?;
        Ok(plan)
    }

    fn grants(&self, file: &ClientFile, servers: &[Planned]) -> Result<Vec<String>, PlanError> {
        if !self.trust {
            return Ok(Vec::new());
        }
        if file.client.is_none() {
            return Err(PlanError::NoClient {
                path: file.path.clone(),
            });
        }
        let names: BTreeSet<&str> = servers.iter().filter_map(Planned::server).collect();
        Ok(names.into_iter().map(|name| format!("call:{name}/")).collect())
    }

    /// Returns the command with which the client will start Pentad.
    fn command(&self, client: Option<Client>) -> Vec<String> {
        let path = self.around.variable("PATH").unwrap_or_default();
        let mut words = vec![own_command(self.own, path), "mcp".to_owned()];
        if self.home.path() != self.around.home_dir.join(".pentad") {
            words.extend([
                "--home".to_owned(),
                self.home.path().to_string_lossy().into_owned(),
            ]);
        }
        if let Some(client) = client {
            words.extend(["--client".to_owned(), client.word().to_owned()]);
        }
        words
    }
}

impl Plan {
    /// Tells whether there is anything to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.edits.is_empty()
    }

    /// Returns the secrets whose values move into the store.
    pub fn stored(&self) -> impl Iterator<Item = &SecretName> {
        self.vault.fresh.keys()
    }

    /// Returns the secrets that a person must give.
    #[must_use]
    pub fn asked(&self) -> &[Asked] {
        &self.vault.asked
    }

    /// Returns the servers of ours whose tools the client has in front of its model now.
    pub fn active(&self) -> impl Iterator<Item = &str> {
        let on = |one: &&Planned| !matches!(&one.fate, Fate::Added { entry, .. } if entry.disabled);
        self.servers.iter().filter(on).filter_map(Planned::server)
    }

    /// Returns how the changes are taken back.
    pub(crate) fn changes(&self) -> Vec<MapRestore> {
        self.edits.iter().map(MapRestore::from).collect()
    }

    /// Returns the client's file as it will be.
    pub(crate) fn changed_text(&self) -> Result<String, FileError> {
        self.file.edited(&self.edits)
    }
}

impl Planned {
    /// Returns the server of ours that it is or becomes.
    #[must_use]
    pub fn server(&self) -> Option<&str> {
        match &self.fate {
            Fate::Added { name, .. } | Fate::Reused { name } => Some(name),
            Fate::Stays { .. } | Fate::Pentad => None,
        }
    }
}

/// A plan in the making.
struct Work<'a> {
    planner: &'a Planner<'a>,
    config: Config,
    taken: BTreeSet<String>,
    vault: Vault,
    inputs: &'a Inputs,
    client: Option<Client>,
    servers: Vec<Planned>,
}

impl Work<'_> {
    fn map(&mut self, file: &ClientFile, map: &ServerMap) {
        let entries = at(&file.value, &map.path).and_then(Value::as_object);
        for (from, value) in entries.into_iter().flatten() {
            let fate = self.fate(from, value, map);
            self.servers.push(Planned {
                from: from.clone(),
                folder: map.folder.clone(),
                fate,
            });
        }
    }

    fn fate(&mut self, from: &str, value: &Value, map: &ServerMap) -> Fate {
        let reading = Reading {
            client: self.client,
            meaning: Meaning {
                references: dialect::references(self.client),
                around: self.planner.around,
                folder: map.folder.as_deref(),
            },
            inputs: self.inputs,
        };
        let server = match dialect::read(value, &reading) {
            Ok(server) if self.is_pentad(&server) => return Fate::Pentad,
            Ok(server) => server,
            Err(stays) => return Fate::Stays { reason: stays.0 },
        };
        // Names and secrets of a server that is ours already are not wanted, so they are made on the side.
        let mut vault = self.vault.clone();
        let chosen = choose(from, &self.taken);
        let mut maker = Maker {
            inputs: self.inputs,
            vault: &mut vault,
            server: &choose(from, &BTreeSet::new()).name,
        };
        let entry = match maker.entry(&server) {
            Ok(entry) => entry,
            Err(stays) => return Fate::Stays { reason: stays.0 },
        };
        if let Some(name) = self.same(from, &entry, &vault) {
            return Fate::Reused { name };
        }
        self.vault = vault;
        self.taken.insert(chosen.name.clone());
        Fate::Added {
            name: chosen.name,
            renamed: chosen.why,
            entry: Box::new(entry),
            left_out: server.left_out,
        }
    }

    /// Finds a server that is this one: of the configuration, or added a moment ago from another map.
    fn same(&self, from: &str, entry: &Entry, vault: &Vault) -> Option<String> {
        let known = self.config.servers.iter();
        let same = |(_, other): &(&String, &ServerEntry)| entry.is_same_as(other, vault);
        let mut found: Vec<&String> = known.filter(same).map(|(name, _)| name).collect();
        found.sort_by_key(|name| *name != from);
        let added = self.servers.iter().find_map(|planned| match &planned.fate {
            Fate::Added {
                name, entry: other, ..
            } if **other == *entry => Some(name),
            _ => None,
        });
        found.first().copied().or(added).cloned()
    }

    fn is_pentad(&self, server: &ForeignServer) -> bool {
        match &server.launch {
            Launch::Command { program, args, .. } => {
                let args: Vec<String> = args
                    .iter()
                    .map(|arg| arg.as_literal().unwrap_or_default())
                    .collect();
                let program = program.as_literal().unwrap_or_default();
                is_pentad(&program, &args, Some(self.planner.own))
            }
            Launch::Url { url, .. } => url
                .as_literal()
                .and_then(|url| url::Url::parse(&url).ok())
                .is_some_and(|url| {
                    let here = ["127.0.0.1", "localhost", "[::1]"];
                    url.path() == "/mcp"
                        && url.port() == Some(self.config.http.port)
                        && url.host_str().is_some_and(|host| here.contains(&host))
                }),
        }
    }
}

/// Returns the change of one map, if it changes.
fn edit(map: &ServerMap, planned: &[Planned], insert: bool, own: &Value) -> Option<MapEdit> {
    let goes = |one: &&Planned| one.server().is_some();
    let remove: Vec<String> = planned.iter().filter(goes).map(|one| one.from.clone()).collect();
    if remove.is_empty() {
        return None;
    }
    let stays: BTreeSet<&str> = planned
        .iter()
        .filter(|one| !goes(one))
        .map(|one| one.from.as_str())
        .collect();
    let insert = insert && planned.iter().all(|one| one.fate != Fate::Pentad);
    let names = [OWN_ENTRY, "pentad-mcp", "pentad-tools"];
    let name = names
        .into_iter()
        .find(|name| !stays.contains(name))
        .filter(|_| insert);
    Some(MapEdit {
        path: map.path.clone(),
        remove,
        insert: name.map(|name| (name.to_owned(), own.clone())),
    })
}

/// Returns our entry as the client would write it.
fn own_entry(file: &ClientFile, map: &ServerMap, command: &[String]) -> Value {
    let (program, args) = match command.split_first() {
        Some((program, args)) => (program.as_str(), args),
        None => (OWN_ENTRY, &[][..]),
    };
    match file.client {
        Some(Client::ClaudeCode | Client::VsCode) => {
            json!({"type": "stdio", "command": program, "args": args})
        }
        Some(Client::Goose) => json!({
            "enabled": true,
            "type": "stdio",
            "name": OWN_ENTRY,
            "description": "Five verbs instead of fifty tools",
            "cmd": program,
            "args": args,
            "envs": {},
            "env_keys": [],
            "timeout": 600,
            "bundled": null,
            "available_tools": [],
        }),
        Some(Client::OpenCode) => {
            let mut entry = Map::new();
            entry.insert("type".to_owned(), "local".into());
            entry.insert("command".to_owned(), command.into());
            // The second version, one level deeper, has no such key.
            if map.path.len() == 1 {
                entry.insert("enabled".to_owned(), true.into());
            }
            Value::Object(entry)
        }
        Some(Client::Claude | Client::Cursor | Client::Windsurf | Client::Codex) | None => {
            json!({"command": program, "args": args})
        }
    }
}
