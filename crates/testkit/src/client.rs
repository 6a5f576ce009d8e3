//! A raw MCP client over stdio: JSON lines in, JSON lines out, nothing interpreted.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

/// Longest wait for one message.
const LIMIT: Duration = Duration::from_secs(60);

/// A client and the server process that it started.
pub struct RawClient {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    next_id: u64,
    /// Notifications and requests that arrived while a response was awaited.
    pub aside: Vec<Value>,
}

impl RawClient {
    /// Starts `program` with `args` and this environment added, and reads its stdout line by line.
    pub fn start<A: AsRef<OsStr>>(
        program: &Path,
        args: impl IntoIterator<Item = A>,
        env: &BTreeMap<String, String>,
        cwd: &Path,
    ) -> Result<Self> {
        let mut child = Command::new(program)
            .args(args)
            .envs(env)
            .current_dir(cwd)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .with_context(|| format!("start {}", program.display()))?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().context("the server's stdout")?;
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Self {
            child,
            stdin,
            lines,
            next_id: 0,
            aside: Vec::new(),
        })
    }

    /// Returns the server's process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Writes one line as it is.
    pub fn send_line(&mut self, line: &str) -> Result<()> {
        let stdin = self.stdin.as_mut().context("stdin is closed")?;
        stdin.write_all(line.as_bytes())?;
        stdin.write_all(b"\n")?;
        stdin.flush()?;
        Ok(())
    }

    /// Sends a request without waiting; returns its id.
    pub fn send(&mut self, method: &str, params: &Value) -> Result<u64> {
        self.next_id += 1;
        let id = self.next_id;
        self.send_line(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string())?;
        Ok(id)
    }

    /// Sends a notification.
    pub fn notify(&mut self, method: &str, params: &Value) -> Result<()> {
        self.send_line(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string())
    }

    /// Returns the next line of the server as it is.
    pub fn next_line(&mut self) -> Result<String> {
        match self.lines.recv_timeout(LIMIT) {
            Ok(line) => Ok(line),
            Err(RecvTimeoutError::Timeout) => bail!("no line within {LIMIT:?}"),
            Err(RecvTimeoutError::Disconnected) => bail!("the server closed its stdout"),
        }
    }

    /// Waits for the response to `id`; other messages are put aside.
    pub fn response(&mut self, id: u64) -> Result<Value> {
        let until = Instant::now() + LIMIT;
        while Instant::now() < until {
            let message = parsed(&self.next_line()?)?;
            if message.get("id").and_then(Value::as_u64) == Some(id) && message.get("method").is_none() {
                return Ok(message);
            }
            self.aside.push(message);
        }
        bail!("no response to request {id} within {LIMIT:?}")
    }

    /// Returns the next message, or nothing when none came within `limit` or the server closed its stdout.
    pub fn message_within(&mut self, limit: Duration) -> Result<Option<Value>> {
        match self.lines.recv_timeout(limit) {
            Ok(line) => parsed(&line).map(Some),
            Err(_) => Ok(None),
        }
    }

    /// Sends a request and waits for its whole response.
    pub fn request(&mut self, method: &str, params: &Value) -> Result<Value> {
        let id = self.send(method, params)?;
        self.response(id)
    }

    /// Opens a session of protocol `version` and returns the answer.
    pub fn initialize(&mut self, version: &str, client: &str) -> Result<Value> {
        let params = json!({
            "protocolVersion": version,
            "capabilities": {},
            "clientInfo": {"name": client, "version": "1"},
        });
        let answer = self.request("initialize", &params)?;
        self.notify("notifications/initialized", &json!({}))?;
        Ok(answer)
    }

    /// Calls a tool and returns its `result`.
    pub fn call(&mut self, tool: &str, arguments: &Value) -> Result<Value> {
        let answer = self.request("tools/call", &json!({"name": tool, "arguments": arguments}))?;
        answer
            .get("result")
            .cloned()
            .with_context(|| format!("no result: {answer}"))
    }

    /// Calls a tool and returns the texts of its result, joined.
    pub fn call_text(&mut self, tool: &str, arguments: &Value) -> Result<String> {
        let result = self.call(tool, arguments)?;
        let parts = result["content"].as_array().cloned().unwrap_or_default();
        Ok(parts
            .iter()
            .filter_map(|p| p["text"].as_str())
            .collect::<Vec<_>>()
            .join("\n"))
    }

    /// Closes the server's stdin.
    pub fn hang_up(&mut self) {
        self.stdin = None;
    }

    /// Sends a signal to the server.
    pub fn signal(&self, signal: rustix::process::Signal) -> Result<()> {
        let pid = i32::try_from(self.child.id())
            .ok()
            .and_then(rustix::process::Pid::from_raw)
            .context("pid")?;
        rustix::process::kill_process(pid, signal)?;
        Ok(())
    }

    /// Closes stdin and waits until the server has exited.
    pub fn close(mut self) -> Result<ExitStatus> {
        self.hang_up();
        self.wait()
    }

    /// Waits until the server has exited, at most a minute.
    pub fn wait(&mut self) -> Result<ExitStatus> {
        crate::process::wait_at_most(&mut self.child, LIMIT)
    }
}

fn parsed(line: &str) -> Result<Value> {
    serde_json::from_str(line).with_context(|| format!("no JSON on stdout: {line}"))
}
