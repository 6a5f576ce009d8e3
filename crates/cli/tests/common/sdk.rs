//! Real clients: the official SDKs, driven by the programs in `interop/`.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::up::Up;
use super::{CLIENT, Place, binary, text};

/// A client of an official SDK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sdk {
    /// PyPI `mcp`, opening a session.
    Python,
    /// PyPI `mcp` at revision 2026-07-28, without a session.
    Stateless,
    /// npm `@modelcontextprotocol/sdk`, opening a session.
    TypeScript,
}

/// All of them.
pub const SDKS: [Sdk; 3] = [Sdk::Python, Sdk::Stateless, Sdk::TypeScript];

/// The programs that `./test --setup` installs.
#[derive(Debug, Clone)]
pub struct Installed {
    python: String,
    node: String,
    node_modules: String,
    interop: String,
    /// server-everything.
    pub everything: String,
    /// server-filesystem.
    pub filesystem: String,
}

impl Installed {
    /// Finds them. Without them a test has nothing to do, which is a failure wherever they are meant to be.
    pub fn find() -> Option<Self> {
        let meant = ["CI", "PENTAD_TOOLS"]
            .iter()
            .any(|name| std::env::var_os(name).is_some());
        let of = |name: &str| {
            let found = std::env::var(name).ok();
            if found.is_none() {
                let advice = format!("{name} is not set: run ./test --setup and source .tools/env");
                assert!(!meant, "{advice}");
                eprintln!("{advice}; nothing is tested");
            }
            found
        };
        Some(Self {
            python: of("PENTAD_PYTHON")?,
            node: of("PENTAD_NODE")?,
            node_modules: of("PENTAD_NODE_MODULES")?,
            interop: of("PENTAD_INTEROP")?,
            everything: of("PENTAD_SERVER_EVERYTHING")?,
            filesystem: of("PENTAD_SERVER_FILESYSTEM")?,
        })
    }

    /// Configures server-everything in a home.
    pub fn connect_everything(&self, place: &Place) {
        place.server("everything", &[&self.node, &self.everything], "");
    }

    /// Configures server-filesystem in a home, over the place's folder `files`, which is made.
    pub fn connect_filesystem(&self, place: &Place) {
        let files = place.path("files");
        std::fs::create_dir_all(&files).unwrap();
        place.server("filesystem", &[&self.node, &self.filesystem, &text(&files)], "");
    }

    /// Connects a client to a face of the place, makes these calls in order, and returns what it saw.
    pub fn through_pentad(&self, sdk: Sdk, place: &Place, calls: &Value, options: &[&str]) -> Value {
        let report = self.run(sdk, place, calls, options, &[&text(&binary()), "mcp"]);
        assert_eq!(
            report["exit"]["code"],
            json!(0),
            "the face did not end by itself: {}",
            report["exit"]
        );
        report
    }

    /// Connects a client to a server itself, and returns the names of the server's tools.
    pub fn tools_of(&self, place: &Place, server: &[&str]) -> Vec<String> {
        let command: Vec<&str> = [self.node.as_str()]
            .into_iter()
            .chain(server.iter().copied())
            .collect();
        let report = self.run(Sdk::Python, place, &json!([]), &[], &command);
        serde_json::from_value(report["tools"]["names"].clone()).unwrap()
    }

    /// Connects a client to `/mcp` of a `pentad up` with the token of `who`, and makes these calls in order.
    pub fn over_http(
        &self,
        sdk: Sdk,
        place: &Place,
        up: &Up,
        who: &str,
        calls: &Value,
        options: &[&str],
    ) -> Value {
        let authorization = format!("Authorization: {}", up.token(who));
        let words = ["--url", up.mcp.as_str(), "--header", authorization.as_str()];
        let words: Vec<&str> = words.into_iter().chain(options.iter().copied()).collect();
        self.run_client(sdk, place, calls, &words)
    }

    fn run(&self, sdk: Sdk, place: &Place, calls: &Value, options: &[&str], server: &[&str]) -> Value {
        let cwd = text(&place.path("work"));
        let environment: Vec<String> = place
            .env()
            .into_iter()
            .map(|(name, value)| format!("--env={name}={value}"))
            .collect();
        let words: Vec<&str> = ["--cwd", &cwd]
            .into_iter()
            .chain(environment.iter().map(String::as_str))
            .chain(options.iter().copied())
            .chain(["--"])
            .chain(server.iter().copied())
            .collect();
        self.run_client(sdk, place, calls, &words)
    }

    fn run_client(&self, sdk: Sdk, place: &Place, calls: &Value, words: &[&str]) -> Value {
        let (program, script, mode) = match sdk {
            Sdk::Python => (&self.python, "python_client.py", "legacy"),
            Sdk::Stateless => (&self.python, "python_client.py", "2026-07-28"),
            Sdk::TypeScript => (&self.node, "ts_client.mjs", "legacy"),
        };
        let mut client = Command::new(program)
            .arg(format!("{}/{script}", self.interop))
            .args(["--mode", mode, "--calls", "-", "--client-name", CLIENT])
            .args(words)
            .env("PENTAD_NODE_MODULES", &self.node_modules)
            .current_dir(place.path("work"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        client
            .stdin
            .take()
            .unwrap()
            .write_all(calls.to_string().as_bytes())
            .unwrap();
        let output = client.wait_with_output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{sdk:?}: {error}: {}", String::from_utf8_lossy(&output.stdout)));
        assert!(
            output.status.success() && report.get("failed").is_none(),
            "{sdk:?}: {report}"
        );
        report
    }
}

/// Returns the texts of a call in a report, joined.
pub fn texts(call: &Value) -> String {
    let parts = call["content"].as_array().into_iter().flatten();
    parts
        .filter_map(|part| part["text"].as_str())
        .collect::<Vec<_>>()
        .join("\n")
}

/// Returns the text of a call that must have succeeded.
pub fn succeeded(call: &Value) -> String {
    assert!(
        call["outcome"] == "result" && call["isError"] == json!(false),
        "{call}"
    );
    texts(call)
}

/// A call of the verb `read`.
pub fn read(address: &str) -> Value {
    json!({"name": "read", "arguments": {"address": address}})
}

/// A call of the verb `call`.
pub fn call(tool: &str, input: &Value) -> Value {
    json!({"name": "call", "arguments": {"tool": tool, "input": input}})
}
