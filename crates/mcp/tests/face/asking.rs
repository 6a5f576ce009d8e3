//! Approvals that are put to the client: in the session, and through the result.

use std::time::Duration;

use pentad_mcp::FaceOptions;
use pentad_model::Timestamp;
use pentad_model::invocation::ThreadChoice;
use serde_json::{Value, json};

use crate::support::{Client, modern, options, read_request, state_key};

/// A client of a revision with sessions that can be asked.
async fn in_session(version: &str) -> Client {
    let mut client = Client::start(options());
    client.initialize_with(version, json!({"elicitation": {}})).await;
    client
}

fn said(question: &Value, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": question["id"], "result": result})
}

#[tokio::test]
async fn a_client_in_a_session_is_asked_while_the_call_waits() {
    for version in ["2025-06-18", "2025-11-25"] {
        let mut client = in_session(version).await;
        client.read(1, "ask").await;
        let question = client.heard().await;
        if version == "2025-06-18" {
            insta::assert_json_snapshot!("question_in_session", question);
        }
        client
            .send(said(
                &question,
                json!({"action": "accept", "content": {"decision": "always"}}),
            ))
            .await;
        let answer = client.heard().await;
        assert_eq!(
            (&answer["id"], &answer["result"]["isError"]),
            (&json!(1), &json!(false))
        );
        assert_eq!(answer["result"]["content"][0]["text"], r#"{"granted":"always"}"#);
    }
}

#[tokio::test]
async fn answers_mean_what_the_specification_says() {
    let mut client = in_session("2025-11-25").await;
    for (id, result, text) in [
        (
            1,
            json!({"action": "accept", "content": {"decision": "once"}}),
            r#"{"granted":"once"}"#,
        ),
        (
            2,
            json!({"action": "accept", "content": {"decision": "deny"}}),
            "\"denied\"",
        ),
        (3, json!({"action": "decline"}), "\"denied\""),
        (4, json!({"action": "cancel"}), "\"unanswered\""),
        (
            5,
            json!({"action": "accept", "content": {"decision": "whatever"}}),
            "\"unanswered\"",
        ),
        (6, json!({"tools": []}), "\"unanswered\""),
    ] {
        client.read(id, "ask").await;
        let question = client.heard().await;
        client.send(said(&question, result)).await;
        assert_eq!(client.heard().await["result"]["content"][0]["text"], text);
    }
    client.read(7, "ask").await;
    let question = client.heard().await;
    client
        .send(json!({"jsonrpc": "2.0", "id": question["id"], "error": {"code": -32601, "message": "no"}}))
        .await;
    assert_eq!(
        client.heard().await["result"]["structuredContent"]["refusal"]["kind"],
        "approval_required"
    );
}

#[tokio::test]
async fn a_question_offers_no_more_than_the_approval_allows() {
    let mut client = in_session("2025-11-25").await;
    client.read(1, "ask at most").await;
    let schema = client.heard().await["params"]["requestedSchema"]["properties"]["decision"].clone();
    assert_eq!(schema["enum"], json!(["once", "run", "deny"]));
}

#[tokio::test]
async fn clients_that_cannot_be_asked_get_the_refusal() {
    for (version, capabilities) in [
        ("2025-06-18", json!({})),
        ("2025-11-25", json!({"elicitation": {"url": {}}})),
        ("2025-03-26", json!({"elicitation": {}})),
    ] {
        let mut client = Client::start(options());
        client.initialize_with(version, capabilities).await;
        client.read(1, "ask").await;
        let answer = client.heard().await;
        assert_eq!(answer["id"], 1);
        assert_eq!(answer["result"]["isError"], true);
        assert_eq!(
            answer["result"]["structuredContent"]["refusal"]["kind"],
            "approval_required"
        );
    }
    for (key, elicitation) in [(Some(1), None), (None, Some(json!({"form": {}})))] {
        let options = FaceOptions {
            state_key: key.map(state_key),
            ..options()
        };
        let mut client = Client::start(options);
        client.send(stateless(1, "ask", elicitation, json!({}))).await;
        let answer = client.heard().await;
        assert_eq!(
            answer["result"]["structuredContent"]["refusal"]["kind"],
            "approval_required"
        );
        assert_eq!(answer["result"]["resultType"], "complete");
    }
}

#[tokio::test]
async fn c02_a_cancelled_call_withdraws_its_question() {
    let mut client = in_session("2025-11-25").await;
    client.read(1, "ask").await;
    let question = client.heard().await;
    client
        .send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}))
        .await;
    client.verbs.canceled.notified().await;
    let withdrawn = client.heard().await;
    assert_eq!(withdrawn["method"], "notifications/cancelled");
    assert_eq!(withdrawn["params"]["requestId"], question["id"]);
    client
        .send(said(
            &question,
            json!({"action": "accept", "content": {"decision": "once"}}),
        ))
        .await;
    client.read(2, "plain").await;
    assert_eq!(client.heard().await["id"], 2, "a late answer does no harm");
}

