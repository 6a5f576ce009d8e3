//! A small server over HTTP whose every answer a test can replace.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

/// One request as it came.
#[derive(Debug, Clone)]
pub struct Seen {
    pub method: String,
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: Value,
}

impl Seen {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The method of the message, or of HTTP where there is none.
    pub fn call(&self) -> &str {
        self.body["method"].as_str().unwrap_or(&self.method)
    }

    pub fn tool(&self) -> &str {
        self.body["params"]["name"].as_str().unwrap_or_default()
    }
}

/// What a test makes of a request.
pub enum Reply {
    /// A status with headers and a body.
    Plain(u16, Vec<(&'static str, String)>, String),
    /// A stream of events, piece by piece; the connection closes after the last.
    Stream(Vec<Piece>),
    /// Nothing at all, and the connection closes.
    Hangup,
}

pub enum Piece {
    Text(String),
    /// Waits until the test goes on.
    Until(Arc<Notify>),
    /// Waits until the server ends.
    Forever,
}

impl Reply {
    pub fn json(body: &Value) -> Self {
        Self::status(200, &body.to_string())
    }

    pub fn status(status: u16, body: &str) -> Self {
        let kind = if body.starts_with('<') {
            "text/html"
        } else {
            "application/json"
        };
        Self::Plain(status, vec![("content-type", kind.to_owned())], body.to_owned())
    }

    pub fn result(seen: &Seen, result: &Value) -> Self {
        Self::json(&json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": result}))
    }

    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        if let Self::Plain(_, headers, _) = &mut self {
            headers.push((name, value.into()));
        }
        self
    }
}

/// One event that carries a message.
pub fn event(id: Option<&str>, message: &Value) -> Piece {
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    Piece::Text(format!("{id}data: {message}\n\n"))
}

type Rule = Arc<dyn Fn(&Seen) -> Option<Reply> + Send + Sync>;

#[derive(Default)]
struct State {
    seen: Vec<Seen>,
    sessions: BTreeSet<String>,
    opened: usize,
    extra: Vec<Value>,
}

/// A running server.
pub struct Site {
    pub address: SocketAddr,
    state: Arc<Mutex<State>>,
    rule: Arc<Mutex<Option<Rule>>>,
    news: Arc<Notify>,
    _end: DropGuard,
}

/// Which revision a site speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// 2025-11-25 with sessions.
    Sessions,
    /// 2026-07-28.
    Modern,
}

impl Site {
    pub async fn start(kind: Kind) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (state, rule) = (
            Arc::<Mutex<State>>::default(),
            Arc::<Mutex<Option<Rule>>>::default(),
        );
        let (news, end) = (Arc::<Notify>::default(), CancellationToken::new());
        let server = Server {
            kind,
            state: Arc::clone(&state),
            rule: Arc::clone(&rule),
            news: Arc::clone(&news),
        };
        let ended = end.clone();
        tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                tokio::select! {
                    () = ended.cancelled() => return,
                    accepted = listener.accept() => {
                        let (stream, _) = accepted.unwrap();
                        connections.spawn(server.clone().serve(stream));
                    }
                }
            }
        });
        Self {
            address,
            state,
            rule,
            news,
            _end: end.drop_guard(),
        }
    }

    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Answers by `rule` first, then as a good server does.
    pub fn answer(&self, rule: impl Fn(&Seen) -> Option<Reply> + Send + Sync + 'static) {
        *self.rule.lock().unwrap() = Some(Arc::new(rule));
    }

    pub fn behave(&self) {
        *self.rule.lock().unwrap() = None;
    }

    /// Forgets all sessions, as a restart does.
    pub fn forget_sessions(&self) {
        self.state().sessions.clear();
    }

    /// Adds a tool, and tells about it.
    pub fn add_tool(&self, name: &str) {
        self.state().extra.push(tool(name, false));
        self.news.notify_waiters();
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.state().seen.clone()
    }

    pub fn count(&self, call: &str) -> usize {
        self.state()
            .seen
            .iter()
            .filter(|seen| seen.call() == call)
            .count()
    }

    pub fn calls_of(&self, name: &str) -> usize {
        let state = self.state();
        let calls = state.seen.iter().filter(|seen| seen.call() == "tools/call");
        calls.filter(|seen| seen.tool() == name).count()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

#[derive(Clone)]
struct Server {
    kind: Kind,
    state: Arc<Mutex<State>>,
    rule: Arc<Mutex<Option<Rule>>>,
    news: Arc<Notify>,
}

fn tool(name: &str, read_only: bool) -> Value {
    json!({
        "name": name,
        "description": format!("The tool {name}."),
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
        "annotations": {"readOnlyHint": read_only},
    })
}

impl Server {
    async fn serve(self, mut stream: TcpStream) {
        let Some(seen) = read(&mut stream).await else {
            return;
        };
        let rule = self.rule.lock().unwrap().clone();
        self.state.lock().unwrap().seen.push(seen.clone());
        let reply = rule
            .and_then(|rule| rule(&seen))
            .unwrap_or_else(|| self.good(&seen));
        write(&mut stream, reply).await;
    }

    fn good(&self, seen: &Seen) -> Reply {
        let modern = self.kind == Kind::Modern;
        if let Some(refused) = (!modern).then(|| self.session(seen)).flatten() {
            return refused;
        }
        match seen.call() {
            "server/discover" if modern => Reply::result(
                seen,
                &json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0, "cacheScope": "private",
                    "capabilities": {"tools": {"listChanged": true}, "resources": {}, "prompts": {}}}),
            ),
            "initialize" if !modern => {
                let mut state = self.state.lock().unwrap();
                state.opened += 1;
                let session = format!("session-{}", state.opened);
                state.sessions.insert(session.clone());
                let result = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": true}},
                    "serverInfo": {"name": "site", "version": "1"}});
                Reply::result(seen, &result).with("mcp-session-id", session)
            }
            "tools/list" => {
                let mut tools = vec![tool("look", true), tool("act", false)];
                tools.extend(self.state.lock().unwrap().extra.clone());
                Reply::result(
                    seen,
                    &json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": tools}),
                )
            }
            "tools/call" => {
                let text = format!("{} {}", seen.tool(), seen.body["params"]["arguments"]["text"]);
                Reply::result(
                    seen,
                    &json!({"resultType": "complete", "content": [{"type": "text", "text": text}]}),
                )
            }
            "subscriptions/listen" => self.listening(seen),
            "GET" if !modern => {
                let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
                Reply::Stream(vec![
                    Piece::Text(": here\n\n".to_owned()),
                    Piece::Until(Arc::clone(&self.news)),
                    event(None, &changed),
                    Piece::Forever,
                ])
            }
            "GET" => Reply::status(405, "{}"),
            call if call.starts_with("notifications/") || call == "DELETE" => Reply::status(202, ""),
            _ => Reply::json(&json!({"jsonrpc": "2.0", "id": seen.body["id"],
                "error": {"code": -32601, "message": "Method not found"}})),
        }
    }

    fn listening(&self, seen: &Seen) -> Reply {
        let meta = json!({"io.modelcontextprotocol/subscriptionId": seen.body["id"]});
        let acknowledged = json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
            "params": {"_meta": meta, "notifications": seen.body["params"]["notifications"]}});
        let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {"_meta": meta}});
        Reply::Stream(vec![
            event(None, &acknowledged),
            Piece::Until(Arc::clone(&self.news)),
            event(None, &changed),
            Piece::Forever,
        ])
    }

    /// Refuses requests without a session that is known, as the revision with sessions wants it.
    fn session(&self, seen: &Seen) -> Option<Reply> {
        if seen.call() == "initialize" {
            return None;
        }
        let state = self.state.lock().unwrap();
        match seen.header("mcp-session-id") {
            None => Some(Reply::status(400, "Bad Request: no session")),
            Some(session) if state.sessions.contains(session) => None,
            Some(_) => Some(Reply::status(404, "{}")),
        }
    }
}

