//! Configuration of other programs: full of keys, so no address ever reaches it.

use std::path::{Path, PathBuf};

/// Files and folders below the home directory in which known clients keep configuration and credentials.
const CLIENT_CONFIGS: &[&str] = &[
    ".claude.json",
    ".claude",
    ".config/claude",
    ".config/Claude",
    "Library/Application Support/Claude",
    ".codex",
    ".cursor",
    ".config/Cursor",
    "Library/Application Support/Cursor",
    ".config/Code/User/mcp.json",
    ".config/Code/User/settings.json",
    ".config/Code - Insiders/User/mcp.json",
    "Library/Application Support/Code/User/mcp.json",
    ".vscode/mcp.json",
    ".config/goose",
    ".config/opencode",
    ".local/share/opencode",
    ".codeium",
    ".windsurf",
    ".gemini",
    ".qwen",
    ".config/zed/settings.json",
    ".config/amp",
    ".local/share/amp",
    ".config/crush",
    ".local/share/crush",
    ".config/github-copilot",
    ".copilot",
    ".continue",
    ".cline",
    ".roo",
    ".kiro",
    ".aws/amazonq",
    ".factory",
    ".augment",
    ".pi/agent/auth.json",
    ".pi/agent/models.json",
    ".pi/agent/settings.json",
    ".aider.conf.yml",
    ".config/io.datasette.llm",
];

/// Returns the configuration files and folders of known clients below `home_dir`, whether or not they exist.
///
/// Whoever opens `file:` addresses compares by handle or canonical path against each of them and everything below.
#[must_use]
pub fn known_client_configs(home_dir: &Path) -> Vec<PathBuf> {
    CLIENT_CONFIGS.iter().map(|name| home_dir.join(name)).collect()
}
