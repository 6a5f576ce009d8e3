//! `config.toml`: read strictly, with errors that name file, line, key and next step.

mod defaults;
mod period;
mod problem;
mod sections;
mod settle;

use std::io;
use std::path::Path;

use toml_edit::Document;

pub use self::period::Period;
pub use self::problem::{ConfigError, line_at};
pub(crate) use self::sections::bad_server_name;
pub use self::sections::{
    CallRules, ChannelEntry, ChannelKind, ClientEntry, Config, DeliverOn, EnvRules, Http, Limits, OauthEntry,
    ProjectEntry, ProviderEntry, RootEntry, RootFormat, ServerEntry, Share, Sources, ToolTrust,
};
use crate::home::Home;

impl Config {
    /// Reads the home's configuration; a missing file is an empty one.
    ///
    /// # Errors
    /// Fails when the file cannot be read or says something that is not understood. Nothing is ever replaced.
    pub fn load(home: &Home) -> Result<Self, ConfigError> {
        let file = home.config_file();
        match std::fs::read_to_string(&file) {
            Ok(text) => Self::parse(&text, &file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(source) => Err(ConfigError::Unreadable { file, source }),
        }
    }

    /// Parses a configuration; `file` is for errors only.
    ///
    /// # Errors
    /// Fails at the first thing that is not understood.
    pub fn parse(text: &str, file: &Path) -> Result<Self, ConfigError> {
        let document = Document::parse(text).map_err(|error| problem::syntax(text, file, &error))?;
        let config: Self = toml_edit::de::from_str(text)
            .map_err(|error| problem::meaning(text, file, document.as_item(), &error))?;
        match sections::first_contradiction(&config) {
            None => Ok(config),
            Some(found) => Err(problem::contradiction(text, file, document.as_item(), found)),
        }
    }
}

#[cfg(test)]
mod tests;
