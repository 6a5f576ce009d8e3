//! What the binary does without an engine: help, completions, secrets, refusals, broken pipes.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn pentad(home: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("pentad"));
    command
        .env_clear()
        .env("PENTAD_HOME", home)
        .args(words)
        .stdin(Stdio::null());
    command
}

fn output(home: &Path, words: &[&str]) -> (i32, String, String) {
    finished(pentad(home, words).output().unwrap())
}

fn finished(output: Output) -> (i32, String, String) {
    (
        output.status.code().unwrap(),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

fn with_input(home: &Path, words: &[&str], input: &str) -> (i32, String, String) {
    let mut child = pentad(home, words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    finished(child.wait_with_output().unwrap())
}

#[test]
fn help_version_and_completions_open_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    let (code, version, _) = output(&home, &["--version"]);
    assert_eq!((code, version.starts_with("pentad ")), (0, true));
    assert_eq!(output(&home, &["call", "--help"]).0, 0);
    for shell in ["bash", "zsh", "fish"] {
        let (code, script, err) = output(&home, &["completions", shell]);
        assert_eq!((code, err.as_str()), (0, ""));
        assert!(script.contains("register") && !script.contains("__spawner-"));
        assert!(script.contains("watch") && script.contains("retry"));
    }
    assert!(!home.exists());
}

#[test]
fn wrong_usage_exits_with_two() {
    let dir = tempfile::tempdir().unwrap();
    for words in [
        &["reed"][..],
        &["read"],
        &["call", "x", "y"],
        &["runs", "--status", "odd"],
        &["call", "x", "--timeout", "soon"],
    ] {
        let (code, out, err) = output(dir.path(), words);
        assert_eq!((code, out.as_str()), (2, ""), "{words:?}");
        assert!(!err.is_empty());
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let dir = tempfile::tempdir().unwrap();
    for words in [&["completions", "bash"][..], &["--help"]] {
        let mut child = pentad(dir.path(), words)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let (code, _, err) = finished(child.wait_with_output().unwrap());
        assert_eq!((code, err.as_str()), (0, ""), "{words:?}");
    }
}

#[test]
fn secrets_are_set_from_standard_input_and_shown_to_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let (code, out, err) = with_input(dir.path(), &["secret", "set", "github"], "canary-value\n");
    assert_eq!((code, out.as_str()), (0, "Set github.\n"), "{err}");
    assert!(err.contains("${secret:github}"));
    assert_eq!(output(dir.path(), &["secret", "list"]).1, "github\n");
    let (code, out, err) = output(dir.path(), &["secret", "show", "github"]);
    assert_eq!((code, out.as_str()), (3, ""));
    assert!(
        err.contains("needs a person at a terminal") && !err.contains("canary"),
        "{err}"
    );
    let (code, _, err) = with_input(dir.path(), &["secret", "set", "github"], "");
    assert_eq!(code, 2, "{err}");
    assert_eq!(output(dir.path(), &["secret", "set", "a b"]).0, 2);
    assert_eq!(
        output(dir.path(), &["secret", "rm", "github"]).1,
        "Removed github.\n"
    );
    assert_eq!(output(dir.path(), &["secret", "rm", "github"]).0, 1);
}

#[test]
fn an_agent_neither_connects_nor_stops_nor_approves() {
    let dir = tempfile::tempdir().unwrap();
    for words in [
        &["connect", "x", "--", "sh"][..],
        &["connect", "x", "--trust", "--", "sh"],
        &["disconnect", "x"],
        &["import", "cursor"],
        &["import", "cursor", "--apply", "--yes"],
        &["import", "cursor", "--undo"],
        &["stop"],
        &["approvals", "grant", "abcdefgh"],
    ] {
        let result = finished(pentad(dir.path(), words).env("CLAUDECODE", "1").output().unwrap());
        assert_eq!(result.0, 3, "{words:?} {result:?}");
        assert!(
            result.2.starts_with("refused: ") && result.2.contains("Next: "),
            "{result:?}"
        );
    }
    assert!(!dir.path().join("config.toml").exists());
}

#[test]
fn a_home_that_cannot_be_used_is_named_with_the_next_step() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let (code, out, err) = output(&file, &["read", "~/self"]);
    assert_eq!((code, out.as_str()), (1, ""));
    let expected = format!("error: {} is not a directory\nNext: move it away", file.display());
    assert!(err.starts_with(&expected), "{err}");

    std::fs::write(dir.path().join("config.toml"), "[http]\nprot = 1\n").unwrap();
    let (code, _, err) = output(dir.path(), &["read", "~/self"]);
    assert_eq!(code, 1);
    assert!(
        err.contains("config.toml:2: http.prot") && err.contains("did you mean 'port'?"),
        "{err}"
    );
    let (code, out, _) = output(dir.path(), &["doctor", "--json"]);
    assert_eq!(code, 1);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["ok"], false);
}
