//! Log lines on stderr: warnings by default, more with `PENTAD_LOG`.

use std::time::Duration;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::terminal::Terminal;

/// The variable that chooses what is logged, for example `info` or `pentad_mcp=debug`.
pub const LEVEL_VARIABLE: &str = "PENTAD_LOG";

/// Starts logging to stderr.
///
/// The protocol library logs whole messages below `warn`, secrets in them included, so it never gets more. Its loop of
/// one connection logs nothing: it calls a client that went away an error, and what else it finds the caller is told.
pub fn start(terminal: &Terminal) {
    let chosen = std::env::var(LEVEL_VARIABLE).unwrap_or_default();
    let filter = EnvFilter::builder()
        .with_default_directive(LevelFilter::WARN.into())
        .parse_lossy(&chosen);
    let caps = ["rmcp=warn", "rmcp::service=off"];
    let filter = caps
        .iter()
        .filter_map(|cap| cap.parse().ok())
        .fold(filter, EnvFilter::add_directive);
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(terminal.err_colors)
        .with_target(false);
    // Somebody has started it already only in tests, where either will do.
    let _ = lines.try_init();
}

/// Largest log of a keeper.
const LOG_BYTES: u64 = 8 * 1024 * 1024;
/// How often its size is looked at.
const LOG_LOOK: Duration = Duration::from_secs(60);

/// Keeps the file behind stderr below its limit for as long as it is awaited; a log that reaches it begins anew.
pub async fn bounded() {
    loop {
        tokio::time::sleep(LOG_LOOK).await;
        let stderr = std::io::stderr();
        let Ok(found) = rustix::fs::fstat(&stderr) else {
            continue;
        };
        let is_file = rustix::fs::FileType::from_raw_mode(found.st_mode) == rustix::fs::FileType::RegularFile;
        if is_file && u64::try_from(found.st_size).is_ok_and(|size| size > LOG_BYTES) {
            // It was opened for appending: the next line is the first.
            let _ = rustix::fs::ftruncate(&stderr, 0);
        }
    }
}
