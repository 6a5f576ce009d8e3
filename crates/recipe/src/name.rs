//! Names of tools.

/// Is the longest name that registration gives.
pub const MAX_NAME_CHARS: usize = 64;

/// Are names that a recipe cannot take: the verbs, and what agents already have.
pub const RESERVED_NAMES: [&str; 18] = [
    "read",
    "write",
    "call",
    "delegate",
    "plan",
    "return_result",
    "tool_search",
    "register",
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

/// Tells whether a name belongs to something else.
pub fn is_reserved(name: &str) -> bool {
    RESERVED_NAMES.contains(&name)
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
