//! `pentad import` as a person runs it: exit codes, both streams, and no key in either.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

struct Person {
    dir: tempfile::TempDir,
}

impl Person {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("work")).unwrap();
        Self { dir }
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn run(&self, words: &[&str]) -> (i32, String, String) {
        let output = Command::new(assert_cmd::cargo::cargo_bin!("pentad"))
            .env_clear()
            .env("HOME", self.dir.path())
            .env("PATH", std::env::var_os("PATH").unwrap())
            .current_dir(self.dir.path().join("work"))
            .arg("import")
            .args(words)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let (out, err) = (text(output.stdout), text(output.stderr));
        assert!(!out.contains("canary") && !err.contains("canary"), "{out}{err}");
        (output.status.code().unwrap(), out, err)
    }

    fn json(&self, words: &[&str]) -> Value {
        let (code, out, err) = self.run(&[words, &["--json"]].concat());
        assert_eq!(code, 0, "{out}{err}");
        serde_json::from_str(&out).unwrap()
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

/// Runs a command in a terminal and answers each prompt once it stands there and, for a secret, once echo is off.
const IN_A_TERMINAL: &str = r#"
import json, os, pty, select, sys, termios
answers, words = json.loads(sys.argv[1]), sys.argv[2:]
pid, fd = pty.fork()
if pid == 0:
    os.execve(words[0], words, os.environ)
seen, at = b"", 0
def echo_is(wanted):
    return bool(termios.tcgetattr(fd)[3] & termios.ECHO) == wanted
while True:
    ready, _, _ = select.select([fd], [], [], 0.02)
    if ready:
        try:
            piece = os.read(fd, 4096)
        except OSError:
            break
        if not piece:
            break
        seen += piece
    if answers and answers[0][0].encode() in seen[at:] and echo_is(answers[0][2]):
        at = len(seen)
        os.write(fd, answers.pop(0)[1].encode() + b"\n")
sys.stdout.write(seen.decode())
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"#;

impl Person {
    fn in_a_terminal(&self, words: &[&str], answers: &Value) -> (i32, String) {
        let python = std::env::var("PENTAD_PYTHON")
            .expect("this test needs Python: run ./test --setup and source .tools/env");
        let output = Command::new(python)
            .env_clear()
            .env("HOME", self.dir.path())
            .env("PATH", std::env::var_os("PATH").unwrap())
            .current_dir(self.dir.path().join("work"))
            .args(["-c", IN_A_TERMINAL, &answers.to_string()])
            .arg(assert_cmd::cargo::cargo_bin!("pentad"))
            .arg("import")
            .args(words)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(!text.contains("canary"), "{text}");
        (output.status.code().unwrap(), text.replace("\r\n", "\n"))
    }
}

const CODEX: &str = "# mine\n[mcp_servers.a]\ncommand = \"a\"\nenv = { TOKEN = \"canary-1\" } # here\n\n[mcp_servers.a-b]\ncommand = \"b\"\nargs = [\"--api-key\", \"canary-2\"]\n";

#[test]
fn an_import_is_shown_done_and_undone() {
    let person = Person::new();
    let path = person.file(".codex/config.toml", CODEX);
    let (code, out, err) = person.run(&["codex"]);
    assert_eq!(code, 0);
    assert!(
        out.starts_with("Codex: ") && out.contains("${secret:a-token}"),
        "{out}"
    );
    assert_eq!(err, "Nothing was changed.\nNext: pentad import codex --apply\n");
    assert_eq!(person.json(&["codex"])["status"], "planned");

    // Nobody can answer here, and a plan that nobody saw is not carried out.
    let (code, out, err) = person.run(&["codex", "--apply"]);
    assert_eq!(
        (code, out.as_str(), err.contains("--yes")),
        (2, "", true),
        "{err}"
    );
    let (code, _, err) = person.run(&["codex", "--apply", "--yes", "--trust"]);
    assert_eq!(
        (code, err.contains("needs a person at a terminal")),
        (3, true),
        "{err}"
    );
    assert_eq!(read(&path), CODEX);

    let applied = person.json(&["codex", "--apply", "--yes"]);
    assert_eq!(applied["status"], "applied");
    assert_eq!(applied["stored"], serde_json::json!(["a-b-api-key", "a-token"]));
    let own = assert_cmd::cargo::cargo_bin!("pentad").display().to_string();
    let entry = format!(
        "# mine\n[mcp_servers.pentad]\ncommand = \"{own}\"\nargs = [\"mcp\", \"--client\", \"codex\"]\n\n"
    );
    assert_eq!(read(&path), entry);
    let (code, out, _) = person.run(&["codex"]);
    assert_eq!(
        (code, out.ends_with("There is nothing to import.\n")),
        (0, true),
        "{out}"
    );
    assert_eq!(person.run(&["codex", "--apply", "--yes"]).0, 0);

    let (code, out, err) = person.run(&["codex", "--undo"]);
    assert_eq!(
        (code, out.ends_with("config.toml is as it was.\n")),
        (0, true),
        "{out}{err}"
    );
    assert!(
        err.starts_with("These servers stay in config.toml: a, a-b\nNext: pentad disconnect a "),
        "{err}"
    );
    assert_eq!(read(&path), CODEX);
    assert_eq!(person.run(&["codex", "--undo"]).0, 1);
}

#[test]
fn what_cannot_be_imported_says_the_next_step() {
    let person = Person::new();
    assert_eq!(person.run(&["emacs"]).0, 2);
    assert_eq!(person.run(&["x.json", "--project"]).0, 2);
    assert_eq!(person.run(&["codex", "--yes"]).0, 2);
    let (code, _, err) = person.run(&["cursor"]);
    assert_eq!(
        (code, err.contains("Cursor has no configuration here")),
        (1, true),
        "{err}"
    );
    person.file(
        "work/.cursor/mcp.json",
        "{\"mcpServers\": {\"a\": {\"command\": \"a\"}}}",
    );
    let (_, _, err) = person.run(&["cursor"]);
    assert!(err.contains("Next: --project takes "), "{err}");
    let planned = person.json(&["cursor", "--project"]);
    assert_eq!(planned["servers"][0]["server"], "a");
    person.file(
        "broken.json",
        "{\"mcpServers\": {\"a\": {\"env\": {\"TOKEN\": canary}}}}",
    );
    for words in [
        &["../broken.json"][..],
        &["../broken.json", "--json"],
        &["../broken.json", "--apply", "--yes"],
    ] {
        assert_eq!(person.run(words).0, 1, "{words:?}");
    }
}

#[test]
fn a_server_is_measured_as_it_will_run() {
    let person = Person::new();
    let server = pentad_testkit::binaries::fixture("fixture-mcp-server").unwrap();
    let text = serde_json::json!({"mcpServers": {
        "fixture": {"command": server, "env": {"FIXTURE_TOKEN": "canary-3"}},
        "gone": {"command": "/nowhere/at-all"},
        "off": {"command": server, "disabled": true},
    }});
    let path = person.file("mcp.json", &text.to_string());
    let path = path.to_str().unwrap();
    let unknown = &person.json(&[path])["payload"];
    assert_eq!(unknown["before"], Value::Null);
    assert_eq!(unknown["unknown"], serde_json::json!(["fixture", "gone"]));

    let measured = &person.json(&[path, "--measure"])["payload"];
    assert_eq!(measured["unknown"], serde_json::json!(["gone"]));
    let (tools, bytes) = (&measured["before"]["tools"], &measured["before"]["bytes"]);
    assert!(
        tools.as_u64() > Some(0) && bytes.as_u64() > Some(100),
        "{measured}"
    );
    // Nothing of it is left, and nothing is configured.
    let cache = fs::read_dir(person.dir.path().join(".pentad/cache")).unwrap();
    assert_eq!(
        cache
            .filter(|e| e
                .as_ref()
                .unwrap()
                .file_name()
                .to_string_lossy()
                .contains("measure"))
            .count(),
        0
    );
    assert!(!person.dir.path().join(".pentad/config.toml").exists());
    assert!(!person.dir.path().join(".pentad/keys/secrets.toml").exists());
}

#[test]
fn no_address_reaches_the_backup() {
    let person = Person::new();
    person.file(
        "work/.mcp.json",
        "{\"mcpServers\": {\"a\": {\"command\": \"a\", \"env\": {\"A_KEY\": \"canary-4\"}}}}",
    );
    person.json(&["claude-code", "--project", "--apply", "--yes"]);
    assert!(person.dir.path().join("work/.mcp.json.pentad-backup-1").exists());
    let output = Command::new(assert_cmd::cargo::cargo_bin!("pentad"))
        .env_clear()
        .env("HOME", person.dir.path())
        .current_dir(person.dir.path().join("work"))
        .args(["--in-process", "read", "file:.mcp.json.pentad-backup-1"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(
        (output.status.code(), said.contains("canary")),
        (Some(3), false),
        "{said}"
    );
}

#[test]
fn a_person_is_asked_before_anything_is_done_and_for_what_only_the_client_knows() {
    let person = Person::new();
    let text = serde_json::json!({
        "inputs": [{"id": "gh_key", "type": "promptString", "description": "The key"}],
        "servers": {"gh": {"type": "http", "url": "https://gh.example/mcp", "headers": {"X-Key": "${input:gh_key}"}}},
    });
    let path = person.file("work/.vscode/mcp.json", &text.to_string());
    let words = ["vscode", "--project", "--apply", "--trust"];
    let (code, said) = person.in_a_terminal(&words, &serde_json::json!([["[y/N]", "", true]]));
    assert_eq!(
        (code, said.ends_with("Nothing was changed.\n")),
        (1, true),
        "{said}"
    );
    assert_eq!(read(&path), text.to_string());

    let answers = serde_json::json!([["[y/N]", "y", true], ["Value of gh-key", "canary-5", false]]);
    let (code, said) = person.in_a_terminal(&words, &answers);
    assert_eq!(
        (code, said.contains("Imported the server gh into ")),
        (0, true),
        "{said}"
    );
    assert!(
        said.contains("The key\nValue of gh-key (not shown; empty for later): "),
        "{said}"
    );
    let home = person.dir.path().join(".pentad");
    assert!(read(&home.join("keys/secrets.toml")).contains("gh-key = \"canary-5\""));
    let config = read(&home.join("config.toml"));
    assert!(
        config.contains("X-Key = \"${secret:gh-key}\"") && config.contains("grants = [\"call:gh/\"]"),
        "{config}"
    );
}

#[test]
fn kill_an_import_at_any_point_and_no_server_is_lost() {
    for round in 0..24 {
        let person = Person::new();
        let path = person.file(".codex/config.toml", CODEX);
        let mut child = Command::new(assert_cmd::cargo::cargo_bin!("pentad"))
            .env_clear()
            .env("HOME", person.dir.path())
            .args(["import", "codex", "--apply", "--yes"])
            .current_dir(person.dir.path().join("work"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // The kill is to come at no particular point: each round waits a little longer than the one before.
        std::thread::sleep(std::time::Duration::from_millis(round * 3));
        child.kill().unwrap();
        child.wait().unwrap();
        if read(&path) != CODEX {
            assert!(read(&path).contains("[mcp_servers.pentad]"), "round {round}");
            let home = person.dir.path().join(".pentad");
            let secrets = read(&home.join("keys/secrets.toml"));
            assert!(
                secrets.contains("canary-1") && secrets.contains("canary-2"),
                "round {round}"
            );
            let config = read(&home.join("config.toml"));
            assert!(
                config.contains("[servers.a]") && config.contains("[servers.a-b]"),
                "round {round}"
            );
        }
        // Whatever it left, the next one finishes, and an undo gives every byte back.
        let (code, _, err) = person.run(&["codex", "--apply", "--yes"]);
        assert_eq!(code, 0, "round {round}: {err}");
        assert!(!read(&path).contains("canary"), "round {round}");
        assert_eq!(person.run(&["codex", "--undo"]).0, 0, "round {round}");
        assert_eq!(read(&path), CODEX, "round {round}");
    }
}
