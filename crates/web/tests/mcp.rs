//! `/mcp`: who is let in, whose sessions are whose, and where a call lands.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod common;

use common::{Answer, Served, start};
use pentad_model::Actor;
use pentad_model::invocation::ThreadChoice;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const ACCEPT: &str = "Accept: application/json, text/event-stream";

/// Posts a message with these header lines besides.
async fn post(served: &Served, token: &str, query: &str, headers: &str, message: &Value) -> Answer {
    let body = message.to_string();
    let head = request(token, query, headers, body.len());
    served.raw(&head, body.as_bytes()).await
}

fn request(token: &str, query: &str, headers: &str, length: usize) -> String {
    format!(
        "POST /mcp{query} HTTP/1.1\nHost: {{ADDRESS}}\nAuthorization: Bearer {token}\nContent-Type: application/json\n{ACCEPT}\nContent-Length: {length}{headers}"
    )
}

fn initialize(name: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": name, "version": "1"}}})
}

fn call(id: u64, verb: &str, arguments: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": verb, "arguments": arguments}})
}

/// The same for the revision without sessions, with the headers that it wants.
fn alone(id: u64, verb: &str, arguments: &Value) -> (String, Value) {
    let mut message = call(id, verb, arguments);
    message["params"]["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "modern client", "version": "2"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let param = ["address", "tool"]
        .into_iter()
        .find_map(|name| Some((name, arguments.get(name)?.as_str()?)));
    let param = param.map_or_else(String::new, |(name, value)| {
        format!("\nMcp-Param-{name}: {value}")
    });
    let headers =
        format!("\nMCP-Protocol-Version: 2026-07-28\nMcp-Method: tools/call\nMcp-Name: {verb}{param}");
    (headers, message)
}

/// The messages in an answer, whichever form it has.
fn messages(answer: &Answer) -> Vec<Value> {
    if answer.head.contains("application/json") {
        let end = answer.body.rfind('}').unwrap();
        let start = answer.body.find('{').unwrap();
        return vec![serde_json::from_str(answer.body.get(start..=end).unwrap()).unwrap()];
    }
    answer
        .body
        .lines()
        .filter_map(|line| line.strip_prefix("data:"))
        .filter_map(|data| serde_json::from_str(data.trim()).ok())
        .collect()
}

/// Opens a session and returns its header line.
async fn session(served: &Served, token: &str, query: &str, name: &str) -> String {
    let answer = post(served, token, query, "", &initialize(name)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let id = answer
        .head
        .lines()
        .find_map(|line| line.strip_prefix("mcp-session-id: "))
        .expect("a session");
    let header = format!("\nMcp-Session-Id: {id}\nMCP-Protocol-Version: 2025-11-25");
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(
        post(served, token, query, &header, &initialized).await.status,
        202
    );
    header
}

#[tokio::test]
async fn s08_a_page_elsewhere_reaches_no_session_even_with_a_token() {
    let served = start().await;
    let body = initialize("x").to_string();
    for (line, subject) in [
        ("Host: evil.example", "Host"),
        ("Host: {ADDRESS}\nOrigin: http://evil.example", "Origin"),
        ("Host: {ADDRESS}\nOrigin: null", "Origin"),
    ] {
        let head = request(&served.client, "", "", body.len()).replace("Host: {ADDRESS}", line);
        let answer = served.raw(&head, body.as_bytes()).await;
        assert_eq!(
            (answer.status, answer.json()["refusal"]["subject"].clone()),
            (403, subject.into()),
            "{line}"
        );
    }
    let own = "\nOrigin: http://{ADDRESS}";
    assert_eq!(
        post(&served, &served.client, "", own, &initialize("x"))
            .await
            .status,
        200
    );
}

#[tokio::test]
async fn s10_mcp_needs_a_token_in_its_header_for_every_method() {
    let served = start().await;
    for method in ["POST", "GET", "DELETE"] {
        for way in ["", "\nAuthorization: Bearer wrong", "\nCookie: token={TOKEN}"] {
            let way = way.replace("{TOKEN}", &served.person);
            let head = format!(
                "{method} /mcp?token={} HTTP/1.1\nHost: {{ADDRESS}}\n{ACCEPT}\nContent-Length: 0{way}",
                served.person
            );
            let answer = served.raw(&head, b"").await;
            assert_eq!(answer.status, 401, "{method} {way}");
            assert!(answer.head.contains("www-authenticate: Bearer"));
        }
    }
}

#[tokio::test]
async fn what_is_no_json_message_is_refused_with_the_reason() {
    let served = start().await;
    let body = initialize("x").to_string();
    for kind in ["text/plain", "application/x-www-form-urlencoded", ""] {
        let head =
            request(&served.client, "", "", body.len()).replace("application/json\n", &format!("{kind}\n"));
        let answer = served.raw(&head, body.as_bytes()).await;
        assert_eq!(answer.status, 415, "{kind}");
        assert!(
            answer.body.contains("Content-Type: application/json"),
            "{}",
            answer.body
        );
    }
    for (body, status, code) in [("{", 400, -32700), ("[]", 400, -32600), ("{}", 400, -32600)] {
        let answer = served
            .raw(&request(&served.client, "", "", body.len()), body.as_bytes())
            .await;
        assert_eq!(
            (answer.status, &answer.json()["error"]["code"]),
            (status, &json!(code)),
            "{body}"
        );
    }
    let large = json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "pad": "x".repeat(5_000)});
    let answer = post(&served, &served.client, "", "", &large).await;
    assert_eq!(answer.status, 413);
    assert!(answer.body.contains("/api/v1/attachments"), "{}", answer.body);
}

