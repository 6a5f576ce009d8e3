//! Real clients and real servers with Pentad between them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::common::sdk::{Installed, SDKS, Sdk, call, read, succeeded, texts};
use crate::common::{CLIENT, Place, text};

const VERBS: [&str; 5] = ["read", "write", "call", "delegate", "plan"];

/// What must arrive of a result.
enum Expected {
    /// These words.
    Words(&'static [&'static str]),
    /// These words, and a picture as the client's own content.
    Picture(&'static [&'static str]),
    /// Structured content with these keys.
    Structure(&'static [&'static str]),
    /// These words, after at least this many notices of progress.
    Progress(usize, &'static [&'static str]),
}

use Expected::{Picture, Progress, Structure, Words};

/// Calls every tool of a server and looks at what comes back.
fn all_tools(
    installed: &Installed,
    sdk: Sdk,
    place: &Place,
    source: &str,
    own: &[String],
    acts: &[(&str, Value, Expected)],
) {
    let acted: BTreeSet<&str> = acts.iter().map(|(tool, ..)| *tool).collect();
    assert_eq!(
        acted,
        own.iter().map(String::as_str).collect(),
        "{source} has other tools"
    );
    let mut calls = vec![read("~/tools/"), read(&format!("~/tools/{source}/"))];
    for (tool, input, _) in acts {
        let search = json!({"address": "~/tools/", "options": {"query": tool.replace(['-', '_'], " ")}});
        calls.push(json!({"name": "read", "arguments": search}));
        calls.push(read(&format!("~/tools/{source}/{tool}")));
        calls.push(call(&format!("{source}/{tool}"), input));
    }
    let report = installed.through_pentad(sdk, place, &json!(calls), &[]);
    assert_eq!(report["tools"]["names"], json!(VERBS));
    let seen = report["calls"].as_array().unwrap();
    assert!(succeeded(&seen[0]).contains(&format!("## {source}")));
    let listed = succeeded(&seen[1]);
    for ((tool, input, expected), seen) in acts.iter().zip(seen[2..].chunks(3)) {
        assert!(
            listed.contains(&format!("- {tool}: ")),
            "{tool} is not listed:\n{listed}"
        );
        assert!(
            succeeded(&seen[0]).contains(&format!("{source}/{tool}")),
            "{tool} is not found: {}",
            seen[0]
        );
        let contract = succeeded(&seen[1]);
        assert!(
            contract.contains(&format!("# {source}/{tool}")) && contract.contains("## Input"),
            "{contract}"
        );
        arrived(&format!("{sdk:?} {source}/{tool} {input}"), &seen[2], expected);
    }
    place.assert_nobody_is_left("the client left");
}

fn arrived(what: &str, seen: &Value, expected: &Expected) {
    let shown = format!("{what}: {seen}");
    let all = succeeded(seen);
    let words = match expected {
        Words(words) => words,
        Picture(words) => {
            let picture = seen["content"]
                .as_array()
                .unwrap()
                .iter()
                .find(|part| part["type"] == "image");
            let picture = picture.unwrap_or_else(|| panic!("no picture in {shown}"));
            assert!(
                picture["mimeType"] == "image/png" && picture["bytes"].as_u64() > Some(60),
                "{shown}"
            );
            words
        }
        Structure(keys) => {
            for key in *keys {
                assert!(!seen["structured"][key].is_null(), "{key} in {shown}");
            }
            keys
        }
        Progress(least, words) => {
            assert!(seen["progress"].as_array().unwrap().len() >= *least, "{shown}");
            words
        }
    };
    for word in *words {
        assert!(all.contains(word), "'{word}' in {shown}");
    }
}

