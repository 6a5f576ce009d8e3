//! `/mcp` of `pentad up` as real clients meet it: the official SDKs with a token, and clients that go away.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use common::sdk::{Installed, SDKS, Sdk, call, read, succeeded, texts};
use common::up::Up;
use common::{Place, Reading, binary, described, text};
use pentad_model::event::EventBody;
use pentad_testkit::process::marked;
use rustix::process::Pid;
use serde_json::{Value, json};

const VERBS: [&str; 5] = ["read", "write", "call", "delegate", "plan"];

#[test]
fn every_sdk_calls_tools_over_http_with_a_token() {
    let Some(installed) = Installed::find() else {
        return;
    };
    let place = Place::new();
    installed.connect_everything(&place);
    place.grant("web", &["call:everything"]);
    let up = Up::start(&place);
    let calls = json!([
        read("~/tools/everything/echo"),
        call("everything/echo", &json!({"message": "größer than ever"})),
        call(
            "everything/trigger-long-running-operation",
            &json!({"duration": 2, "steps": 4})
        ),
        call(
            "everything/trigger-long-running-operation",
            &json!({"duration": 2, "steps": 4})
        ),
        read("~/self"),
    ]);
    for sdk in SDKS {
        let report = installed.over_http(sdk, &place, &up, "web", &calls, &[]);
        assert_eq!(report["tools"]["names"], json!(VERBS), "{sdk:?}");
        assert_eq!(report["stateless"], json!(sdk == Sdk::Stateless), "{report}");
        let seen = report["calls"].as_array().unwrap();
        assert!(succeeded(&seen[0]).contains("## Input"), "{sdk:?} {}", seen[0]);
        assert!(
            succeeded(&seen[1]).contains("Echo: größer than ever"),
            "{sdk:?} {}",
            seen[1]
        );
        assert!(
            succeeded(&seen[3]).contains("Long running operation completed"),
            "{sdk:?} {}",
            seen[3]
        );
        let notices = seen[3]["progress"].as_array().unwrap();
        assert!(notices.len() >= 3, "{sdk:?} {}", seen[3]);
        assert!(succeeded(&seen[4]).contains("web"), "{sdk:?} {}", seen[4]);
    }
    up.end();
    place.assert_nobody_is_left("after pentad up");
    let reading = Reading::of(&place);
    let callers: BTreeSet<String> = reading
        .whole()
        .iter()
        .filter(|event| matches!(event.body, EventBody::Called { .. }))
        .map(|event| event.caller.actor.to_string())
        .collect();
    assert_eq!(callers, BTreeSet::from(["client:web".to_owned()]));
    reading.close();
}

#[test]
fn a_person_answers_at_each_sdk_over_http() {
    let Some(installed) = Installed::find() else {
        return;
    };
    let place = Place::new();
    place.recipe("greet", "echo hello {name}", &["name"]);
    let up = Up::start(&place);
    let calls = |name: &str| {
        let greet = call("greet", &json!({"name": name}));
        json!([read("~/tools/recipes/greet"), greet, greet])
    };
    let yes = ["--elicit", "accept", "--elicit-content", r#"{"decision":"once"}"#];
    for sdk in SDKS {
        let asked = installed.over_http(sdk, &place, &up, "web", &calls("Ada"), &yes);
        for seen in &asked["calls"].as_array().unwrap()[1..] {
            assert!(succeeded(seen).contains("hello Ada"), "{sdk:?}: {seen}");
        }
        assert_eq!(
            asked["elicitations"].as_array().unwrap().len(),
            2,
            "{sdk:?}: once is once"
        );
        let unasked = installed.over_http(sdk, &place, &up, "web", &calls("Eve"), &[]);
        let refused = texts(&unasked["calls"][1]);
        assert!(
            refused.contains("waits for a person's approval"),
            "{sdk:?}: {refused}"
        );
    }
    up.end();
    place.assert_nobody_is_left("after pentad up");
}

/// Sends a call that stands alone as the client `web`, and returns the connection.
fn send(up: &Up, verb: &str, arguments: &Value) -> TcpStream {
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": verb, "arguments": arguments, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {}}}})
    .to_string();
    let (param, value) = ["address", "tool"]
        .iter()
        .find_map(|name| Some((name, arguments.get(name)?.as_str()?)))
        .unwrap();
    let mut stream = TcpStream::connect(up.authority()).unwrap();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAuthorization: {}\r\n\
         Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: {verb}\r\nMcp-Param-{param}: {value}\r\n\
         Content-Length: {}\r\n\r\n{message}",
        up.authority(),
        up.token("web"),
        message.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream
}

/// A `pentad up` with a call of `litter` in flight.
fn littering(place: &Place) -> (Up, TcpStream) {
    place.litter();
    place.grant("web", &["call:recipes"]);
    let up = Up::start(place);
    let mut contract = String::new();
    let read = json!({"address": "~/tools/recipes/litter"});
    send(&up, "read", &read).read_to_string(&mut contract).unwrap();
    assert!(contract.contains("## Input"), "{contract}");
    let fifo = place.fifo("litter-runs");
    let input = json!({"tag": "held", "fifo": text(&fifo), "hold": "600"});
    let stream = send(&up, "call", &json!({"tool": "recipes/litter", "input": input}));
    let mut word = String::new();
    std::fs::File::open(&fifo)
        .unwrap()
        .read_to_string(&mut word)
        .unwrap();
    assert_eq!(word, "started\n");
    (up, stream)
}

/// Returns the processes of the place that are not the binary itself: what the recipe started.
fn litter(place: &Place) -> Vec<Pid> {
    let own = text(&binary());
    let is_foreign = |pid: &Pid| {
        let words = std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
        !words.is_empty() && !words.starts_with(own.as_bytes())
    };
    marked(&place.mark()).into_iter().filter(is_foreign).collect()
}

#[test]
fn c02_when_a_client_went_away_the_record_says_canceled_after_its_processes_are_gone() {
    let place = Place::new();
    let (up, stream) = littering(&place);
    assert!(!litter(&place).is_empty());
    let mut events = TcpStream::connect(up.authority()).unwrap();
    let head = format!(
        "GET /api/v1/events?after=0 HTTP/1.1\r\nHost: {}\r\nAuthorization: {}\r\n\r\n",
        up.authority(),
        up.token("person")
    );
    events.write_all(head.as_bytes()).unwrap();
    drop(stream);
    let canceled = BufReader::new(events)
        .lines()
        .map_while(Result::ok)
        .any(|line| line.contains("canceled"));
    assert!(canceled);
    let left = litter(&place);
    assert!(left.is_empty(), "{}", described(&left));
    up.end();
    place.assert_nobody_is_left("after pentad up");
}

#[test]
fn the_end_cancels_a_call_that_outlives_the_drain() {
    let place = Place::new();
    let (up, mut stream) = littering(&place);
    up.end();
    place.assert_nobody_is_left("after pentad up");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("\"isError\":true"), "{answer}");
    let reading = Reading::of(&place);
    let events = format!("{:?}", reading.whole());
    assert!(events.contains("Canceled"), "{events}");
    reading.close();
}