#[tokio::test]
async fn m03_a_session_answers_to_its_token_alone_and_an_unknown_one_is_not_found() {
    let served = start().await;
    let header = session(&served, &served.client, "", "Cursor").await;
    let ping = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"});
    assert_eq!(
        post(&served, &served.client, "", &header, &ping).await.status,
        200
    );
    let unknown = "\nMcp-Session-Id: 00000000-0000-4000-8000-000000000000\nMCP-Protocol-Version: 2025-11-25";
    let strange = "\nMcp-Session-Id: \u{fc}";
    for (token, header) in [
        (&served.person, header.as_str()),
        (&served.client, unknown),
        (&served.client, strange),
    ] {
        let posted = post(&served, token, "", header, &ping).await;
        assert_eq!(posted.status, 404, "{header}");
        assert!(posted.body.contains("Initialize again"), "{}", posted.body);
        for method in ["GET", "DELETE"] {
            let head = format!(
                "{method} /mcp HTTP/1.1\nHost: {{ADDRESS}}\nAuthorization: Bearer {token}\n{ACCEPT}{header}"
            );
            assert_eq!(served.raw(&head, b"").await.status, 404, "{method} {header}");
        }
    }
    // The owner ends it; after that it is unknown to the owner, too.
    let head = format!(
        "DELETE /mcp HTTP/1.1\nHost: {{ADDRESS}}\nAuthorization: Bearer {}{header}",
        served.client
    );
    assert_eq!(served.raw(&head, b"").await.status, 202);
    assert_eq!(served.raw(&head, b"").await.status, 404);
    assert_eq!(
        post(&served, &served.client, "", &header, &ping).await.status,
        404
    );
}

#[tokio::test]
async fn a_call_names_its_client_thread_workspace_and_agent() {
    let served = start().await;
    let read = json!({"address": "~/self"});
    let header = session(
        &served,
        &served.client,
        "?workspace=site&agent=reviewer",
        "Some Client",
    )
    .await;
    let answer = post(&served, &served.client, "", &header, &call(2, "read", &read)).await;
    assert_eq!(
        messages(&answer)[0]["result"]["content"][0]["text"],
        "client:cursor"
    );
    let (headers, message) = alone(3, "read", &read);
    post(&served, &served.person, "", &headers, &message).await;
    let (headers, message) = alone(4, "read", &read);
    post(
        &served,
        &served.client,
        "?thread=thread:7k2m9q4x",
        &headers,
        &message,
    )
    .await;
    let asked = served.echo.asked.lock().unwrap().clone();
    let first = &asked[0];
    assert_eq!(first.caller, Actor::Client("cursor".parse().unwrap()).into());
    assert_eq!(first.workspace.cwd, std::path::Path::new("/src/site"));
    assert_eq!(first.agent, Some("reviewer".parse().unwrap()));
    let ThreadChoice::Key(key) = &first.thread else {
        unreachable!("a key")
    };
    assert!(key.starts_with("mcp:") && key.ends_with(":Some-Client"), "{key}");
    // A program with a person's token acts for the person and is not the person.
    let second = &asked[1];
    assert_eq!(
        second.caller.actor,
        Actor::Client("modern-client".parse().unwrap())
    );
    assert_eq!(second.caller.on_behalf_of, Some(Actor::User));
    assert_ne!(second.thread, first.thread);
    assert_eq!(asked[2].thread, ThreadChoice::Id("7k2m9q4x".to_owned()));
    assert_eq!(asked[2].workspace.cwd, std::path::Path::new("/default"));
}

#[tokio::test]
async fn a_query_that_is_not_understood_is_refused() {
    let served = start().await;
    for (query, status, named) in [
        ("?workspace=nowhere", 404, "site"),
        ("?thread=!", 400, "thread"),
        ("?agent=a/b", 400, "agent"),
        ("?cwd=/etc", 400, "workspace"),
    ] {
        let answer = post(&served, &served.client, query, "", &initialize("x")).await;
        assert_eq!(answer.status, status, "{query} {answer:?}");
        assert!(answer.body.contains(named), "{query} {}", answer.body);
    }
}