fn every_tool_of_everything(sdk: Sdk) {
    let Some(installed) = Installed::find() else {
        return;
    };
    let place = Place::new();
    installed.connect_everything(&place);
    place.grant(CLIENT, &["call:everything"]);
    let own = installed.tools_of(&place, &[&installed.everything]);
    let data = "data:text/plain;base64,aGVsbG8=";
    let zip = |kind: &str| json!({"name": "x.gz", "data": data, "outputType": kind});
    all_tools(
        &installed,
        sdk,
        &place,
        "everything",
        &own,
        &[
            (
                "echo",
                json!({"message": "größer than ever"}),
                Words(&["Echo: größer than ever"]),
            ),
            (
                "get-annotated-message",
                json!({"messageType": "error", "includeImage": true}),
                Picture(&["Error: Operation failed", "attachment:"]),
            ),
            ("get-env", json!({}), Words(&["\"PENTAD_TEST_MARK\"", "\"PATH\""])),
            (
                "get-resource-links",
                json!({"count": 3}),
                Words(&[
                    "mcp:everything/demo://resource/dynamic/text/2",
                    "mcp:everything/demo://resource/dynamic/blob/3",
                ]),
            ),
            (
                "get-resource-reference",
                json!({"resourceType": "Text", "resourceId": 1}),
                Words(&[
                    "This is a plaintext resource",
                    "mcp:everything/demo://resource/dynamic/text/1",
                ]),
            ),
            (
                "get-resource-reference",
                json!({"resourceType": "Blob", "resourceId": 2}),
                Words(&["attachment:"]),
            ),
            (
                "get-structured-content",
                json!({"location": "New York"}),
                Structure(&["temperature", "conditions", "humidity"]),
            ),
            (
                "get-sum",
                json!({"a": 2.5, "b": -0.5}),
                Words(&["The sum of 2.5 and -0.5 is 2."]),
            ),
            (
                "get-tiny-image",
                json!({}),
                Picture(&["Here's the image", "The image above is the MCP logo."]),
            ),
            (
                "gzip-file-as-resource",
                zip("resource"),
                Words(&["application/gzip", "attachment:"]),
            ),
            (
                "gzip-file-as-resource",
                zip("resourceLink"),
                Words(&["mcp:everything/demo://resource/session/x.gz"]),
            ),
            (
                "simulate-research-query",
                json!({"topic": "birds"}),
                Words(&["# Research Report: birds"]),
            ),
            (
                "toggle-simulated-logging",
                json!({}),
                Words(&["Started simulated"]),
            ),
            (
                "toggle-simulated-logging",
                json!({}),
                Words(&["Stopped simulated"]),
            ),
            (
                "toggle-subscriber-updates",
                json!({}),
                Words(&["Started simulated"]),
            ),
            (
                "toggle-subscriber-updates",
                json!({}),
                Words(&["Stopped simulated"]),
            ),
            (
                "trigger-long-running-operation",
                json!({"duration": 2, "steps": 4}),
                Progress(3, &["Long running operation completed"]),
            ),
        ],
    );
}

#[test]
fn every_tool_of_server_everything_for_the_python_sdk() {
    every_tool_of_everything(Sdk::Python);
}

#[test]
fn every_tool_of_server_everything_for_the_python_sdk_without_a_session() {
    every_tool_of_everything(Sdk::Stateless);
}

#[test]
fn every_tool_of_server_everything_for_the_typescript_sdk() {
    every_tool_of_everything(Sdk::TypeScript);
}

fn every_tool_of_filesystem(sdk: Sdk) {
    let Some(installed) = Installed::find() else {
        return;
    };
    let place = Place::new();
    installed.connect_filesystem(&place);
    place.grant(CLIENT, &["call:filesystem"]);
    let files = place.path("files");
    let own = installed.tools_of(&place, &[&installed.filesystem, &text(&files)]);
    let at = |name: &str| text(&files.join(name));
    std::fs::write(files.join("logo.png"), PNG).unwrap();
    let edit = json!([{"oldText": "one", "newText": "two"}]);
    all_tools(
        &installed,
        sdk,
        &place,
        "filesystem",
        &own,
        &[
            (
                "list_allowed_directories",
                json!({}),
                Words(&["Allowed directories", "files"]),
            ),
            (
                "create_directory",
                json!({"path": at("sub")}),
                Words(&["Successfully created directory"]),
            ),
            (
                "write_file",
                json!({"path": at("sub/a.txt"), "content": "line one\n"}),
                Words(&["Successfully wrote"]),
            ),
            (
                "edit_file",
                json!({"path": at("sub/a.txt"), "edits": edit}),
                Words(&["-line one", "+line two"]),
            ),
            (
                "read_file",
                json!({"path": at("sub/a.txt")}),
                Words(&["line two"]),
            ),
            (
                "read_text_file",
                json!({"path": at("sub/a.txt"), "head": 1}),
                Words(&["line two"]),
            ),
            (
                "read_multiple_files",
                json!({"paths": [at("sub/a.txt"), at("none")]}),
                Words(&["line two", "Error"]),
            ),
            (
                "read_media_file",
                json!({"path": at("logo.png")}),
                Picture(&["attachment:"]),
            ),
            (
                "get_file_info",
                json!({"path": at("sub/a.txt")}),
                Words(&["size: 9", "isFile: true"]),
            ),
            (
                "list_directory",
                json!({"path": at("")}),
                Words(&["[DIR] sub", "[FILE] logo.png"]),
            ),
            (
                "list_directory_with_sizes",
                json!({"path": at("")}),
                Words(&["[DIR] sub", "Total: 1 files"]),
            ),
            (
                "directory_tree",
                json!({"path": at("")}),
                Words(&["\"a.txt\"", "\"directory\""]),
            ),
            (
                "search_files",
                json!({"path": at(""), "pattern": "**/*.txt"}),
                Words(&["sub/a.txt"]),
            ),
            (
                "move_file",
                json!({"source": at("sub/a.txt"), "destination": at("b.txt")}),
                Words(&["Successfully moved"]),
            ),
        ],
    );
    assert_eq!(
        std::fs::read_to_string(files.join("b.txt")).unwrap(),
        "line two\n"
    );
}

