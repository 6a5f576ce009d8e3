use std::process::ExitCode;

use pentad_keeper::{Config, remove_server};
use pentad_mcp::TokenStore as _;

use crate::args::Globals;
use crate::invoke::block_on;
use crate::render::Rendered;
use crate::shell::{prepared_home, require_no_agent};
use crate::terminal::Terminal;
use crate::wire::HomeTokens;

/// Disconnect an MCP server
///
/// Removes it from config.toml, and its login. Other lines and comments stay as they are.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  pentad disconnect github")]
pub struct Args {
    /// The server's name
    pub name: String,
}

impl Args {
    pub fn run(self, globals: &Globals, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        require_no_agent("disconnecting a server")?;
        let home = prepared_home(globals)?;
        let name = &self.name;
        let removed = remove_server(&home, name)?;
        // A login is for the server that was there; the next one of this name is another.
        block_on(HomeTokens::of(&home).remove(name))??;
        let code = u8::from(!removed);
        let rendered = match (terminal.json, removed) {
            (true, _) => Rendered::data(
                format!("{}\n", serde_json::json!({"server": name, "removed": removed})),
                code,
            ),
            (false, true) => Rendered::data(format!("Disconnected {name}.\n"), code),
            (false, false) => {
                let file = home.config_file();
                let names: Vec<String> = Config::load(&home)?.servers.into_keys().collect();
                let next = match names.is_empty() {
                    true => "it has no servers at all; pentad connect adds one".to_owned(),
                    false => format!("name one of {}", names.join(", ")),
                };
                let text = format!("error: {} has no server '{name}'\nNext: {next}\n", file.display());
                Rendered::notice(text, code)
            }
        };
        Ok(terminal.emit(&rendered))
    }
}
