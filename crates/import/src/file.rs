//! A client's file: read whole, recognised, and remembered as it was.

use std::fmt;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::client::{Client, Scope, Surroundings, places};
use crate::syntax::{Syntax, SyntaxError};

/// Larger files are not read: no client writes them.
const MAX_BYTES: u64 = 64 << 20;
/// The mark that some editors put in front of UTF-8.
pub(crate) const BYTE_ORDER_MARK: &str = "\u{feff}";

/// Why a client's file cannot be read. Nothing was changed, and no variant holds a piece of the file.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The client has no configuration where it is looked for.
    #[error("{client} has no configuration here; looked for {}\nNext: {next}", listed(.looked))]
    None {
        /// The client's name for people.
        client: &'static str,
        /// Where it was looked for.
        looked: Vec<PathBuf>,
        /// What to do about it.
        next: String,
    },
    /// The file cannot be read.
    #[error("{path} cannot be read: {source}\nNext: check the path, its owner and its permissions")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The path names no regular file.
    #[error("{path} is no file\nNext: name the client's configuration file itself")]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The file is larger than any configuration.
    #[error("{path} is larger than 64 MiB\nNext: name the client's configuration file itself")]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// The file is no text.
    #[error(
        "{path} is no UTF-8 text; it was left as it is\nNext: repair the file, or restore it from the client's own backup"
    )]
    NotText {
        /// The file.
        path: PathBuf,
    },
    /// The file is not valid.
    #[error("{path}: {source}; it was left as it is\nNext: repair the file, then repeat")]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: SyntaxError,
    },
    /// The file has no servers in any form that is known.
    #[error(
        "{path} has no servers in a form that is known: mcpServers, servers, mcp_servers, extensions or mcp\nNext: name the file in which the client keeps its MCP servers"
    )]
    NoServers {
        /// The file.
        path: PathBuf,
    },
}

fn listed(paths: &[PathBuf]) -> String {
    let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    paths.join(", ")
}

/// A client's file as it was when it was read.
#[derive(Clone)]
pub struct ClientFile {
    /// Whose it is, if that is known.
    pub client: Option<Client>,
    /// Whether it belongs to a folder rather than to a person.
    pub scope: Scope,
    /// The path as it was named.
    pub path: PathBuf,
    /// The file itself, behind any links.
    pub target: PathBuf,
    /// How it is written.
    pub syntax: Syntax,
    /// What it says.
    pub value: Value,
    pub(crate) text: String,
    pub(crate) mode: u32,
    pub(crate) owner: (u32, u32),
}

/// Has no text and no values: they are full of keys.
impl fmt::Debug for ClientFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientFile")
            .field("client", &self.client)
            .field("path", &self.path)
            .field("target", &self.target)
            .field("syntax", &self.syntax)
            .field("bytes", &self.text.len())
            .finish_non_exhaustive()
    }
}

impl ClientFile {
    /// Opens the first of a client's files that exists.
    ///
    /// # Errors
    /// Fails when there is none, or it cannot be read or understood.
    pub fn of_client(client: Client, scope: Scope, around: &Surroundings) -> Result<Self, FileError> {
        let looked = places(client, scope, around);
        let exists = |path: &&PathBuf| path.symlink_metadata().is_ok();
        if let Some(found) = looked.iter().find(exists) {
            return Self::open(found, Some(client), scope);
        }
        let other = match scope {
            Scope::User => Scope::Project,
            Scope::Project => Scope::User,
        };
        let there = places(client, other, around);
        let next = match (there.iter().find(exists), other) {
            (Some(path), Scope::Project) => format!("--project takes {}", path.display()),
            (Some(path), Scope::User) => format!("without --project it takes {}", path.display()),
            (None, _) => "configure the client first, or name its file: pentad import FILE".to_owned(),
        };
        Err(FileError::None {
            client: client.title(),
            looked,
            next,
        })
    }

    /// Opens a file that is known by its content only.
    ///
    /// # Errors
    /// Fails when it cannot be read, understood or recognised.
    pub fn recognised(path: &Path) -> Result<Self, FileError> {
        let mut file = Self::open(path, None, Scope::User)?;
        let found = recognise(&file.path, file.syntax, &file.value);
        file.client = found.ok_or_else(|| FileError::NoServers {
            path: path.to_path_buf(),
        })?;
        file.scope = scope_of(&file.path);
        Ok(file)
    }

