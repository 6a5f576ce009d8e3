//! A `pentad up` of a place.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use pentad_testkit::process::wait_at_most;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{END, Place};

/// A `pentad up` and what it printed when it was ready.
pub struct Up {
    pub child: Child,
    url: String,
    tokens: Value,
    /// Where MCP is.
    pub mcp: String,
}

impl Up {
    /// Starts one with a token for the client `web`.
    pub fn start(place: &Place) -> Self {
        Self::start_with(place, &["--client", "web"])
    }

    /// Starts one with these further arguments.
    pub fn start_with(place: &Place, more: &[&str]) -> Self {
        Self::start_with_variables(place, more, &[])
    }

    /// Starts one with these further arguments and variables.
    pub fn start_with_variables(place: &Place, more: &[&str], variables: &[(&str, &str)]) -> Self {
        let words: Vec<&str> = ["up", "--port", "0", "--json"]
            .iter()
            .chain(more)
            .copied()
            .collect();
        let mut command = place.pentad(&words);
        command.envs(variables.iter().copied());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        let ready: Value = serde_json::from_str(&line).unwrap();
        Self {
            child,
            url: ready["url"].as_str().unwrap().to_owned(),
            tokens: ready["tokens"].clone(),
            mcp: ready["mcp"].as_str().unwrap().to_owned(),
        }
    }

    /// Returns host and port.
    pub fn authority(&self) -> &str {
        self.url.strip_prefix("http://").unwrap()
    }

    /// Sends one request and returns status line, headers and body as they came.
    pub fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> String {
        let mut stream = TcpStream::connect(self.authority()).unwrap();
        let host = if headers.iter().any(|(name, _)| *name == "Host") {
            ""
        } else {
            self.authority()
        };
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n",
            body.len()
        );
        if !host.is_empty() {
            request.push_str(&format!("Host: {host}\r\n"));
        }
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        stream
            .write_all(format!("{request}\r\n{body}").as_bytes())
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Returns what the header `Authorization` holds for somebody.
    pub fn token(&self, of: &str) -> String {
        let tokens = self.tokens.as_object().unwrap();
        let found = tokens.iter().find(|(kind, _)| kind.contains(of));
        format!(
            "Bearer {}",
            found
                .unwrap_or_else(|| panic!("no token of {of}: {tokens:?}"))
                .1
                .as_str()
                .unwrap()
        )
    }

    /// Asks it to end, and waits until it has.
    pub fn end(mut self) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        assert!(wait_at_most(&mut self.child, END).unwrap().success());
    }
}
