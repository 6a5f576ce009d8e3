use std::process::ExitCode;

use pentad_keeper::KeeperLock;
use pentad_keeper::doctor::{Surroundings, examine};

use crate::args::Globals;
use crate::invoke::block_on;
use crate::render::findings;
use crate::shell::locate;
use crate::terminal::Terminal;

/// Check this home and this machine
///
/// Directories and their modes, configuration, policy, secrets, recipe roots, servers. Each finding has a next step;
/// the exit code is 1 when something does not work.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  pentad doctor\n  pentad doctor --json | jq '.findings[].message'")]
pub struct Args {}

impl Args {
    #[allow(clippy::unused_self)] // every command has the same form
    pub fn run(self, globals: &Globals, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        let home = locate(globals)?;
        let around = Surroundings {
            path: std::env::var_os("PATH"),
            home_dir: std::env::home_dir(),
            variables: std::env::vars_os()
                .filter_map(|(name, _)| name.into_string().ok())
                .collect(),
            keeper_runs: home.state().is_dir() && KeeperLock::take(&home).is_err(),
        };
        let mut found = examine(&home, &around);
        found.extend(block_on(crate::house::further_findings(globals))?);
        found.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        Ok(terminal.emit(&findings::render(&found, terminal)))
    }
}
