//! The arguments that travel as headers, for those who know the keyword.

use serde_json::{Value, json};

use crate::support::{Client, modern, options};

const KEYWORD: &str = "x-mcp-header";

async fn listed(client: &mut Client, request: Value) -> Vec<Value> {
    client.send(request).await;
    client.heard().await["result"]["tools"]
        .as_array()
        .unwrap()
        .clone()
}

#[tokio::test]
async fn only_clients_that_know_headers_see_the_keyword() {
    let mut client = Client::start(options());
    let mut tools = listed(&mut client, modern(1, "tools/list", json!({}))).await;
    let bytes = serde_json::to_vec(&tools).unwrap().len();
    assert!(bytes <= 6_000, "{bytes} bytes");
    let mut headers = Vec::new();
    for tool in &mut tools {
        let name = tool["name"].as_str().unwrap().to_owned();
        for (argument, schema) in tool["inputSchema"]["properties"].as_object_mut().unwrap() {
            if let Some(header) = schema.as_object_mut().unwrap().remove(KEYWORD) {
                headers.push(format!("{name}.{argument} {}", header.as_str().unwrap()));
            }
        }
    }
    assert_eq!(headers, ["read.address Address", "call.tool Tool"]);

    let mut old = Client::start(options());
    old.initialize("2025-11-25").await;
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    assert_eq!(listed(&mut old, request).await, tools, "and nothing else differs");
}
