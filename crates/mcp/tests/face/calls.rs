use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Client, meta, modern, options, read_request};

#[tokio::test]
async fn a_call_becomes_an_invocation() {
    let mut options = options();
    options.agent = Some("helper".parse().unwrap());
    let mut client = Client::start(options);
    client.initialize("2025-06-18").await;
    client
        .send(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "plan"}}))
        .await;
    assert_eq!(client.heard().await["id"], 1);
    let seen = serde_json::to_value(&client.verbs.seen.lock().unwrap()[0]).unwrap();
    insta::assert_json_snapshot!("invocation", seen);
}

#[tokio::test]
async fn a_stateless_call_names_its_client_itself() {
    let mut client = Client::start(options());
    client
        .send(modern(
            1,
            "tools/call",
            json!({"name": "read", "arguments": {"address": "value"}}),
        ))
        .await;
    insta::assert_json_snapshot!("stateless_call", client.heard().await);
    let caller = client.verbs.seen.lock().unwrap()[0].caller.actor.to_string();
    assert_eq!(caller, "client:modern-client");
    let mut stranger = meta();
    stranger["io.modelcontextprotocol/protocolVersion"] = json!("2031-01-01");
    client
        .send(json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "read", "_meta": stranger}}))
        .await;
    assert_eq!(client.heard().await["error"]["code"], -32022);
}

#[tokio::test]
async fn outcomes_become_results() {
    let mut client = Client::start(options());
    client.initialize("2025-06-18").await;
    let mut answers = Vec::new();
    for (id, address) in (1..).zip(["plain", "value", "list", "refused", "picture", "long"]) {
        client.read(id, address).await;
        answers.push(client.heard().await);
    }
    insta::assert_json_snapshot!("results", answers);
}

#[tokio::test]
async fn c12_a_watched_call_says_that_it_lives() {
    let mut options = options();
    options.limits.heartbeat = Duration::from_millis(20);
    let mut client = Client::start(options);
    client.initialize("2025-11-25").await;
    let mut request = read_request(1, "release");
    request["params"]["_meta"] = json!({"progressToken": "t1"});
    client.send(request).await;
    let mut last = 0.0;
    for _ in 0..3 {
        let beat = client.heard().await;
        assert_eq!(beat["method"], "notifications/progress");
        assert_eq!(beat["params"]["progressToken"], "t1");
        let done = beat["params"]["progress"].as_f64().unwrap();
        assert!(done > last, "each value exceeds the one before");
        last = done;
    }
    client.verbs.release.notify_one();
    let answer = loop {
        let message = client.heard().await;
        if message.get("id").is_some() {
            break message;
        }
    };
    assert_eq!(answer["result"]["isError"], false);
    // A call without a token stays silent beside one that is watched.
    client.read(2, "wait").await;
    let mut watched = read_request(3, "wait");
    watched["params"]["_meta"] = json!({"progressToken": "t3"});
    client.send(watched).await;
    for _ in 0..3 {
        assert_eq!(client.heard().await["params"]["progressToken"], "t3");
    }
}

#[tokio::test]
async fn reported_progress_is_passed_on_and_only_grows() {
    let mut client = Client::start(options());
    client.initialize("2025-11-25").await;
    let mut request = read_request(1, "progress");
    request["params"]["_meta"] = json!({"progressToken": 5});
    client.send(request).await;
    let mut reports: Vec<Value> = Vec::new();
    for _ in 0..4 {
        reports.push(client.heard().await["params"].clone());
    }
    client.verbs.release.notify_one();
    let values: Vec<f64> = reports
        .iter()
        .map(|report| report["progress"].as_f64().unwrap())
        .collect();
    assert!(values.is_sorted_by(|a, b| a < b), "{values:?}");
    assert_eq!(
        reports[3],
        json!({"progressToken": 5, "progress": 3.0, "total": 3.0, "message": "step 3"})
    );
    assert_eq!(client.heard().await["id"], 1);
}

#[tokio::test]
async fn a_cancelled_call_is_waited_for_and_others_go_on() {
    let mut client = Client::start(options());
    client.initialize("2025-06-18").await;
    client.read(1, "wait").await;
    client.read(2, "release").await;
    client.started.recv().await.unwrap();
    client.started.recv().await.unwrap();
    client
        .send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1, "reason": "changed my mind"}}))
        .await;
    client.verbs.canceled.notified().await;
    client.verbs.release.notify_one();
    assert_eq!(
        client.heard().await["id"],
        2,
        "a cancelled request gets no answer"
    );
}
