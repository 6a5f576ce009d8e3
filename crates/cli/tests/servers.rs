//! What a client meets when a server errs, is slow, is broken, or needs a person's word.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use std::path::Path;
use std::process::Command;

use pentad_testkit::client::RawClient;
use serde_json::json;

use crate::common::sdk::{Installed, SDKS, call, read, succeeded, texts};
use crate::common::{CLIENT, Place, binary, text};

#[test]
fn errors_of_a_server_arrive_as_errors_and_wrong_input_brings_the_contract() {
    let Some(installed) = Installed::find() else {
        return;
    };
    let place = Place::new();
    installed.connect_filesystem(&place);
    place.grant(CLIENT, &["call:filesystem"]);
    let outside = text(&place.path("home/config.toml"));
    for sdk in SDKS {
        let report = installed.through_pentad(
            sdk,
            &place,
            &json!([
                read("~/tools/filesystem/read_text_file"),
                call("filesystem/read_text_file", &json!({"path": outside})),
                call("filesystem/read_text_file", &json!({"file": outside})),
                call("filesystem/read_texts", &json!({})),
                {"name": "reed", "arguments": {}},
                read("~/self"),
            ]),
            &[],
        );
        let seen = report["calls"].as_array().unwrap();
        assert!(texts(&seen[1]).contains("Access denied"), "{sdk:?}: {}", seen[1]);
        assert_eq!(seen[1]["isError"], json!(true), "{sdk:?}: {}", seen[1]);
        let contract = succeeded(&seen[2]);
        assert!(
            contract.contains("Not called") && contract.contains("## Input"),
            "{sdk:?}: {contract}"
        );
        assert_eq!(seen[3]["isError"], json!(true), "{sdk:?}: {}", seen[3]);
        assert!(
            texts(&seen[3]).contains("filesystem/read_text_file"),
            "{sdk:?}: {}",
            seen[3]
        );
        assert!(
            seen[4]["outcome"] == "error" || seen[4]["isError"] == json!(true),
            "{sdk:?}: {}",
            seen[4]
        );
        succeeded(&seen[5]);
    }
}

#[test]
fn c05_a_cancelled_call_leaves_the_server_and_the_next_call_works() {
    let Some(installed) = Installed::find() else {
        return;
    };
    for sdk in SDKS {
        let place = Place::new();
        installed.connect_everything(&place);
        place.fixture_server("fixture", &[], "");
        place.grant(CLIENT, &["call:everything", "call:fixture"]);
        let mut sleep = call("fixture/sleep", &json!({"ms": 600_000}));
        sleep["cancelAfter"] = json!(1);
        let mut operation = call(
            "everything/trigger-long-running-operation",
            &json!({"duration": 600, "steps": 600}),
        );
        operation["cancelAfter"] = json!(1);
        let mut task = call("everything/simulate-research-query", &json!({"topic": "birds"}));
        task["cancelAfter"] = json!(1);
        let report = installed.through_pentad(
            sdk,
            &place,
            &json!([
                read("~/tools/everything/simulate-research-query"),
                read("~/tools/fixture/echo"),
                read("~/tools/fixture/sleep"),
                read("~/tools/everything/trigger-long-running-operation"),
                read("~/tools/everything/get-env"),
                call("everything/get-env", &json!({})),
                sleep,
                call("fixture/echo", &json!({"text": "after"})),
                operation,
                task,
                call("everything/get-env", &json!({})),
            ]),
            &[],
        );
        let seen = report["calls"].as_array().unwrap();
        for cut in [6, 8, 9] {
            assert_eq!(seen[cut]["outcome"], json!("cancelled"), "{sdk:?}: {}", seen[cut]);
        }
        assert_eq!(succeeded(&seen[7]), "after", "{sdk:?}");
        // The environment names the run of the process: it is still the same one.
        assert_eq!(succeeded(&seen[10]), succeeded(&seen[5]), "{sdk:?}");
        assert_eq!(place.witnessed("fixture", "start"), 1, "{sdk:?}");
        let told = ["cancelled", "stopped"].map(|word| place.witnessed("fixture", word));
        assert_eq!(told, [1, 1], "{sdk:?}: {:?}", place.witness("fixture"));
        place.assert_nobody_is_left("the client left");
    }
}

