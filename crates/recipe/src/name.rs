//! Names of tools.

/// Is the longest name that registration gives.
pub const MAX_NAME_CHARS: usize = 64;

/// Are the names of Pentad's own tools.
pub const BUILTIN_NAMES: [&str; 8] = [
    "read",
    "write",
    "call",
    "delegate",
    "plan",
    "return_result",
    "tool_search",
    "register",
];

/// Are names that agents already give to something else, so that registering them would confuse both.
const TAKEN_NAMES: [&str; 10] = [
    "edit",
    "bash",
    "find",
    "grep",
    "ls",
    "register_tool",
    "message",
    "spawn",
    "inspect",
    "execute",
];

/// Tells whether a name belongs to a tool of Pentad's own.
pub fn is_builtin(name: &str) -> bool {
    BUILTIN_NAMES.contains(&name)
}

/// Tells whether a name cannot be registered.
pub fn is_reserved(name: &str) -> bool {
    is_builtin(name) || TAKEN_NAMES.contains(&name)
}

/// Returns a name as registration writes it: lower-case words joined by single underscores; empty if nothing is left.
pub fn normalize(name: &str) -> String {
    let mut normal = String::new();
    for c in name.trim().chars().flat_map(char::to_lowercase) {
        let c = if c.is_ascii_alphanumeric() { c } else { '_' };
        if c != '_' || !(normal.is_empty() || normal.ends_with('_')) {
            normal.push(c);
        }
    }
    let normal = normal.trim_end_matches('_');
    let prefix = if normal.starts_with(|c: char| c.is_ascii_digit()) {
        "tool_"
    } else {
        ""
    };
    let cut: String = prefix
        .chars()
        .chain(normal.chars())
        .take(MAX_NAME_CHARS)
        .collect();
    cut.trim_end_matches('_').to_owned()
}

/// Tells whether a name can be the stem of a tool file as it is.
pub fn is_file_stem(name: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    !name.is_empty()
        && name.len() <= 128
        && name.chars().all(legal)
        && name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && !name.ends_with('.')
}
