//! Runs every command of the README's tour and compares what it prints.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One command and the lines that it should print; `…` matches anything within a line, or any lines when it is alone.
struct Step {
    line: usize,
    command: String,
    expected: Vec<String>,
}

fn steps(readme: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut inside = false;
    let mut in_tour = false;
    for (number, line) in readme.lines().enumerate() {
        if !inside && let Some(title) = line.strip_prefix("## ") {
            in_tour = title == "Tour";
        } else if line.starts_with("```") {
            assert!(
                !in_tour || inside || line == "```console",
                "a block of the tour that nothing runs: line {number}"
            );
            inside = !inside && line == "```console";
        } else if inside {
            match line.strip_prefix("$ ") {
                Some(command) => steps.push(Step {
                    line: number + 1,
                    command: command.to_owned(),
                    expected: Vec::new(),
                }),
                None => steps
                    .last_mut()
                    .expect("output before a command")
                    .expected
                    .push(line.to_owned()),
            }
        }
    }
    steps
}

fn line_matches(pattern: &str, line: &str) -> bool {
    let mut parts = pattern.split('…');
    let Some(mut rest) = parts.next().and_then(|first| line.strip_prefix(first)) else {
        return false;
    };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some((_, after)) = rest.split_once(part) else {
            return false;
        };
        rest = after;
    }
    true
}

fn lines_match(patterns: &[String], lines: &[&str]) -> bool {
    match patterns.split_first() {
        None => lines.is_empty(),
        Some((first, more)) if first == "…" => (0..=lines.len()).any(|n| lines_match(more, &lines[n..])),
        Some((first, more)) => lines
            .split_first()
            .is_some_and(|(line, rest)| line_matches(first, line) && lines_match(more, rest)),
    }
}

/// Puts an `npx` before the real one that starts the installed server instead of asking a registry.
fn shim(dir: &Path) -> PathBuf {
    let server = std::env::var("PENTAD_SERVER_EVERYTHING")
        .expect("the tour needs server-everything: run ./test --setup and source .tools/env");
    let node = std::env::var("PENTAD_NODE").unwrap_or_else(|_| "node".to_owned());
    let bin = dir.join("bin");
    fs::create_dir_all(&bin).unwrap();
    let npx = bin.join("npx");
    let script = format!(
        "#!/bin/sh\n[ \"$*\" = '-y @modelcontextprotocol/server-everything' ] || exit 64\nexec '{node}' '{server}'\n"
    );
    fs::write(&npx, script).unwrap();
    fs::set_permissions(&npx, fs::Permissions::from_mode(0o755)).unwrap();
    bin
}

/// Ends the keeper that the tour's first command starts.
struct Keeper(PathBuf);

impl Drop for Keeper {
    fn drop(&mut self) {
        let mut stop = Command::new(env!("CARGO_BIN_EXE_pentad"));
        let stopped = stop.arg("--home").arg(&self.0).arg("stop").output();
        assert!(stopped.is_ok_and(|output| output.status.success()) || std::thread::panicking());
    }
}

#[test]
fn the_tour_of_the_readme_does_what_it_says() {
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    let work = home.join("work");
    fs::create_dir_all(&work).unwrap();
    let binary = Path::new(env!("CARGO_BIN_EXE_pentad")).parent().unwrap();
    let path = format!(
        "{}:{}:{}",
        shim(dir.path()).display(),
        binary.display(),
        std::env::var("PATH").unwrap()
    );
    let _keeper = Keeper(home.join(".pentad"));
    let mut last = 0;
    let steps = steps(&readme);
    assert!(steps.len() > 20, "the tour has only {} commands", steps.len());
    for step in steps {
        let output = Command::new("bash")
            .args(["-c", &format!("(exit {last}); {} 2>&1", step.command)])
            .current_dir(&work)
            .env_clear()
            .env("PATH", &path)
            .env("HOME", &home)
            .env("LANG", "C.UTF-8")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines_match(&step.expected, &lines),
            "README.md:{}\n$ {}\nexpected:\n{}\n\nprinted (exit {:?}):\n{text}",
            step.line,
            step.command,
            step.expected.join("\n"),
            output.status.code()
        );
        last = output.status.code().unwrap();
    }
}