async fn read(stream: &mut TcpStream) -> Option<Seen> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(end) = bytes.windows(4).position(|end| end == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..head_end].to_vec()).unwrap();
    let mut body = bytes.split_off(head_end + 4);
    let mut lines = head.lines();
    let mut words = lines.next()?.split(' ').map(str::to_owned);
    let (method, target) = (words.next()?, words.next()?);
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.map_or(0, |(_, value)| value.parse().unwrap());
    while body.len() < length {
        if stream.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    Some(Seen {
        method,
        target,
        headers,
        body: serde_json::from_slice(&body)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&body).into_owned())),
    })
}

async fn write(stream: &mut TcpStream, reply: Reply) {
    // The client may have gone; that is its right.
    let _ = match reply {
        Reply::Hangup => Ok(()),
        Reply::Plain(status, headers, body) => {
            let headers: String = headers
                .iter()
                .map(|(name, value)| format!("{name}: {value}\r\n"))
                .collect();
            let head = format!(
                "HTTP/1.1 {status} X\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n",
                body.len()
            );
            stream.write_all(format!("{head}{body}").as_bytes()).await
        }
        Reply::Stream(pieces) => {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
            let _ = stream.write_all(head.as_bytes()).await;
            for piece in pieces {
                match piece {
                    Piece::Text(text) => drop(stream.write_all(text.as_bytes()).await),
                    Piece::Until(notify) => notify.notified().await,
                    Piece::Forever => std::future::pending().await,
                }
            }
            Ok(())
        }
    };
    let _ = stream.shutdown().await;
}