#[test]
fn m06_broken_servers_delay_nothing_and_say_why() {
    let place = Place::new();
    place.server("missing", &["/no/such/program"], "");
    place.fixture_server(
        "exits",
        &["--exit-at-once", "3", "--stderr", "no licence found"],
        "",
    );
    place.fixture_server("hangs", &["--hang-on-start"], "start_timeout = 1");
    place.fixture_server("floods", &["--flood"], "start_timeout = 2");
    place.fixture_server("good", &[], "");
    place.grant(CLIENT, &["call:good"]);
    let started = || ["exits", "hangs", "floods", "good"].map(|name| place.witnessed(name, "start"));
    let mut face = place.face();
    let tools = face.request("tools/list", &json!({})).unwrap();
    assert_eq!(tools["result"]["tools"].as_array().unwrap().len(), 5);
    let listing = face.call_text("read", &json!({"address": "~/tools/"})).unwrap();
    assert!(listing.contains("## hangs"), "{listing}");
    // All of that was answered before any server was even started.
    assert_eq!(started(), [0; 4]);

    let broken = [
        ("missing", "/no/such/program"),
        ("exits", "no licence found"),
        ("hangs", "1 s"),
        ("floods", "floods"),
    ];
    let ids: Vec<u64> = broken
        .iter()
        .map(|(name, _)| {
            face.send("tools/call", &read(&format!("~/tools/{name}/")))
                .unwrap()
        })
        .collect();
    // While they are being waited for, the others go on.
    let good = face
        .call_text("read", &json!({"address": "~/tools/good/echo"}))
        .unwrap();
    assert!(good.contains("# good/echo"), "{good}");
    assert_eq!(
        face.call_text("call", &json!({"tool": "good/echo", "input": {"text": "hi"}}))
            .unwrap(),
        "hi"
    );
    let hanging = |face: &RawClient| !face.aside.iter().any(|m| m["id"] == json!(ids[2]));
    assert!(hanging(&face), "the good server waited for the one that hangs");
    for id in &ids {
        if !face.aside.iter().any(|message| message["id"] == json!(id)) {
            face.response(*id).unwrap();
        }
    }
    let listing = face.call_text("read", &json!({"address": "~/tools/"})).unwrap();
    for (name, reason) in broken {
        let (_, section) = listing.split_once(&format!("## {name} ")).unwrap();
        let section = section.split("\n## ").next().unwrap();
        assert!(section.contains(reason), "'{reason}' about {name}:\n{section}");
        let call = face
            .call(
                "call",
                &json!({"tool": format!("{name}/echo"), "input": {"text": "hi"}}),
            )
            .unwrap();
        assert_eq!(call["isError"], json!(true), "{call}");
        assert!(call.to_string().contains(name), "{call}");
    }
    face.close().unwrap();
    place.assert_nobody_is_left("the face ended");
}

#[test]
fn without_a_grant_a_person_at_a_terminal_lets_the_repeated_call_run() {
    let place = Place::new();
    place.fixture_server("fixture", &[], "");
    let mut face = place.face();
    let effect = json!({"tool": "fixture/effect", "input": {}});
    face.call("read", &json!({"address": "~/tools/fixture/effect"}))
        .unwrap();
    let refused = face.call("call", &effect).unwrap();
    assert_eq!(refused["isError"], json!(true), "{refused}");
    let refusal = refused["content"][0]["text"].as_str().unwrap();
    let (_, rest) = refusal
        .rsplit_once("approval:")
        .unwrap_or_else(|| panic!("no approval in {refusal}"));
    let id: String = rest.chars().take_while(char::is_ascii_alphanumeric).collect();
    assert_eq!(place.witnessed("fixture", "effect"), 0);

    let denied = place.pentad(&["approvals", "grant", &id]).output().unwrap();
    assert_eq!(
        denied.status.code(),
        Some(3),
        "granting without a terminal: {denied:?}"
    );
    assert_eq!(face.call("call", &effect).unwrap()["isError"], json!(true));
    let (granted, screen) = at_a_terminal(&place, &format!("approvals grant {id}"));
    assert!(granted, "{screen}");
    let done = face.call("call", &effect).unwrap();
    assert_eq!(done["content"][0]["text"], json!("done"), "{done}");
    assert_eq!(place.witnessed("fixture", "effect"), 1);
    // Once means once.
    assert_eq!(face.call("call", &effect).unwrap()["isError"], json!(true));
    assert_eq!(place.witnessed("fixture", "effect"), 1);
    face.close().unwrap();
}

/// Runs the binary at a pseudo-terminal; returns whether it succeeded, and what the screen showed.
fn at_a_terminal(place: &Place, words: &str) -> (bool, String) {
    let line = format!("{} {words}", binary().display());
    let output = Command::new("script")
        .args(["-qec", &line])
        .arg(Path::new("/dev/null"))
        .env_clear()
        .envs(place.env())
        .current_dir(place.path("work"))
        .output()
        .unwrap();
    (
        output.status.success(),
        String::from_utf8_lossy(&output.stdout).into_owned(),
    )
}
