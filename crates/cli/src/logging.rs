//! Log lines on stderr: warnings by default, more with `PENTAD_LOG`.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::terminal::Terminal;

/// The variable that chooses what is logged, for example `info` or `pentad_mcp=debug`.
const VARIABLE: &str = "PENTAD_LOG";

/// Starts logging to stderr.
///
/// The protocol library logs whole messages below `warn`, secrets in them included, so it never gets more.
pub fn start(terminal: &Terminal) {
    let chosen = std::env::var(VARIABLE).unwrap_or_default();
    let filter = EnvFilter::builder()
        .with_default_directive(LevelFilter::WARN.into())
        .parse_lossy(&chosen);
    let filter = match "rmcp=warn".parse() {
        Ok(cap) => filter.add_directive(cap),
        Err(_) => filter,
    };
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(terminal.err_colors)
        .with_target(false);
    // Somebody has started it already only in tests, where either will do.
    let _ = lines.try_init();
}