#[tokio::test]
async fn headers_that_contradict_the_body_are_refused() {
    let served = start().await;
    let (headers, message) = alone(1, "read", &json!({"address": "~/self"}));
    for (right, wrong) in [
        ("Mcp-Name: read", "Mcp-Name: write"),
        ("Mcp-Method: tools/call", "Mcp-Method: tools/list"),
        (
            "MCP-Protocol-Version: 2026-07-28",
            "MCP-Protocol-Version: 2025-11-25",
        ),
        ("\nMcp-Name: read", ""),
        ("~/self", "~/other"),
        ("\nMcp-Param-address: ~/self", ""),
    ] {
        let answer = post(
            &served,
            &served.client,
            "",
            &headers.replace(right, wrong),
            &message,
        )
        .await;
        assert_eq!(answer.status, 400, "{wrong} {answer:?}");
        assert_eq!(answer.json()["error"]["code"], -32020, "{wrong}");
    }
    assert!(served.echo.asked.lock().unwrap().is_empty());
    assert_eq!(
        post(&served, &served.client, "", &headers, &message).await.status,
        200
    );
}

/// Sends a request and leaves its connection open.
async fn begin(served: &Served, token: &str, headers: &str, message: &Value) -> TcpStream {
    let body = message.to_string();
    let head = request(token, "", headers, body.len())
        .replace("{ADDRESS}", &served.address.to_string())
        .replace('\n', "\r\n");
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    stream
        .write_all(format!("{head}\r\n\r\n{body}").as_bytes())
        .await
        .unwrap();
    stream
}

fn hang() -> Value {
    json!({"tool": "hang"})
}

#[tokio::test]
async fn c02_a_client_without_a_session_that_goes_away_ends_its_call() {
    let mut served = start().await;
    let (headers, mut message) = alone(1, "call", &hang());
    for token in [Value::Null, json!("watched")] {
        message["params"]["_meta"]["progressToken"] = token;
        let stream = begin(&served, &served.client, &headers, &message).await;
        served.began.recv().await.unwrap();
        drop(stream);
        served.canceled.recv().await.unwrap();
    }
}

#[tokio::test]
async fn c02_a_session_ends_its_call_when_told_to_and_not_with_a_connection() {
    let mut served = start().await;
    let header = session(&served, &served.client, "", "x").await;
    let token = served.client.clone();
    let lost = begin(&served, &token, &header, &call(7, "call", &hang())).await;
    served.began.recv().await.unwrap();
    drop(lost);
    // Another request of the session shows that the loss was noticed and changed nothing.
    let ping = json!({"jsonrpc": "2.0", "id": 8, "method": "ping"});
    assert_eq!(post(&served, &token, "", &header, &ping).await.status, 200);
    assert!(served.canceled.try_recv().is_err());
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}});
    assert_eq!(post(&served, &token, "", &header, &cancel).await.status, 202);
    served.canceled.recv().await.unwrap();

    let _kept = begin(&served, &token, &header, &call(9, "call", &hang())).await;
    served.began.recv().await.unwrap();
    let head = format!("DELETE /mcp HTTP/1.1\nHost: {{ADDRESS}}\nAuthorization: Bearer {token}{header}");
    assert_eq!(served.raw(&head, b"").await.status, 202);
    served.canceled.recv().await.unwrap();
}

#[tokio::test]
async fn the_end_closes_listening_streams_at_once_and_cancels_what_outlives_the_drain() {
    let mut served = start().await;
    let header = session(&served, &served.client, "", "x").await;
    let mut listening = TcpStream::connect(served.address).await.unwrap();
    let head = format!(
        "GET /mcp HTTP/1.1\nHost: {}\nAuthorization: Bearer {}\n{ACCEPT}{header}\n\n",
        served.address, served.client
    );
    listening
        .write_all(head.replace('\n', "\r\n").as_bytes())
        .await
        .unwrap();
    let mut buffer = vec![0; 4096];
    assert!(listening.read(&mut buffer).await.unwrap() > 0);
    let mut calling = begin(&served, &served.client, &header, &call(9, "call", &hang())).await;
    served.began.recv().await.unwrap();
    served.shutdown.cancel();
    while listening.read(&mut buffer).await.unwrap() > 0 {}
    assert!(served.canceled.try_recv().is_err(), "the drain was over already");
    served.canceled.recv().await.unwrap();
    let mut answer = String::new();
    calling.read_to_string(&mut answer).await.unwrap();
    assert!(answer.contains("\"id\":9"), "{answer}");
    served.task.await.unwrap().unwrap();
}
