use std::sync::{Arc, Mutex};

use pentad_mcp::LazyVerbs;
use pentad_model::{Refusal, RefusalKind};
use serde_json::json;
use tokio::sync::{Notify, mpsc};

use crate::support::{Client, Obedient, modern, options};

#[tokio::test]
async fn initialize_answers_each_older_revision() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut client = Client::start(options());
        let answer = client.initialize(version).await;
        assert_eq!(answer["result"]["protocolVersion"], version);
        if version == "2025-11-25" {
            insta::assert_json_snapshot!(
                "initialize",
                without_version(answer, "/result/serverInfo/version")
            );
        }
        client
            .send(json!({"jsonrpc": "2.0", "id": "p", "method": "ping"}))
            .await;
        assert_eq!(
            client.heard().await,
            json!({"jsonrpc": "2.0", "id": "p", "result": {}})
        );
    }
    let mut client = Client::start(options());
    assert_eq!(
        client.initialize("2031-01-01").await["result"]["protocolVersion"],
        "2025-11-25"
    );
}

#[tokio::test]
async fn discover_needs_no_handshake() {
    let mut client = Client::start(options());
    client.send(modern(1, "server/discover", json!({}))).await;
    let version = "/result/_meta/io.modelcontextprotocol~1serverInfo/version";
    insta::assert_json_snapshot!("discover", without_version(client.heard().await, version));
    client.send(modern(2, "tools/list", json!({}))).await;
    let list = client.heard().await;
    assert_eq!(list["result"]["ttlMs"], 86_400_000);
    assert_eq!(list["result"]["cacheScope"], "public");
    assert_eq!(list["result"]["tools"].as_array().unwrap().len(), 5);
    client.send(modern(3, "ping", json!({}))).await;
    assert_eq!(client.heard().await["error"]["code"], -32601);
    client
        .send(json!({"jsonrpc": "2.0", "id": 4, "method": "tools/list"}))
        .await;
    assert_eq!(
        client.heard().await["error"]["code"],
        -32602,
        "the metadata is missing"
    );
}

#[tokio::test]
async fn the_tool_list_is_small_and_always_the_same_bytes() {
    let mut lists = Vec::new();
    for _ in 0..2 {
        let mut client = Client::start(options());
        client.initialize("2025-06-18").await;
        client
            .send(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}))
            .await;
        lists.push(client.heard_text().await);
    }
    assert_eq!(lists.first(), lists.last());
    let list: serde_json::Value = serde_json::from_str(lists.first().unwrap()).unwrap();
    insta::assert_json_snapshot!("tools_list", list);
    let bytes = serde_json::to_vec(&list["result"]["tools"]).unwrap().len();
    assert!(bytes <= 6_000, "{bytes} bytes");
    assert!(
        list["result"].get("ttlMs").is_none(),
        "older revisions know no hints"
    );
}

#[tokio::test]
async fn what_needs_no_engine_is_answered_before_it_opens() {
    let tries = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&tries);
    let lazy = LazyVerbs::opened_by(move || {
        let counted = Arc::clone(&counted);
        Box::pin(async move {
            *counted.lock().unwrap() += 1;
            Err(
                Refusal::new(RefusalKind::Unavailable, "keeper", "The journal is in use.")
                    .next_step("end the other process"),
            )
        })
    });
    let (started, heard) = mpsc::unbounded_channel();
    let verbs = Arc::new(Obedient {
        seen: Mutex::default(),
        canceled: Notify::new(),
        started,
        release: Notify::new(),
    });
    let mut client = Client::start_with(options(), lazy, verbs, heard);
    client.initialize("2025-11-25").await;
    client
        .send(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}))
        .await;
    assert_eq!(client.heard().await["id"], 1);
    assert_eq!(*tries.lock().unwrap(), 0);
    for id in 2..4 {
        client.read(id, "~/self").await;
        let answer = client.heard().await;
        assert_eq!(answer["result"]["isError"], true);
        assert_eq!(
            answer["result"]["content"][0]["text"],
            "The journal is in use.\nNext: end the other process"
        );
    }
    assert_eq!(*tries.lock().unwrap(), 2, "a failure to open is tried again");
}

#[tokio::test]
async fn c08_strange_messages_are_ignored_or_answered() {
    let mut client = Client::start(options());
    client
        .say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)
        .await;
    client.initialize("2025-06-18").await;
    client
        .say(r#"{"jsonrpc":"2.0","method":"notifications/from/the/future","params":{"a":1}}"#)
        .await;
    client
        .say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}"#)
        .await;
    client.say(r#"{"jsonrpc":"2.0","id":77,"result":{}}"#).await;
    client
        .say(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","arguments":[]}}"#)
        .await;
    client.say(r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"github_search","arguments":{}}}"#).await;
    client
        .say(r#"{"jsonrpc":"2.0","id":3,"method":"resources/list"}"#)
        .await;
    client
        .say(r#"{"jsonrpc":"2.0","id":4,"method":"from/the/future"}"#)
        .await;
    client
        .say(r#"{"jsonrpc":"2.0","id":5,"method":"tools/list","params":{"cursor":"x"}}"#)
        .await;
    client.say("{broken").await;
    client.say(r#"{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"read","arguments":{"address":"\ud83d"}}}"#).await;
    let mut answers = Vec::new();
    for _ in 0..7 {
        answers.push(client.heard().await);
    }
    answers.sort_by_key(|answer| answer["id"].as_u64());
    insta::assert_json_snapshot!("strange_messages", answers);
    assert_eq!(
        client.verbs.seen.lock().unwrap()[0].arguments,
        json!({"address": "\u{FFFD}"})
    );
}

fn without_version(mut answer: serde_json::Value, pointer: &str) -> serde_json::Value {
    *answer.pointer_mut(pointer).unwrap() = json!("[version]");
    answer
}
