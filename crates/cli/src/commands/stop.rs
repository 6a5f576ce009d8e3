use std::process::ExitCode;
use std::time::{Duration, Instant};

use pentad_keeper::KeeperLock;
use pentad_keeper::lock::KeeperLockError;
use rustix::process::{Pid, Signal, kill_process};

use crate::args::Globals;
use crate::render::Rendered;
use crate::shell::{prepared_home, require_no_agent};
use crate::terminal::Terminal;

/// Longest wait for the keeper and everything it started to end.
const LIMIT: Duration = Duration::from_secs(30);

/// Stop what works in this home
///
/// Ends the keeper or pentad up of this home, with every command and server that it started.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  pentad stop --home /srv/pentad")]
pub struct Args {}

impl Args {
    #[allow(clippy::unused_self)] // every command has the same form
    pub fn run(self, globals: &Globals, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        require_no_agent("stopping this home")?;
        let home = prepared_home(globals)?;
        let pid = match KeeperLock::take(&home) {
            Ok(_) => return Ok(done(terminal, None)),
            Err(KeeperLockError::Held { pid: Some(pid), .. }) => pid,
            Err(error) => return Err(error.into()),
        };
        let process = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let process = process.ok_or_else(|| anyhow::anyhow!("the lock names no process ({pid})"))?;
        kill_process(process, Signal::TERM)
            .map_err(|errno| anyhow::anyhow!("process {pid} could not be asked to end: {errno}"))?;
        let end = Instant::now() + LIMIT;
        while Instant::now() < end {
            if KeeperLock::take(&home).is_ok() {
                return Ok(done(terminal, Some(pid)));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        anyhow::bail!(
            "process {pid} has not ended within {} s\nNext: repeat, or kill -9 {pid}: what it started ends with it",
            LIMIT.as_secs()
        )
    }
}

fn done(terminal: &Terminal, pid: Option<u32>) -> ExitCode {
    let out = match (terminal.json, pid) {
        (true, _) => format!("{}\n", serde_json::json!({"stopped": pid})),
        (false, Some(pid)) => format!("Stopped process {pid}.\n"),
        (false, None) => "Nothing works in this home.\n".to_owned(),
    };
    terminal.emit(&Rendered::data(out, 0))
}
