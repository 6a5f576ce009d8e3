//! Writing JSON-RPC lines, good and bad, to stdout.

use std::io::Write as _;
use std::sync::Mutex;

use serde_json::{Value, json};

/// The one writer of stdout; each message is one locked write.
#[derive(Default)]
pub struct Wire {
    turn: Mutex<()>,
}

#[allow(clippy::needless_pass_by_value, reason = "callers hand over literals")]
impl Wire {
    /// Answers request `id` with `result`.
    pub fn result(&self, id: &Value, result: Value) {
        self.line(
            json!({"jsonrpc": "2.0", "id": id, "result": result})
                .to_string()
                .as_bytes(),
        );
    }

    /// Answers with text that is taken as JSON unseen, so that it may hold what a serializer would refuse.
    pub fn raw_result(&self, id: &Value, result: &str) {
        self.line(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}").as_bytes());
    }

    /// Answers with a JSON-RPC error.
    pub fn error(&self, id: &Value, code: i64, message: &str) {
        let error = json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}});
        self.line(error.to_string().as_bytes());
    }

    /// Sends a notification.
    pub fn notify(&self, method: &str, params: Value) {
        self.line(
            json!({"jsonrpc": "2.0", "method": method, "params": params})
                .to_string()
                .as_bytes(),
        );
    }

    /// Sends a request of the server's own.
    pub fn request(&self, id: &str, method: &str, params: Value) {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.line(request.to_string().as_bytes());
    }

    /// Writes `count` lines that are no protocol.
    pub fn garbage(&self, count: u64) {
        for number in 0..count {
            self.line(
                format!("[info] line {number} that is no JSON-RPC \u{1b}[32mgreen\u{1b}[0m").as_bytes(),
            );
        }
    }

    /// Writes garbage until stdout is closed.
    pub fn flood(&self) {
        let block = "this server prints to stdout\n".repeat(2048);
        let _turn = crate::lock(&self.turn);
        let mut out = std::io::stdout().lock();
        while out.write_all(block.as_bytes()).is_ok() {}
    }

    /// Writes one text result of `bytes` bytes without building it in memory.
    pub fn huge_result(&self, id: &Value, bytes: u64) {
        let _turn = crate::lock(&self.turn);
        let mut out = std::io::stdout().lock();
        let block = "x".repeat(1 << 16);
        let head = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"content\":[{{\"type\":\"text\",\"text\":\""
        );
        let mut written = out.write_all(head.as_bytes());
        let mut left = bytes;
        while left > 0 && written.is_ok() {
            let part = left.min(block.len() as u64);
            written = out.write_all(block.as_bytes().get(..part as usize).unwrap_or_default());
            left -= part;
        }
        let _ended = written
            .and_then(|()| out.write_all(b"\"}]}}\n"))
            .and_then(|()| out.flush());
    }

    /// Writes `bytes` and a newline.
    pub fn line(&self, bytes: &[u8]) {
        let _turn = crate::lock(&self.turn);
        let mut out = std::io::stdout().lock();
        let written = out
            .write_all(bytes)
            .and_then(|()| out.write_all(b"\n"))
            .and_then(|()| out.flush());
        if written.is_err() {
            std::process::exit(0);
        }
    }
}
