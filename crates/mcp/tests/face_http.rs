//! The face over HTTP without a network: sessions that end, caps, progress, clients that go away.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

#[path = "face/support.rs"]
#[allow(dead_code, reason = "the client on lines is for the other tests")]
mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody};
use pentad_mcp::{FaceEnd, HttpBody, HttpCaller, HttpFace, HttpLimits, LazyVerbs};
use pentad_model::invocation::{ThreadChoice, Workspace};
use pentad_model::{Refusal, RefusalKind};
use pentad_program::Verbs;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};

use self::support::{Obedient, modern, read_request};

struct Bench {
    face: HttpFace,
    verbs: Arc<Obedient>,
    started: mpsc::UnboundedReceiver<String>,
}

impl Bench {
    fn new(limits: HttpLimits) -> Self {
        let (started, heard) = mpsc::unbounded_channel();
        let verbs = Arc::new(Obedient {
            seen: Mutex::default(),
            canceled: Notify::new(),
            started,
            release: Notify::new(),
        });
        let lazy = LazyVerbs::ready(Arc::clone(&verbs) as Arc<dyn Verbs>);
        Self {
            face: HttpFace::new(lazy, None, limits),
            verbs,
            started: heard,
        }
    }

    async fn send(&self, request: Request<Full<Bytes>>, owner: &str) -> Response<HttpBody> {
        self.face.answer(request, caller(owner)).await
    }

    async fn post(&self, owner: &str, session: Option<&str>, message: &Value) -> Response<HttpBody> {
        self.send(request("POST", session, &message.to_string()), owner)
            .await
    }

    /// Opens a session and returns its id.
    async fn open(&self, owner: &str) -> String {
        let opened = self.post(owner, None, &initialize()).await;
        assert_eq!(opened.status(), StatusCode::OK);
        let id = opened.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        messages(opened).await;
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let _accepted = self.post(owner, Some(&id), &initialized).await;
        id
    }

    async fn lives(&self, owner: &str, session: &str) -> bool {
        let ping = json!({"jsonrpc": "2.0", "id": "p", "method": "ping"});
        let status = self.post(owner, Some(session), &ping).await.status();
        assert!(
            [StatusCode::OK, StatusCode::NOT_FOUND].contains(&status),
            "{status}"
        );
        status == StatusCode::OK
    }
}

fn caller(owner: &str) -> HttpCaller {
    HttpCaller {
        owner: owner.to_owned(),
        client: None,
        on_behalf_of: None,
        thread: None,
        agent: None,
        workspace: Workspace {
            cwd: "/work".into(),
            project_root: None,
            trusted: false,
        },
    }
}

fn initialize() -> Value {
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "Some Client", "version": "1"}}})
}

fn request(method: &str, session: Option<&str>, body: &str) -> Request<Full<Bytes>> {
    let mut builder = Request::builder()
        .method(method)
        .uri("/mcp")
        .header("host", "127.0.0.1")
        .header("accept", "application/json, text/event-stream")
        .header("content-type", "application/json");
    if let Some(session) = session {
        builder = builder
            .header("mcp-session-id", session)
            .header("mcp-protocol-version", "2025-11-25");
    }
    builder.body(Full::new(Bytes::from(body.to_owned()))).unwrap()
}

/// A request that stands alone, with the headers that it wants.
fn alone(message: &Value, name: &str) -> Request<Full<Bytes>> {
    let mut request = request("POST", None, &message.to_string());
    let address = message["params"]["arguments"]["address"].as_str().unwrap();
    for (header, value) in [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", message["method"].as_str().unwrap()),
        ("mcp-name", name),
        ("mcp-param-address", address),
    ] {
        request.headers_mut().insert(header, value.parse().unwrap());
    }
    request
}

