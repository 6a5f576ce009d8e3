//! Recognising an entry that starts Pentad itself.

use std::path::{Path, PathBuf};

/// Programs that start another program which they are given.
const WRAPPERS: [&str; 10] = [
    "env", "npx", "bunx", "pnpx", "uvx", "nice", "nohup", "sudo", "setsid", "exec",
];
/// Shells, whose command stands after `-c`.
const SHELLS: [&str; 5] = ["sh", "bash", "zsh", "dash", "fish"];

/// Tells whether a command starts Pentad, directly or through a wrapper.
///
/// `own` is this program, so that a copy or a link under another name is seen too.
#[must_use]
pub fn is_pentad(program: &str, args: &[String], own: Option<&Path>) -> bool {
    let name = base_name(program);
    if name == "pentad" || is_same_file(program, own) {
        return true;
    }
    if SHELLS.contains(&name) {
        let script = args
            .iter()
            .skip_while(|arg| !arg.ends_with('c') || !arg.starts_with('-'))
            .nth(1);
        return script.is_some_and(|script| starts_pentad(script.split_whitespace(), own));
    }
    WRAPPERS.contains(&name) && starts_pentad(args.iter().map(String::as_str), own)
}

/// Looks at the first word that is neither an option nor a variable.
fn starts_pentad<'w>(words: impl Iterator<Item = &'w str>, own: Option<&Path>) -> bool {
    let mut words = words.filter(|word| !word.starts_with('-') && !word.contains('='));
    let first = words.next();
    let program = match first {
        Some(word) if WRAPPERS.contains(&base_name(word)) => words.next(),
        first => first,
    };
    program.is_some_and(|word| {
        let bare = word.split_once('@').map_or(word, |(name, _)| name);
        base_name(bare) == "pentad" || is_same_file(word, own)
    })
}

fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

fn is_same_file(program: &str, own: Option<&Path>) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    program.contains('/')
        && own
            .and_then(real)
            .is_some_and(|own| real(Path::new(program)) == Some(own))
}

/// Returns how a client should call this program: by its bare name when that finds the very same file, else by its path.
#[must_use]
pub fn own_command(own: &Path, path_variable: &str) -> String {
    let found = std::env::split_paths(path_variable)
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join("pentad"))
        .find(|candidate| candidate.is_file());
    let real = |path: &PathBuf| std::fs::canonicalize(path).ok();
    match found {
        Some(found) if real(&found).is_some() && real(&found) == std::fs::canonicalize(own).ok() => {
            "pentad".to_owned()
        }
        _ => own.to_string_lossy().into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(command: &str) -> bool {
        let mut words = command.split(' ').map(|word| word.replace('_', " "));
        let program = words.next().unwrap();
        is_pentad(&program, &words.collect::<Vec<_>>(), None)
    }

    #[test]
    fn pentad_is_seen_through_wrappers() {
        for command in [
            "pentad mcp",
            "/usr/local/bin/pentad mcp",
            "env PENTAD_HOME=/x pentad mcp",
            "/usr/bin/env -S nice pentad mcp",
            "npx -y pentad@latest mcp",
            "sh -c pentad_mcp",
            "bash -lc exec_/opt/pentad_mcp",
        ] {
            assert!(seen(command), "{command}");
        }
        for command in [
            "npx -y pentad-tools",
            "sh -c echo_pentad",
            "node pentad.js",
            "uvx mcp-server-git",
            "sh",
        ] {
            assert!(!seen(command), "{command}");
        }
    }

    #[test]
    fn a_link_under_another_name_is_the_same_program() {
        let dir = tempfile::tempdir().unwrap();
        let (own, link) = (dir.path().join("pentad"), dir.path().join("p5"));
        std::fs::write(&own, "").unwrap();
        std::os::unix::fs::symlink(&own, &link).unwrap();
        assert!(is_pentad(link.to_str().unwrap(), &[], Some(&own)));
        assert!(!is_pentad(
            dir.path().join("x").to_str().unwrap(),
            &[],
            Some(&own)
        ));
        assert_eq!(own_command(&own, dir.path().to_str().unwrap()), "pentad");
        assert_eq!(own_command(&own, "/nowhere"), own.to_str().unwrap());
    }
}
