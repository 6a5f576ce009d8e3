//! The space as resources, and the methods of capabilities that are not declared.

use serde_json::{Value, json};

use crate::support::{Client, modern, options};

fn old(id: u64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn read(id: u64, uri: &str) -> Value {
    old(id, "resources/read", json!({"uri": uri}))
}

#[tokio::test]
async fn lists_are_the_same_for_everybody_and_may_be_kept() {
    let mut client = Client::start(options());
    client.initialize("2025-06-18").await;
    client.send(old(1, "resources/list", json!({}))).await;
    let entries = client.heard().await;
    client.send(old(2, "resources/templates/list", json!({}))).await;
    let templates = client.heard().await;
    insta::assert_json_snapshot!("resources", json!([entries["result"], templates["result"]]));
    client
        .send(old(3, "resources/list", json!({"cursor": "x"})))
        .await;
    assert_eq!(client.heard().await["error"]["code"], -32602);

    let mut modern_client = Client::start(options());
    for (method, old) in [
        ("resources/list", entries),
        ("resources/templates/list", templates),
    ] {
        modern_client.send(modern(1, method, json!({}))).await;
        let mut result = modern_client.heard().await["result"].clone();
        let hints = result.as_object_mut().unwrap();
        assert_eq!(hints.remove("ttlMs"), Some(json!(86_400_000)));
        assert_eq!(hints.remove("cacheScope"), Some(json!("public")));
        assert_eq!(hints.remove("resultType"), Some(json!("complete")));
        assert_eq!(result, old["result"]);
    }
}

#[tokio::test]
async fn reading_a_resource_is_the_verb_read() {
    let mut client = Client::start(options());
    client.initialize("2025-06-18").await;
    client
        .send(read(1, "pentad:~/tools/?query=count%20lines&limit=3&format=json"))
        .await;
    let plain = client.heard().await;
    let arguments = client.verbs.seen.lock().unwrap()[0].arguments.clone();
    assert_eq!(
        arguments,
        json!({"address": "~/tools/", "format": "json", "options": {"query": "count lines", "limit": 3}})
    );
    let mut answers = vec![plain];
    for (id, uri) in (2..).zip([
        "pentad:long",
        "pentad:picture",
        "pentad:refused",
        "pentad:%zz",
        "file:README.md",
    ]) {
        client.send(read(id, uri)).await;
        answers.push(client.heard().await);
    }
    client.send(old(9, "resources/read", json!({"uri": 5}))).await;
    answers.push(client.heard().await);
    insta::assert_json_snapshot!("resource_reads", answers);
}

#[tokio::test]
async fn a_stateless_read_is_fresh_for_a_moment_only() {
    let mut client = Client::start(options());
    client
        .send(modern(1, "resources/read", json!({"uri": "pentad:plain"})))
        .await;
    let result = client.heard().await["result"].clone();
    assert_eq!(
        (&result["ttlMs"], &result["cacheScope"]),
        (&json!(1_000), &json!("private"))
    );
    assert_eq!(result["contents"][0]["uri"], "pentad:plain");
    client
        .send(modern(2, "resources/read", json!({"uri": "pentad:refused"})))
        .await;
    let error = client.heard().await["error"].clone();
    assert_eq!(
        error["code"], -32602,
        "this revision has no code of its own for what is not there"
    );
    assert_eq!(error["data"]["refusal"]["kind"], "not_found");
}

#[tokio::test]
async fn methods_of_capabilities_that_are_not_declared_are_unknown() {
    let mut client = Client::start(options());
    let opened = client.initialize("2025-06-18").await;
    assert_eq!(
        opened["result"]["capabilities"],
        json!({"tools": {}, "resources": {}})
    );
    for (id, (method, params)) in (1..).zip([
        ("logging/setLevel", json!({"level": "debug"})),
        ("logging/setLevel", json!({"level": 7})),
        ("prompts/list", json!({})),
        ("prompts/get", json!({"name": "x"})),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/resource", "uri": "pentad:thread:{id}"}, "argument": {"name": "id", "value": ""}}),
        ),
        ("resources/subscribe", json!({"uri": "pentad:~/self"})),
        ("resources/unsubscribe", json!({"uri": "pentad:~/self"})),
        ("tasks/get", json!({"taskId": "x"})),
        ("sampling/createMessage", json!({})),
    ]) {
        client.send(old(id, method, params)).await;
        let answer = client.heard().await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(id), &json!(-32601)), "{method}: {answer}");
    }
    let mut stateless = Client::start(options());
    for (id, method) in (1..).zip(["logging/setLevel", "prompts/list", "ping", "subscriptions/listen"]) {
        let params = json!({"level": "debug", "notifications": {}});
        stateless.send(modern(id, method, params)).await;
        let answer = stateless.heard().await;
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&json!(id), &json!(-32601)),
            "{method}: {answer}"
        );
    }
}