    /// Opens a file of a client.
    ///
    /// # Errors
    /// Fails when it cannot be read or understood.
    pub fn open(path: &Path, client: Option<Client>, scope: Scope) -> Result<Self, FileError> {
        let unreadable = |source| FileError::Unreadable {
            path: path.to_path_buf(),
            source,
        };
        let target = std::fs::canonicalize(path).map_err(unreadable)?;
        let snapshot = Snapshot::take(&target).map_err(|error| match error {
            SnapshotError::Unreadable(source) => unreadable(source),
            SnapshotError::NotAFile => FileError::NotAFile {
                path: path.to_path_buf(),
            },
            SnapshotError::TooLarge => FileError::TooLarge {
                path: path.to_path_buf(),
            },
        })?;
        let text = String::from_utf8(snapshot.bytes).map_err(|_| FileError::NotText {
            path: path.to_path_buf(),
        })?;
        let syntax = syntax_of(&target, client, &text);
        let value = syntax
            .read(without_mark(&text))
            .map_err(|source| FileError::Invalid {
                path: path.to_path_buf(),
                source,
            })?;
        let absolute = std::path::absolute(path).map_err(unreadable)?;
        Ok(Self {
            client,
            scope,
            path: absolute,
            target,
            syntax,
            value,
            text,
            mode: snapshot.mode,
            owner: snapshot.owner,
        })
    }

    /// Returns the folder that the file belongs to, when it belongs to one.
    pub(crate) fn folder(&self) -> Option<&Path> {
        if self.scope == Scope::User {
            return None;
        }
        let dir = self.path.parent()?;
        let hidden = [".cursor", ".vscode", ".codex", ".opencode"];
        let inside = dir
            .file_name()
            .is_some_and(|name| hidden.iter().any(|known| name == *known));
        if inside { dir.parent() } else { Some(dir) }
    }

    /// Returns the whole text with `edits` made.
    pub(crate) fn edited(&self, edits: &[crate::syntax::MapEdit]) -> Result<String, FileError> {
        let bare = without_mark(&self.text);
        let mark = if bare.len() == self.text.len() {
            ""
        } else {
            BYTE_ORDER_MARK
        };
        let changed = self
            .syntax
            .edit(bare, edits)
            .map_err(|source| FileError::Invalid {
                path: self.path.clone(),
                source,
            })?;
        Ok(format!("{mark}{changed}"))
    }
}

pub(crate) fn without_mark(text: &str) -> &str {
    text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text)
}

/// The bytes of a file with what must be kept when it is replaced.
pub(crate) struct Snapshot {
    pub bytes: Vec<u8>,
    pub mode: u32,
    pub owner: (u32, u32),
}

pub(crate) enum SnapshotError {
    Unreadable(io::Error),
    NotAFile,
    TooLarge,
}

impl Snapshot {
    pub fn take(path: &Path) -> Result<Self, SnapshotError> {
        let metadata = std::fs::metadata(path).map_err(SnapshotError::Unreadable)?;
        // Opening a pipe would wait for its writer.
        if !metadata.is_file() {
            return Err(SnapshotError::NotAFile);
        }
        let file = std::fs::File::open(path).map_err(SnapshotError::Unreadable)?;
        let mut bytes = Vec::new();
        let read = file.take(MAX_BYTES + 1).read_to_end(&mut bytes);
        read.map_err(SnapshotError::Unreadable)?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(SnapshotError::TooLarge);
        }
        Ok(Self {
            bytes,
            mode: metadata.mode() & 0o7777,
            owner: (metadata.uid(), metadata.gid()),
        })
    }
}

fn syntax_of(path: &Path, client: Option<Client>, text: &str) -> Syntax {
    match (client, path.extension().and_then(|ending| ending.to_str())) {
        (Some(Client::Codex), _) | (None, Some("toml")) => Syntax::Toml,
        (Some(Client::Goose), _) | (None, Some("yaml" | "yml")) => Syntax::Yaml,
        (Some(_), _) | (None, Some("json" | "jsonc")) => Syntax::Jsonc,
        (None, _) => {
            let text = without_mark(text);
            let forms = [Syntax::Jsonc, Syntax::Toml, Syntax::Yaml];
            let fits = |form: &Syntax| form.read(text).is_ok_and(|value| value.is_object());
            forms.into_iter().find(fits).unwrap_or(Syntax::Jsonc)
        }
    }
}

/// Recognises whose form a file has. The outer `None` is no known form; the inner one is the form that many share.
#[allow(clippy::option_option)] // three answers: unknown, shared, one client's
fn recognise(path: &Path, syntax: Syntax, value: &Value) -> Option<Option<Client>> {
    let is_map = |pointer: &str| value.pointer(pointer).is_some_and(Value::is_object);
    match syntax {
        Syntax::Toml => is_map("/mcp_servers").then_some(Some(Client::Codex)),
        Syntax::Yaml => is_map("/extensions").then_some(Some(Client::Goose)),
        Syntax::Jsonc if is_map("/servers") => Some(Some(Client::VsCode)),
        Syntax::Jsonc if is_map("/mcpServers") || is_map("/projects") => Some(by_name(path, value)),
        Syntax::Jsonc if is_editor_settings(value) => Some(Some(Client::VsCode)),
        Syntax::Jsonc if is_map("/mcp") => Some(Some(Client::OpenCode)),
        Syntax::Jsonc => None,
    }
}