#[tokio::test]
async fn a_question_has_a_limit_and_the_call_says_that_it_lives() {
    let mut options = options();
    options.limits.heartbeat = Duration::from_millis(20);
    options.limits.ask = Duration::from_millis(120);
    let mut client = Client::start(options);
    client
        .initialize_with("2025-11-25", json!({"elicitation": {}}))
        .await;
    let mut request = read_request(1, "ask");
    request["params"]["_meta"] = json!({"progressToken": "t"});
    client.send(request).await;
    let mut seen = Vec::new();
    let answer = loop {
        let message = client.heard().await;
        if message["id"] == 1 && message.get("result").is_some() {
            break message;
        }
        seen.push(message["method"].as_str().unwrap().to_owned());
    };
    assert_eq!(
        answer["result"]["structuredContent"]["refusal"]["kind"],
        "approval_required"
    );
    assert_eq!(seen.first().unwrap(), "elicitation/create");
    assert!(
        seen.iter().any(|method| method == "notifications/progress"),
        "{seen:?}"
    );
    assert!(
        seen.iter().any(|method| method == "notifications/cancelled"),
        "{seen:?}"
    );
}

#[tokio::test]
async fn a_client_that_leaves_answers_nothing_and_the_call_ends() {
    let mut client = in_session("2025-11-25").await;
    client.read(1, "ask").await;
    client.heard().await;
    client.hang_up();
    let end = tokio::time::timeout(Duration::from_secs(20), &mut client.face).await;
    assert_eq!(end.unwrap().unwrap(), pentad_mcp::FaceEnd::Clean);
}

