use pentad_program::{Content, ToolFailure};
use serde_json::{Value, json};

use crate::support::{Bench, call, document, end, text};

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_content_is_taken_over() {
    let bench = Bench::new();
    let server = bench.server(&[]);
    let tools = [
        "echo",
        "image",
        "audio",
        "resource",
        "blob",
        "link",
        "structured",
        "unknown_block",
        "fail",
        "bare",
    ];
    let mut seen = Vec::new();
    for tool in tools {
        let output = call(&server, tool, json!({"text": "hello"})).await.unwrap();
        seen.push(format!("{tool}: {output:?}"));
    }
    insta::assert_snapshot!(seen.join("\n"));
    let failure = call(&server, "rpc_error", json!({})).await.unwrap_err();
    assert_eq!(
        failure,
        ToolFailure::Failed("the server answered with error -32000: the fixture refuses".into())
    );
    let failure = call(&server, "input_required", json!({})).await.unwrap_err();
    assert!(
        failure.to_string().contains("asked for further input"),
        "{failure}"
    );
    end(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn n07_results_are_opaque_text() {
    let bench = Bench::new();
    let server = bench.server(&[]);
    let surrogate = call(&server, "surrogate", json!({})).await.unwrap();
    assert_eq!(text(&surrogate), "lone \u{FFFD} and pair 😀 and \u{FFFD}");
    let reference = call(&server, "reference", json!({})).await.unwrap();
    assert_eq!(text(&reference), r##"{"$ref":"#/definitions/loop"}"##);
    assert_eq!(
        reference.structured,
        Some(json!({"$ref": "#/definitions/loop", "$defs": {}}))
    );
    let control = call(&server, "control", json!({})).await.unwrap();
    assert_eq!(
        text(&control),
        "bell \u{7} nul \u{0} escape \u{1b}[31mred\u{1b}[0m"
    );
    end(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn n02_any_name_can_be_called() {
    let bench = Bench::new();
    let server = bench.server(&["--odd-names"]);
    for name in [
        "n".repeat(128).as_str(),
        "files/read.text-v2_final",
        "größe_写文件",
        "a b%c?d#e",
    ] {
        let output = call(&server, name, json!({})).await.unwrap();
        assert_eq!(text(&output), format!("called {name}"));
    }
    end(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn n06_schemas_are_data() {
    let bench = Bench::new();
    let server = bench.server(&["--odd-schemas"]);
    let node = document(&server, "schema_ref").await;
    assert_eq!(
        node.input["$defs"]["node"]["properties"]["next"],
        json!({"$ref": "#/$defs/node"})
    );
    assert_eq!(document(&server, "schema_no_type").await.input, json!({}));
    assert_eq!(
        document(&server, "schema_nullable").await.input["type"],
        json!(["object", "null"])
    );
    assert_eq!(
        document(&server, "schema_remote").await.input["$ref"],
        "https://example.invalid/schema.json"
    );
    let any: &Value = &document(&server, "schema_any_of").await.input;
    assert_eq!(any["anyOf"][1]["type"], "null");
    end(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m05_bad_lines_are_skipped_and_reported() {
    use pentad_program::ToolSource as _;
    let bench = Bench::new();
    let server = bench.server(&[
        "--garbage-at-start",
        "2",
        "--garbage",
        "1",
        "--stderr",
        "warning: old config",
    ]);
    let output = call(&server, "bad_lines", json!({"count": 3})).await.unwrap();
    assert_eq!(text(&output), "after bad lines");
    let status = server.status();
    let shown = format!("{:?}", status.diagnostics);
    assert!(shown.contains("lines of its stdout are no protocol"), "{shown}");
    assert!(shown.contains("warning: old config"), "{shown}");
    assert!(
        !shown.contains('\u{1b}'),
        "control characters are shown, not sent"
    );
    end(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_oversized_answer_fails_its_call_with_the_limit_and_nothing_else() {
    let bench = Bench::new();
    let mut config = bench.config(&[]);
    config.limits.max_message_bytes = 1 << 20;
    let server = bench.made(config);
    let failure = call(&server, "huge", json!({"bytes": 3 << 20}))
        .await
        .unwrap_err();
    assert!(
        failure
            .to_string()
            .contains("longer than the limit of 1048576 bytes (max_message_bytes)"),
        "{failure}"
    );
    let output = call(&server, "huge", json!({"bytes": 900_000})).await.unwrap();
    assert!(matches!(output.content.first(), Some(Content::Text(long)) if long.len() == 900_000));
    assert_eq!(bench.count("start"), 1);
    end(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_not_offered_does_not_exist() {
    let bench = Bench::new();
    let server = bench.server(&[]);
    let output = call(&server, "ask", json!({})).await.unwrap();
    insta::assert_snapshot!(text(&output), @r#"{"ping":"answered","roots/list":"answered","sampling/createMessage":-32601,"elicitation/create":-32601,"from/the/future":-32601}"#);
    let output = call(&server, "odd_notifications", json!({})).await.unwrap();
    assert_eq!(text(&output), "after odd notifications");
    end(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resource_is_read_and_starts_the_server_like_a_call() {
    let bench = Bench::new();
    let server = bench.server(&[]);
    let read = |uri: &str| pentad_mcp::ResourceRead {
        uri: uri.to_owned(),
        thread: pentad_model::ThreadId::generate(),
        cwd: "/tmp".into(),
        time_limit: None,
        attendance: pentad_program::Attendance::default(),
    };
    let memo = Content::Resource {
        uri: "memo://one".into(),
        mime: Some("text/plain".into()),
        data: b"a memo".to_vec(),
        text: true,
    };
    assert_eq!(server.read_resource(read("memo://one")).await, Ok(vec![memo]));
    let failure = server.read_resource(read("memo://none")).await.unwrap_err();
    assert_eq!(
        failure.to_string(),
        "the server answered with error -32002: no such resource"
    );
    assert_eq!(bench.count("start"), 1);
    end(&server).await;
}