/// The settings of Visual Studio Code kept servers where the second version of OpenCode keeps them, in its own form.
fn is_editor_settings(value: &Value) -> bool {
    let servers = value.pointer("/mcp/servers").and_then(Value::as_object);
    let kinds = ["stdio", "http", "sse"];
    servers.into_iter().flatten().any(|(_, entry)| {
        let kind = entry.get("type").and_then(Value::as_str);
        entry.get("command").is_some_and(Value::is_string) || kind.is_some_and(|kind| kinds.contains(&kind))
    })
}

fn by_name(path: &Path, value: &Value) -> Option<Client> {
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    let below = |dir: &str| path.components().any(|part| part.as_os_str() == dir);
    let has_server_url = || {
        let servers = value.get("mcpServers").and_then(Value::as_object);
        servers.is_some_and(|map| map.values().any(|entry| entry.get("serverUrl").is_some()))
    };
    match name {
        ".mcp.json" | ".claude.json" => Some(Client::ClaudeCode),
        "claude_desktop_config.json" => Some(Client::Claude),
        "mcp_config.json" => Some(Client::Windsurf),
        _ if below(".cursor") => Some(Client::Cursor),
        _ if value.get("projects").is_some_and(Value::is_object) => Some(Client::ClaudeCode),
        _ if has_server_url() => Some(Client::Windsurf),
        _ => None,
    }
}

fn scope_of(path: &Path) -> Scope {
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    let parent = path.parent().and_then(Path::file_name);
    if name == ".mcp.json" || parent.is_some_and(|name| name == ".vscode") {
        Scope::Project
    } else {
        Scope::User
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recognised(name: &str, text: &str) -> Result<Option<Client>, FileError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        ClientFile::recognised(&path).map(|file| file.client)
    }

    #[test]
    fn a_file_is_recognised_by_its_content() {
        let servers = r#"{"mcpServers": {"a": {"serverUrl": "https://x.example"}}}"#;
        for (name, text, client) in [
            ("x", "[mcp_servers.a]\ncommand = 'x'\n", Some(Client::Codex)),
            ("x", "extensions:\n  a:\n    type: builtin\n", Some(Client::Goose)),
            ("x", "// c\n{\"servers\": {}}", Some(Client::VsCode)),
            (
                "x.jsonc",
                r#"{"mcp": {"a": {"type": "local"}}}"#,
                Some(Client::OpenCode),
            ),
            (
                "x.json",
                r#"{"mcp": {"servers": {"a": {"command": "x"}}}}"#,
                Some(Client::VsCode),
            ),
            (
                "x.json",
                r#"{"mcp": {"servers": {"a": {"type": "remote"}}}}"#,
                Some(Client::OpenCode),
            ),
            ("x.json", servers, Some(Client::Windsurf)),
            (".cursor/mcp.json", r#"{"mcpServers": {}}"#, Some(Client::Cursor)),
            (
                ".mcp.json",
                "\u{feff}{\"mcpServers\": {}}",
                Some(Client::ClaudeCode),
            ),
            ("x", r#"{"mcpServers": {}}"#, None),
        ] {
            assert_eq!(recognised(name, text).unwrap(), client, "{text}");
        }
        for (name, text) in [("x.json", "{}"), ("x.toml", "a = 1\n"), ("x", "a: 1\n")] {
            let error = recognised(name, text).unwrap_err();
            assert!(matches!(error, FileError::NoServers { .. }), "{error}");
        }
    }

    #[test]
    fn what_is_no_configuration_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let open = |path: &Path| ClientFile::recognised(path).unwrap_err();
        assert!(matches!(open(dir.path()), FileError::NotAFile { .. }));
        assert!(matches!(
            open(&dir.path().join("gone")),
            FileError::Unreadable { .. }
        ));
        let file = dir.path().join("x.json");
        std::fs::write(&file, [0xff, 0xfe, 0]).unwrap();
        assert!(matches!(open(&file), FileError::NotText { .. }));
        std::fs::File::create(&file)
            .unwrap()
            .set_len(MAX_BYTES + 1)
            .unwrap();
        assert!(matches!(open(&file), FileError::TooLarge { .. }));
        std::os::unix::fs::symlink("loop", dir.path().join("loop")).unwrap();
        assert!(matches!(
            open(&dir.path().join("loop")),
            FileError::Unreadable { .. }
        ));
    }
}
