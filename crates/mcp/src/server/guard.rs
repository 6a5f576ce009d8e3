//! Finds the program of a server, and refuses one that is ourselves.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::launch::LaunchFailure;

/// The variable that counts how many of us lie between a process and the outermost one.
pub const DEPTH_VARIABLE: &str = "PENTAD_DEPTH";
/// How deep we may be nested and still start servers; beyond it a loop is certain.
pub const MAX_DEPTH: u32 = 3;

/// Returns the path of the server's program.
///
/// # Errors
/// Refuses a program that is missing, that is this program, or that would be started from too deep a nesting.
pub fn resolve(
    name: &str,
    command: &str,
    env: &BTreeMap<String, String>,
    own_executable: Option<&Path>,
    depth: u32,
) -> Result<PathBuf, LaunchFailure> {
    if depth >= MAX_DEPTH {
        return Err(LaunchFailure(format!(
            "server '{name}' is not started: this program runs {depth} levels inside itself; remove the entry that starts it again"
        )));
    }
    let program = find(command, env).ok_or_else(|| {
        LaunchFailure(format!(
            "server '{name}': the program '{command}' is not found in PATH; install it, or give its whole path in [servers.{name}]"
        ))
    })?;
    let real = program.canonicalize().unwrap_or_else(|_| program.clone());
    let own = own_executable.map(|own| own.canonicalize().unwrap_or_else(|_| own.to_owned()));
    if own.as_ref() == Some(&real) {
        return Err(LaunchFailure(format!(
            "server '{name}' is this very program ({}), which would start itself without end; remove [servers.{name}]",
            real.display()
        )));
    }
    Ok(program)
}

fn find(command: &str, env: &BTreeMap<String, String>) -> Option<PathBuf> {
    if command.contains('/') {
        let path = PathBuf::from(command);
        return is_program(&path).then_some(path);
    }
    let path = env.get("PATH")?;
    std::env::split_paths(path)
        .map(|folder| folder.join(command))
        .find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p18_a_server_that_is_ourselves_is_refused() {
        let own = std::env::current_exe().unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(&own, folder.path().join("pentad")).unwrap();
        let env = BTreeMap::from([("PATH".to_owned(), folder.path().display().to_string())]);
        let refused = resolve("me", "pentad", &env, Some(&own), 0).unwrap_err();
        assert!(refused.0.contains("remove [servers.me]"), "{refused}");
        let other = Path::new("/somewhere/else");
        assert!(resolve("me", "pentad", &env, Some(other), 0).is_ok());
        let deep = resolve("me", "pentad", &env, Some(other), MAX_DEPTH).unwrap_err();
        assert!(deep.0.contains("3 levels inside itself"), "{deep}");
        let missing = resolve("me", "no-such-program", &env, None, 0).unwrap_err();
        assert!(missing.0.contains("not found in PATH"), "{missing}");
    }
}
