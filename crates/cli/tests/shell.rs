//! The `~` rule under real shells: a shell expands `~/memory/x`, and it still means the agent's memory.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod common;

use std::process::Command;

use common::{Place, binary, text};

fn has(shell: &str) -> bool {
    Command::new(shell)
        .args(["-c", "exit 0"])
        .status()
        .is_ok_and(|status| status.success())
}

#[test]
fn addresses_survive_every_shell() {
    let place = Place::new();
    let binary = text(&binary());
    for shell in ["sh", "bash", "zsh", "fish"] {
        if !has(shell) {
            eprintln!("{shell} is not installed here; ./test --setup installs it where it may");
            continue;
        }
        let run = |line: &str| {
            let output = Command::new(shell)
                .args(["-c", line])
                .env_clear()
                .envs(place.env())
                .current_dir(place.path("work"))
                .output()
                .unwrap();
            assert!(
                output.status.success(),
                "{shell}: {line}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        };
        run(&format!(
            "{binary} write ~/memory/from/{shell}.md 'words of {shell}'"
        ));
        for spelling in [
            format!("~/memory/from/{shell}.md"),
            format!("'~/memory/from/{shell}.md'"),
            format!("\"$HOME/memory/from/{shell}.md\""),
        ] {
            assert_eq!(
                run(&format!("{binary} read {spelling}")),
                format!("words of {shell}"),
                "{spelling}"
            );
        }
        assert!(run(&format!("{binary} read ~/self")).contains("main"));
        assert!(run(&format!("{binary} read ~/tools/")).contains("library"));
    }
    assert!(
        !place.path("person/memory").exists(),
        "nothing was written where the shell thought"
    );
}

#[test]
fn completions_are_accepted_by_the_shells_they_are_for() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        if !has(shell) {
            continue;
        }
        let script = place.path(&format!("completion.{shell}"));
        let output = place.pentad(&["completions", shell]).output().unwrap();
        std::fs::write(&script, output.stdout).unwrap();
        let flag = if shell == "fish" { "--no-execute" } else { "-n" };
        assert!(
            Command::new(shell)
                .arg(flag)
                .arg(&script)
                .status()
                .unwrap()
                .success(),
            "{shell}"
        );
    }
}
