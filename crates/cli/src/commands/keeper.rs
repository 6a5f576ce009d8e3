use std::process::ExitCode;

use pentad_keeper::attach::Idle;
use pentad_keeper::lock::KeeperLockError;
use pentad_keeper::{Config, Home};
use tokio_util::sync::CancellationToken;

use crate::args::Globals;
use crate::house::end_on_signal;
use crate::invoke::block_on;
use crate::keep::Keeping;
use crate::shell::prepared_home;
use crate::terminal::Terminal;
use crate::wire::Lifetime;

/// Keep this home for the faces that attach; started by them
///
/// Leaves the terminal, opens the home, and says on standard output how that went. It ends when nobody has used it for
/// long, and when it is asked to.
#[derive(Debug, clap::Args)]
pub struct Args {}

impl Args {
    #[allow(clippy::unused_self)] // every command has the same form
    pub fn run(self, globals: &Globals, terminal: &Terminal) -> anyhow::Result<ExitCode> {
        // Whoever started it may close its terminal: that is none of the keeper's business. It fails only for a leader of
        // a session, which is what it should become.
        let _ = rustix::process::setsid();
        let home = prepared_home(globals);
        block_on(async {
            let opened = match home {
                Ok(home) => opened(&home).await,
                Err(error) => Err(error),
            };
            match opened {
                Ok(keeping) => {
                    say("ready", terminal);
                    stay(&keeping).await;
                    keeping.close().await;
                    ExitCode::SUCCESS
                }
                Err(error) if matches!(error.downcast_ref(), Some(KeeperLockError::Held { .. })) => {
                    say("held", terminal);
                    ExitCode::SUCCESS
                }
                Err(error) => {
                    tracing::error!("{error:#}");
                    say(
                        &serde_json::Value::from(format!("{error:#}")).to_string(),
                        terminal,
                    );
                    ExitCode::FAILURE
                }
            }
        })
    }
}

async fn opened(home: &Home) -> anyhow::Result<Keeping> {
    let config = Config::load(home)?;
    let idle = Idle::After(config.keeper.idle_seconds.0);
    Box::pin(Keeping::open(home, &config, Lifetime::Long, idle)).await
}

/// Tells whoever started this process: the only line that a keeper prints.
fn say(line: &str, terminal: &Terminal) {
    terminal.stream(&format!("{line}\n"));
}

async fn stay(keeping: &Keeping) {
    let asked = CancellationToken::new();
    tokio::select! {
        () = keeping.unused() => tracing::info!("nobody uses this home any more"),
        () = end_on_signal(asked) => {}
        () = crate::logging::bounded() => {}
    }
}
