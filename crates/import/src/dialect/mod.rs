//! What each client writes about a server, read into one form.

mod codex;
mod fields;
mod goose;
mod mcp_servers;
mod opencode;

use std::time::Duration;

use serde_json::Value;

use crate::client::Client;
use crate::text::{Inputs, Meaning, References, Text};

/// A server as a client configured it.
#[derive(Debug, Clone, PartialEq)]
pub struct ForeignServer {
    /// How it is reached.
    pub launch: Launch,
    /// Whether the client has it switched off.
    pub disabled: bool,
    /// Longest first start.
    pub start_timeout: Option<Duration>,
    /// Longest call.
    pub call_timeout: Option<Duration>,
    /// Keys that have no counterpart and are left out, in the order of the file.
    pub left_out: Vec<String>,
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq)]
pub enum Launch {
    /// A program on this machine.
    Command {
        /// The program.
        program: Text,
        /// Its arguments.
        args: Vec<Text>,
        /// Its variables.
        env: Vec<(String, Text)>,
        /// Its folder.
        cwd: Option<String>,
    },
    /// An endpoint.
    Url {
        /// The address.
        url: Text,
        /// Headers of each request.
        headers: Vec<(String, Text)>,
    },
}

/// Why an entry is left in its client's file. Texts name keys, never values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stays(pub String);

impl Stays {
    fn because(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

/// What is needed to read the entries of one file.
#[derive(Debug, Clone)]
pub struct Reading<'a> {
    /// Whose file it is; `None` for a file of a form that several clients share.
    pub client: Option<Client>,
    /// What references mean.
    pub meaning: Meaning<'a>,
    /// What the file asks for.
    pub inputs: &'a Inputs,
}

impl Reading<'_> {
    fn text(&self, raw: &str) -> Result<Text, Stays> {
        self.meaning.read(raw).map_err(Stays)
    }

    fn texts(&self, raw: &[String]) -> Result<Vec<Text>, Stays> {
        raw.iter().map(|raw| self.text(raw)).collect()
    }

    fn pairs(&self, raw: Vec<(String, String)>) -> Result<Vec<(String, Text)>, Stays> {
        raw.into_iter()
            .map(|(name, raw)| Ok((name, self.text(&raw)?)))
            .collect()
    }

    /// Reads a folder; one that is not absolute means something only where the file belongs to a folder.
    fn cwd(&self, raw: Option<&str>) -> Result<Option<String>, Stays> {
        let Some(raw) = raw.filter(|raw| !raw.is_empty()) else {
            return Ok(self.meaning.folder.map(str::to_owned));
        };
        let text = self.text(raw)?;
        let cwd = text
            .as_literal()
            .ok_or_else(|| Stays::because("its cwd depends on a variable"))?;
        if cwd.starts_with('/') || cwd.starts_with("~/") {
            return Ok(Some(cwd));
        }
        match self.meaning.folder {
            Some(folder) => Ok(Some(format!("{folder}/{}", cwd.trim_start_matches("./")))),
            None => Err(Stays::because(
                "its cwd is relative to where the client was started",
            )),
        }
    }
}

/// Reads one entry.
///
/// # Errors
/// Says why the entry cannot be taken over.
pub fn read(entry: &Value, reading: &Reading<'_>) -> Result<ForeignServer, Stays> {
    let map = entry
        .as_object()
        .ok_or_else(|| Stays::because("it is not a map of settings"))?;
    let fields = fields::Fields::new(map);
    match reading.client {
        Some(Client::Codex) => codex::read(fields, reading),
        Some(Client::Goose) => goose::read(fields, reading),
        Some(Client::OpenCode) => opencode::read(fields, reading),
        _ => mcp_servers::read(fields, reading),
    }
}

/// Returns how a client writes references.
#[must_use]
pub const fn references(client: Option<Client>) -> References {
    match client {
        Some(Client::ClaudeCode) => References::Shell,
        Some(Client::Cursor | Client::VsCode | Client::Windsurf) => References::Editor,
        Some(Client::OpenCode) => References::Braces,
        Some(Client::Claude | Client::Codex | Client::Goose) | None => References::None,
    }
}