/// One transparent pixel.
const PNG: &[u8] = &[
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 0x0d, 0x49, 0x48, 0x44, 0x52, 0, 0, 0, 1, 0, 0,
    0, 1, 8, 6, 0, 0, 0, 0x1f, 0x15, 0xc4, 0x89, 0, 0, 0, 0x0b, 0x49, 0x44, 0x41, 0x54, 0x78, 0x9c, 0x63, 0,
    1, 0, 0, 5, 0, 1, 0x0d, 0x0a, 0x2d, 0xb4, 0, 0, 0, 0, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82,
];

#[test]
fn every_tool_of_server_filesystem_for_the_python_sdk() {
    every_tool_of_filesystem(Sdk::Python);
}

#[test]
fn every_tool_of_server_filesystem_for_the_python_sdk_without_a_session() {
    every_tool_of_filesystem(Sdk::Stateless);
}

#[test]
fn every_tool_of_server_filesystem_for_the_typescript_sdk() {
    every_tool_of_filesystem(Sdk::TypeScript);
}

#[test]
fn n09_every_sdk_sees_the_same_five_tools_with_no_server_and_with_fifty() {
    let Some(installed) = Installed::find() else {
        return;
    };
    let (empty, full) = (Place::new(), Place::new());
    for n in 0..50 {
        full.fixture_server(&format!("server-{n}"), &["--many", "100"], "");
    }
    // Clients without a session see the arguments that travel as headers marked, the others do not.
    let (mut with_session, mut without) = (BTreeSet::new(), BTreeSet::new());
    for sdk in SDKS {
        let seen = if sdk == Sdk::Stateless {
            &mut without
        } else {
            &mut with_session
        };
        for place in [&empty, &full] {
            let report = installed.through_pentad(sdk, place, &json!([]), &["--schemas"]);
            let tools = &report["tools"];
            assert_eq!(tools["names"], json!(VERBS), "{sdk:?}");
            assert!(
                tools["bytes"].as_u64().unwrap() <= 6_000,
                "{sdk:?}: {} bytes",
                tools["bytes"]
            );
            seen.insert((tools["bytes"].as_u64(), tools["tools"].to_string()));
        }
    }
    assert_eq!(with_session.len(), 1, "{with_session:#?}");
    assert_eq!(without.len(), 1, "{without:#?}");
    assert_ne!(with_session, without);
    assert!(
        (0..50).all(|n| full.witness(&format!("server-{n}")).is_empty()),
        "a server was started"
    );
}

/// The person at an SDK's client answers what Pentad asks; the client repeats nothing by itself.
fn a_person_answers_at(sdk: Sdk) {
    let Some(installed) = Installed::find() else {
        return;
    };
    let place = Place::new();
    place.recipe("greet", "echo hello {name}", &["name"]);
    let greet = call("greet", &json!({"name": "Ada"}));
    let twice = json!([greet, greet]);

    let unasked = installed.through_pentad(sdk, &place, &twice, &[]);
    let refused = texts(&unasked["calls"][1]);
    assert!(
        refused.contains("waits for a person's approval"),
        "{sdk:?}: {refused}"
    );

    let yes = ["--elicit", "accept", "--elicit-content", r#"{"decision":"once"}"#];
    let thrice = json!([greet, greet, greet]);
    let asked = installed.through_pentad(sdk, &place, &thrice, &yes);
    let calls = asked["calls"].as_array().unwrap();
    assert!(
        succeeded(&calls[0]).starts_with("Not called yet"),
        "{sdk:?}: {}",
        calls[0]
    );
    for seen in &calls[1..] {
        assert!(succeeded(seen).contains("hello Ada"), "{sdk:?}: {seen}");
    }
    let questions = asked["elicitations"].as_array().unwrap();
    assert_eq!(questions.len(), 2, "{sdk:?}: once is once: {questions:#?}");
    let shown = questions[0]["message"].as_str().unwrap();
    assert!(
        shown.contains("> call recipes/greet") && shown.contains(r#"> {"name":"Ada"}"#),
        "{sdk:?}: {shown}"
    );
    let offered = &questions[0]["requestedSchema"]["properties"]["decision"]["enum"];
    assert_eq!(*offered, json!(["once", "run", "always", "deny"]), "{sdk:?}");

    let denied = installed.through_pentad(sdk, &place, &thrice, &["--elicit", "decline"]);
    for seen in &denied["calls"].as_array().unwrap()[1..] {
        assert_eq!(seen["isError"], json!(true), "{sdk:?}");
        assert!(texts(seen).contains("A person denied"), "{sdk:?}: {seen}");
    }
    assert_eq!(
        denied["elicitations"].as_array().unwrap().len(),
        1,
        "a no is not asked again"
    );
    place.assert_nobody_is_left("the client left");
}

#[test]
fn a_person_answers_at_the_python_sdk() {
    a_person_answers_at(Sdk::Python);
}

#[test]
fn a_person_answers_at_the_python_sdk_without_a_session() {
    a_person_answers_at(Sdk::Stateless);
}

#[test]
fn a_person_answers_at_the_typescript_sdk() {
    a_person_answers_at(Sdk::TypeScript);
}
