//! The applications whose servers can be taken over, and where each keeps its configuration.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// An application that is an MCP client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Client {
    /// Claude Code.
    ClaudeCode,
    /// Claude Desktop.
    Claude,
    /// Cursor.
    Cursor,
    /// Visual Studio Code.
    VsCode,
    /// Codex.
    Codex,
    /// Windsurf.
    Windsurf,
    /// goose.
    Goose,
    /// OpenCode.
    OpenCode,
}

impl Client {
    /// All of them, in the order in which help lists them.
    pub const ALL: [Self; 8] = [
        Self::ClaudeCode,
        Self::Claude,
        Self::Cursor,
        Self::VsCode,
        Self::Codex,
        Self::Windsurf,
        Self::Goose,
        Self::OpenCode,
    ];

    /// Returns the word that names it on the command line, in `[clients.NAME]`, and to `pentad mcp --client`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Claude => "claude",
            Self::Cursor => "cursor",
            Self::VsCode => "vscode",
            Self::Codex => "codex",
            Self::Windsurf => "windsurf",
            Self::Goose => "goose",
            Self::OpenCode => "opencode",
        }
    }

    /// Returns the name that people know it by.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
            Self::Claude => "Claude Desktop",
            Self::Cursor => "Cursor",
            Self::VsCode => "Visual Studio Code",
            Self::Codex => "Codex",
            Self::Windsurf => "Windsurf",
            Self::Goose => "goose",
            Self::OpenCode => "OpenCode",
        }
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// The word names no known client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is no client that can be imported from; supported: claude-code, claude, cursor, vscode, codex, windsurf, goose, opencode, or the path of a file"
)]
pub struct UnknownClient(pub String);

impl FromStr for Client {
    type Err = UnknownClient;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|client| client.word() == text);
        known.ok_or_else(|| UnknownClient(pentad_model::text::excerpt(text, 80)))
    }
}

/// What is around the person who imports: the folders and variables by which clients find their files.
#[derive(Clone)]
pub struct Surroundings {
    /// The person's home directory.
    pub home_dir: PathBuf,
    /// The folder whose project files are meant.
    pub folder: PathBuf,
    /// The environment.
    pub variables: BTreeMap<String, String>,
    /// Whether this is macOS, where applications keep files in `Library`.
    pub macos: bool,
}

/// Names only: values of an environment are nobody's to print.
impl fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Surroundings")
            .field("home_dir", &self.home_dir)
            .field("folder", &self.folder)
            .field("variables", &self.variables.keys())
            .field("macos", &self.macos)
            .finish()
    }
}

impl Surroundings {
    /// Returns a variable that is set to something.
    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        self.variables
            .get(name)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }

    fn path_variable(&self, name: &str) -> Option<PathBuf> {
        self.variable(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    }

    /// Returns where XDG applications keep configuration.
    fn config_dir(&self) -> PathBuf {
        self.path_variable("XDG_CONFIG_HOME")
            .unwrap_or_else(|| self.home_dir.join(".config"))
    }

    /// Returns where desktop applications keep configuration.
    fn application_dir(&self) -> PathBuf {
        if self.macos {
            self.home_dir.join("Library/Application Support")
        } else {
            self.config_dir()
        }
    }
}

/// Which of a client's files is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scope {
    /// The person's own.
    #[default]
    User,
    /// The one of a project, which others may share.
    Project,
}

/// Returns the files in which `client` may keep servers, the likeliest first; they need not exist.
#[must_use]
pub fn places(client: Client, scope: Scope, around: &Surroundings) -> Vec<PathBuf> {
    match scope {
        Scope::User => user_places(client, around),
        Scope::Project => project_places(client)
            .iter()
            .map(|name| around.folder.join(name))
            .collect(),
    }
}

fn user_places(client: Client, around: &Surroundings) -> Vec<PathBuf> {
    let home = &around.home_dir;
    let below = |dir: &Path, names: &[&str]| names.iter().map(|name| dir.join(name)).collect();
    match client {
        Client::ClaudeCode => {
            let dir = around.path_variable("CLAUDE_CONFIG_DIR");
            vec![dir.unwrap_or_else(|| home.clone()).join(".claude.json")]
        }
        Client::Claude => below(&around.application_dir(), &["Claude/claude_desktop_config.json"]),
        Client::Cursor => vec![home.join(".cursor/mcp.json")],
        Client::VsCode => below(
            &around.application_dir(),
            &[
                "Code/User/mcp.json",
                "Code - Insiders/User/mcp.json",
                "VSCodium/User/mcp.json",
            ],
        ),
        Client::Codex => {
            let dir = around.path_variable("CODEX_HOME");
            vec![dir.unwrap_or_else(|| home.join(".codex")).join("config.toml")]
        }
        Client::Windsurf => below(
            &home.join(".codeium"),
            &[
                "windsurf/mcp_config.json",
                "windsurf-next/mcp_config.json",
                "mcp_config.json",
            ],
        ),
        Client::Goose => vec![around.config_dir().join("goose/config.yaml")],
        Client::OpenCode => {
            let named = around.path_variable("OPENCODE_CONFIG");
            let dir = around.config_dir().join("opencode");
            let usual = ["opencode.json", "opencode.jsonc", "config.json"];
            named
                .into_iter()
                .chain(usual.iter().map(|name| dir.join(name)))
                .collect()
        }
    }
}

const fn project_places(client: Client) -> &'static [&'static str] {
    match client {
        Client::ClaudeCode => &[".mcp.json"],
        Client::Cursor => &[".cursor/mcp.json"],
        Client::VsCode => &[".vscode/mcp.json"],
        Client::Codex => &[".codex/config.toml"],
        Client::OpenCode => &[
            "opencode.json",
            "opencode.jsonc",
            ".opencode/opencode.json",
            ".opencode/opencode.jsonc",
        ],
        Client::Claude | Client::Windsurf | Client::Goose => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around(macos: bool, variables: &[(&str, &str)]) -> Surroundings {
        Surroundings {
            home_dir: "/h".into(),
            folder: "/p".into(),
            variables: variables
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect(),
            macos,
        }
    }

    #[test]
    fn every_client_has_a_word_and_a_place() {
        for client in Client::ALL {
            assert_eq!(client.word().parse(), Ok(client));
            assert!(client.word().parse::<pentad_model::Name>().is_ok());
            for macos in [false, true] {
                assert!(!places(client, Scope::User, &around(macos, &[])).is_empty());
            }
        }
        let error = "emacs".parse::<Client>().unwrap_err();
        assert!(error.to_string().contains("opencode, or the path of a file"));
    }

    #[test]
    fn variables_move_files_and_macos_has_its_own_folder() {
        let moved = around(
            false,
            &[
                ("CODEX_HOME", "/c"),
                ("XDG_CONFIG_HOME", "/x"),
                ("CLAUDE_CONFIG_DIR", ""),
            ],
        );
        assert_eq!(
            places(Client::Codex, Scope::User, &moved),
            [Path::new("/c/config.toml")]
        );
        assert_eq!(
            places(Client::Goose, Scope::User, &moved),
            [Path::new("/x/goose/config.yaml")]
        );
        assert_eq!(
            places(Client::ClaudeCode, Scope::User, &moved),
            [Path::new("/h/.claude.json")]
        );
        let mac = around(true, &[]);
        assert_eq!(
            places(Client::Claude, Scope::User, &mac),
            [Path::new(
                "/h/Library/Application Support/Claude/claude_desktop_config.json"
            )]
        );
        assert_eq!(
            places(Client::Cursor, Scope::Project, &mac),
            [Path::new("/p/.cursor/mcp.json")]
        );
    }
}