/// Returns every message of an answer, to its end.
async fn messages(response: Response<HttpBody>) -> Vec<Value> {
    let text = String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap();
    text.lines()
        .map(|line| line.strip_prefix("data:").unwrap_or(line))
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

fn cancelled(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
}

#[tokio::test]
async fn m03_a_silent_session_ends_and_one_that_is_used_does_not() {
    let bench = Bench::new(HttpLimits {
        idle: Duration::ZERO,
        ..HttpLimits::default()
    });
    // With no time to be silent, a session lives exactly as long as something of it is open.
    let opened = bench.post("me", None, &initialize()).await;
    let id = opened.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    assert!(!bench.lives("me", &id).await);

    let bench = Bench::new(HttpLimits::default());
    let id = bench.open("me").await;
    assert!(bench.lives("me", &id).await);
    assert!(!bench.lives("you", &id).await);
}

#[tokio::test]
async fn a_session_gives_way_to_a_new_one_of_its_owner_unless_it_is_in_use() {
    let mut bench = Bench::new(HttpLimits {
        sessions_per_caller: 1,
        sessions: 2,
        ..HttpLimits::default()
    });
    let first = bench.open("me").await;
    let other = bench.open("you").await;
    let second = bench.open("me").await;
    assert!(!bench.lives("me", &first).await);
    assert!(bench.lives("me", &second).await && bench.lives("you", &other).await);

    // Somebody listens: the session is in use.
    let listening = bench.send(request("GET", Some(&second), ""), "me").await;
    assert_eq!(listening.status(), StatusCode::OK);
    let refused = bench.post("me", None, &initialize()).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(refused.headers().contains_key("retry-after"));
    drop(listening);

    // A call runs, though nobody waits for it.
    let calling = bench.post("me", Some(&second), &read_request(7, "wait")).await;
    assert_eq!(bench.started.recv().await.unwrap(), "wait");
    drop(calling);
    let refused = bench.post("me", None, &initialize()).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    // The whole is full, and nobody gives way to a stranger.
    let refused = bench.post("stranger", None, &initialize()).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    let _accepted = bench.post("me", Some(&second), &cancelled(7)).await;
    bench.verbs.canceled.notified().await;
    // Without a session there is always room.
    let message = modern(
        1,
        "tools/call",
        json!({"name": "read", "arguments": {"address": "x"}}),
    );
    assert_eq!(
        bench.send(alone(&message, "read"), "stranger").await.status(),
        StatusCode::OK
    );
}

#[tokio::test]
async fn c12_progress_and_heartbeats_go_over_the_stream_of_their_call() {
    let mut bench = Bench::new(HttpLimits {
        heartbeat: Duration::from_millis(2),
        ..HttpLimits::default()
    });
    let params = json!({"name": "read", "arguments": {"address": "progress"}});
    let mut message = modern(1, "tools/call", params);
    message["params"]["_meta"]["progressToken"] = json!("t");
    let face = bench.face.clone();
    let request_alone = alone(&message, "read");
    let stands_alone = tokio::spawn(async move { face.answer(request_alone, caller("me")).await });
    assert_eq!(bench.started.recv().await.unwrap(), "progress");
    let mut body = stands_alone.await.unwrap().into_body();
    let mut heard = String::new();
    while !heard.contains("running for") {
        let frame = body.frame().await.unwrap().unwrap();
        heard.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
    }
    assert!(
        heard.contains("\"progressToken\":\"t\"") && heard.contains("step 3"),
        "{heard}"
    );
    bench.verbs.release.notify_one();
    let rest = body.collect().await.unwrap().to_bytes();
    assert!(String::from_utf8_lossy(&rest).contains("read it"));
}

#[tokio::test]
async fn c02_dropping_the_stream_of_a_call_that_stands_alone_cancels_it() {
    let mut bench = Bench::new(HttpLimits {
        heartbeat: Duration::from_millis(2),
        ..HttpLimits::default()
    });
    let params = json!({"name": "read", "arguments": {"address": "wait"}});
    let mut message = modern(1, "tools/call", params);
    message["params"]["_meta"]["progressToken"] = json!("t");
    // The first heartbeat opens the stream.
    let response = bench.send(alone(&message, "read"), "me").await;
    assert_eq!(bench.started.recv().await.unwrap(), "wait");
    drop(response);
    bench.verbs.canceled.notified().await;
}

#[tokio::test]
async fn a_lone_surrogate_does_not_lose_its_message() {
    let bench = Bench::new(HttpLimits::default());
    let id = bench.open("me").await;
    let line = read_request(1, "CUT").to_string().replace("CUT", "cut \\ud83d");
    let response = bench.send(request("POST", Some(&id), &line), "me").await;
    let answers = messages(response).await;
    assert_eq!(
        answers[0]["result"]["content"][0]["text"], "read it",
        "{answers:?}"
    );
    let seen = bench.verbs.seen.lock().unwrap();
    assert_eq!(seen[0].arguments["address"], "cut \u{fffd}");
    assert_eq!(seen[0].thread, ThreadChoice::Key("mcp:me:Some-Client".to_owned()));
}

#[tokio::test]
async fn a_body_that_does_not_come_is_given_up() {
    let bench = Bench::new(HttpLimits {
        body_time: Duration::ZERO,
        ..HttpLimits::default()
    });
    let never = StreamBody::new(futures::stream::pending::<Result<Frame<Bytes>, std::io::Error>>());
    let waiting = request("POST", None, "").map(|_| never);
    let response = bench.face.answer(waiting, caller("me")).await;
    assert_eq!(response.status(), StatusCode::REQUEST_TIMEOUT);
    let broken = futures::stream::iter([Err::<Frame<Bytes>, _>(std::io::Error::other("the wire was cut"))]);
    let bench = Bench::new(HttpLimits::default());
    let broken = request("POST", None, "").map(|_| StreamBody::new(broken));
    let response = bench.face.answer(broken, caller("me")).await;
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    let said = messages(response).await;
    assert!(said[0].to_string().contains("the wire was cut"), "{said:?}");
}

#[tokio::test]
async fn a_home_that_cannot_be_opened_is_the_calls_refusal() {
    let lazy = LazyVerbs::opened_by(|| -> BoxFuture<'static, Result<Arc<dyn Verbs>, Refusal>> {
        let refusal = Refusal::new(RefusalKind::Unavailable, "home", "The home is locked.");
        Box::pin(std::future::ready(Err(refusal)))
    });
    let face = HttpFace::new(lazy, None, HttpLimits::default());
    let message = modern(
        1,
        "tools/call",
        json!({"name": "read", "arguments": {"address": "x"}}),
    );
    let answers = messages(face.answer(alone(&message, "read"), caller("me")).await).await;
    assert_eq!(answers[0]["result"]["isError"], true);
    assert!(answers[0].to_string().contains("The home is locked."));
}

#[tokio::test]
async fn the_end_is_clean_when_calls_end_and_says_so_when_one_does_not() {
    for (address, seconds, end) in [("wait", 60, FaceEnd::Clean), ("stuck", 0, FaceEnd::Abandoned)] {
        let mut bench = Bench::new(HttpLimits {
            shutdown: Duration::from_secs(seconds),
            ..HttpLimits::default()
        });
        let id = bench.open("me").await;
        let calling = bench.post("me", Some(&id), &read_request(1, address)).await;
        let listening = bench.send(request("GET", Some(&id), ""), "me").await;
        assert_eq!(bench.started.recv().await.unwrap(), address);
        bench.face.closing();
        // The stream that waits for nothing ends by itself; nothing new is let in.
        messages(listening).await;
        let late = bench.post("me", None, &initialize()).await;
        assert_eq!(late.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(bench.face.end_calls().await, end, "{address}");
        if address == "wait" {
            let answers = messages(calling).await;
            assert_eq!(answers.last().unwrap()["id"], 1, "{answers:?}");
        }
        bench.face.end();
    }
}