/// A read of the stateless revision, with what a repeated request brings back.
fn stateless(id: u64, address: &str, elicitation: Option<Value>, returned: Value) -> Value {
    let mut params = json!({"name": "read", "arguments": {"address": address}});
    for (key, value) in returned.as_object().unwrap() {
        params[key] = value.clone();
    }
    let mut request = modern(id, "tools/call", params);
    if let Some(elicitation) = elicitation {
        request["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
            json!({"elicitation": elicitation});
    }
    request
}

fn form() -> Option<Value> {
    Some(json!({"form": {}}))
}

fn keyed(byte: u8) -> Client {
    Client::start(FaceOptions {
        state_key: Some(state_key(byte)),
        ..options()
    })
}

/// Calls, and returns the state of the question that comes back.
async fn state_of(client: &mut Client, address: &str) -> Value {
    client.send(stateless(1, address, form(), json!({}))).await;
    let answer = client.heard().await;
    assert_eq!(answer["result"]["resultType"], "input_required", "{answer}");
    answer["result"]["requestState"].clone()
}

fn answered(state: &Value, response: Value) -> Value {
    json!({"requestState": state, "inputResponses": {"approval": response}})
}

fn once() -> Value {
    json!({"action": "accept", "content": {"decision": "once"}})
}

#[tokio::test]
async fn a_stateless_client_gets_the_question_as_the_result_and_repeats_the_call() {
    let mut client = keyed(1);
    client.send(stateless(1, "ask", form(), json!({}))).await;
    let mut question = client.heard().await;
    let state = question["result"]["requestState"].take();
    insta::assert_json_snapshot!("question_as_result", question);
    // Any face of the home takes the answer, in the same thread.
    let mut other = keyed(1);
    other
        .send(stateless(7, "ask", form(), answered(&state, once())))
        .await;
    let answer = other.heard().await;
    assert_eq!(answer["result"]["resultType"], "complete");
    assert_eq!(answer["result"]["content"][0]["text"], r#"{"granted":"once"}"#);
}

#[tokio::test]
async fn a_repeated_call_answers_exactly_what_was_asked() {
    let mut client = keyed(1);
    let state = state_of(&mut client, "ask twice").await;
    client
        .send(stateless(2, "ask twice", form(), answered(&state, once())))
        .await;
    let next = client.heard().await;
    assert_eq!(
        next["result"]["resultType"], "input_required",
        "another approval is asked for itself"
    );
    assert_ne!(next["result"]["requestState"], state);
    for (response, kind) in [
        (json!({"action": "decline"}), "forbidden"),
        (json!({"action": "cancel"}), "approval_required"),
    ] {
        client
            .send(stateless(3, "ask twice", form(), answered(&state, response)))
            .await;
        let answer = client.heard().await;
        assert_eq!(answer["result"]["structuredContent"]["refusal"]["kind"], kind);
    }
    // Repeated without an answer, it is asked again; an answer without a state is nobody's.
    for returned in [
        json!({"requestState": state}),
        json!({"requestState": state, "inputResponses": {"other": once()}}),
        json!({"inputResponses": {"approval": once()}}),
    ] {
        client.send(stateless(4, "ask twice", form(), returned)).await;
        assert_eq!(client.heard().await["result"]["resultType"], "input_required");
    }
    let nonsense = answered(
        &state,
        json!({"action": "accept", "content": {"decision": "perhaps"}}),
    );
    client.send(stateless(5, "ask twice", form(), nonsense)).await;
    insta::assert_json_snapshot!("no_answer", client.heard().await);
}

#[tokio::test]
async fn foreign_altered_and_late_states_are_refused() {
    let mut client = keyed(1);
    let state = state_of(&mut client, "ask").await;
    let altered = json!(format!("{}x", state.as_str().unwrap()));
    client
        .send(stateless(2, "ask", form(), answered(&altered, once())))
        .await;
    let refused = client.heard().await;
    insta::assert_json_snapshot!("refused_state", refused);

    client
        .send(stateless(2, "ask at most", form(), answered(&state, once())))
        .await;
    assert_eq!(client.heard().await["error"], refused["error"], "another call");

    let mut renamed = stateless(2, "ask", form(), answered(&state, once()));
    renamed["params"]["_meta"]["io.modelcontextprotocol/clientInfo"]["name"] = json!("stranger");
    client.send(renamed).await;
    assert_eq!(client.heard().await["error"], refused["error"], "another client");

    let elsewhere = FaceOptions {
        state_key: Some(state_key(1)),
        thread: ThreadChoice::Key("mcp:other".to_owned()),
        ..options()
    };
    let unsigned = FaceOptions {
        state_key: None,
        ..options()
    };
    let mut late = FaceOptions {
        state_key: Some(state_key(1)),
        ..options()
    };
    late.limits.answer = Duration::ZERO;
    let mut late = Client::start(late);
    let old = state_of(&mut late, "ask").await;
    let now = Timestamp::now();
    while Timestamp::now() <= now {
        tokio::task::yield_now().await;
    }
    for (mut face, state, why) in [
        (Client::start(elsewhere), &state, "another thread"),
        (keyed(2), &state, "another home"),
        (Client::start(unsigned), &state, "a home without a key"),
        (late, &old, "too late"),
    ] {
        let before = face.verbs.seen.lock().unwrap().len();
        face.send(stateless(2, "ask", form(), answered(state, once())))
            .await;
        assert_eq!(face.heard().await["error"], refused["error"], "{why}");
        assert_eq!(face.verbs.seen.lock().unwrap().len(), before, "nothing was done");
    }
}

#[tokio::test]
async fn a_resource_asks_too() {
    let mut client = keyed(1);
    let mut request = modern(1, "resources/read", json!({"uri": "pentad:ask"}));
    request["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
        json!({"elicitation": {"form": {}}});
    client.send(request.clone()).await;
    let question = client.heard().await;
    assert_eq!(question["result"]["resultType"], "input_required");
    request["params"]["requestState"] = question["result"]["requestState"].clone();
    request["params"]["inputResponses"] = json!({"approval": once()});
    client.send(request).await;
    assert_eq!(
        client.heard().await["result"]["contents"][0]["text"],
        r#"{"granted":"once"}"#
    );

    let mut client = in_session("2025-06-18").await;
    client
        .send(json!({"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": "pentad:ask"}}))
        .await;
    let question = client.heard().await;
    client.send(said(&question, once())).await;
    assert_eq!(
        client.heard().await["result"]["contents"][0]["text"],
        r#"{"granted":"once"}"#
    );
}
