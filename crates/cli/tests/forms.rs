//! Forms of connected servers: who is asked, what comes back, and what is written down; and what servers write to stderr.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use common::sdk::{Installed, SDKS, Sdk, call as tool_call, read, succeeded};
use common::up::Up;
use common::{CLIENT, END, Place, Reading, SESSION, binary, text};
use pentad_model::EventBody;
use pentad_testkit::client::RawClient;
use pentad_testkit::process::wait_at_most;
use serde_json::{Value, json};

/// A place with a server that asks, which the client may call.
fn place(switches: &[&str]) -> Place {
    let place = Place::new();
    place.fixture_server("desk", switches, "");
    place.grant(CLIENT, &["call:desk"]);
    place
}

/// Opens a session of a client that can show forms, or cannot.
fn face(place: &Place, shows_forms: bool) -> RawClient {
    let mut face = place.raw_face(&[]);
    let capabilities = if shows_forms {
        json!({"elicitation": {}})
    } else {
        json!({})
    };
    let hello = json!({
        "protocolVersion": SESSION,
        "capabilities": capabilities,
        "clientInfo": {"name": CLIENT, "version": "1"},
    });
    face.request("initialize", &hello).unwrap();
    face.notify("notifications/initialized", &json!({})).unwrap();
    let contract = face
        .call_text("read", &json!({"address": "~/tools/desk/elicit"}))
        .unwrap();
    assert!(contract.contains("elicit"), "{contract}");
    face
}

/// Begins a call of the server that asks, and returns its id.
fn begin(face: &mut RawClient, input: &Value) -> u64 {
    let call = json!({"tool": "desk/elicit", "input": input});
    face.send("tools/call", &json!({"name": "call", "arguments": call}))
        .unwrap()
}

/// Waits for the next message that is one of these.
fn next(face: &mut RawClient, wanted: impl Fn(&Value) -> bool) -> Value {
    loop {
        let message = face.message_within(END).unwrap().expect("a message");
        if wanted(&message) {
            return message;
        }
    }
}

fn asked(face: &mut RawClient) -> Value {
    next(face, |message| message["method"] == "elicitation/create")
}

fn ended(face: &mut RawClient, id: u64) -> String {
    let answer = next(face, |message| message["id"] == id && message["method"].is_null());
    answer["result"]["content"][0]["text"]
        .as_str()
        .unwrap()
        .to_owned()
}

fn say(face: &mut RawClient, question: &Value, result: &Value) {
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": result});
    face.send_line(&answer.to_string()).unwrap();
}

/// Returns the lines that were journaled from this source.
fn journaled(place: &Place, source: &str) -> Vec<String> {
    let reading = Reading::of(place);
    let lines = reading.whole().into_iter().filter_map(|event| match event.body {
        EventBody::Log {
            source: from, text, ..
        } if from == source => {
            assert!(event.run.is_some(), "{text}");
            Some(text)
        }
        _ => None,
    });
    let lines = lines.collect();
    reading.close();
    lines
}

/// A command with a terminal of its own, typed into from here.
struct AtTerminal {
    child: Child,
    seen: String,
}

impl AtTerminal {
    fn start(place: &Place, line: &str) -> Self {
        let child = Command::new("script")
            .args(["-q", "-e", "-c", line, "/dev/null"])
            .env_clear()
            .envs(place.env())
            .current_dir(place.path("work"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            child,
            seen: String::new(),
        }
    }

    /// Waits until this is shown after what was waited for before.
    fn until(&mut self, words: &str) {
        let out = self.child.stdout.as_mut().unwrap();
        let mut fresh = Vec::new();
        while !String::from_utf8_lossy(&fresh).contains(words) {
            let mut byte = [0];
            if out.read(&mut byte).unwrap() == 0 {
                let fresh = String::from_utf8_lossy(&fresh);
                panic!("it ended before '{words}': {}{fresh}", self.seen);
            }
            fresh.extend(byte);
        }
        self.seen.push_str(&String::from_utf8_lossy(&fresh));
    }

    fn type_line(&mut self, line: &str) {
        let input = self.child.stdin.as_mut().unwrap();
        input.write_all(format!("{line}\n").as_bytes()).unwrap();
        input.flush().unwrap();
    }

    /// Waits for the end, and returns whether it went well and all that was shown.
    fn end(mut self) -> (bool, String) {
        let mut rest = Vec::new();
        self.child
            .stdout
            .as_mut()
            .unwrap()
            .read_to_end(&mut rest)
            .unwrap();
        let ended = wait_at_most(&mut self.child, END).unwrap();
        self.seen.push_str(&String::from_utf8_lossy(&rest));
        (ended.success(), self.seen)
    }
}

fn pentad(words: &str) -> String {
    format!("{} {words}", text(&binary()))
}

#[test]
fn a_form_reaches_the_client_that_called_and_its_answer_the_server() {
    let place = place(&[]);
    let mut client = face(&place, true);
    let values = json!({"name": "canary-ada", "seats": 3, "pin_token": "canary-pin"});
    for (result, said) in [
        (
            json!({"action": "accept", "content": values}),
            "accept: name seats pin_token",
        ),
        (json!({"action": "decline"}), "decline: "),
        (json!({"action": "cancel"}), "cancel: "),
        (json!({"action": "accept", "content": {"seats": 3}}), "cancel: "),
    ] {
        let call = begin(
            &mut client,
            &json!({"message": "Who?\u{1b}[31m\nPentad: say yes"}),
        );
        let question = asked(&mut client);
        let message = question["params"]["message"].as_str().unwrap();
        assert!(
            message.contains("'desk'") && message.contains("> Who?\\u{1b}[31m\n> Pentad"),
            "{message}"
        );
        assert_eq!(question["params"]["requestedSchema"]["required"], json!(["name"]));
        say(&mut client, &question, &result);
        assert!(ended(&mut client, call).contains(said), "{said}");
    }
    client.close().unwrap();
    let witness = place.witness("desk");
    let first = witness.iter().find(|line| line.starts_with("answered")).unwrap();
    assert!(
        first.contains("canary-ada") && first.contains("canary-pin"),
        "{first}"
    );
    place.stop();
    let lines = journaled(&place, "mcp:desk/form");
    assert_eq!(
        lines.iter().map(String::as_str).collect::<Vec<_>>(),
        [
            "the server asks for a form to be filled in: name, seats, pin_token",
            "the form was filled in: name, seats, pin_token",
            "the server asks for a form to be filled in: name, seats, pin_token",
            "the form was declined",
            "the server asks for a form to be filled in: name, seats, pin_token",
            "the form was cancelled: it was put away",
            "the server asks for a form to be filled in: name, seats, pin_token",
            "the form was cancelled: the answer does not fit the form: name: must be filled in",
        ]
    );
    let database = std::fs::read(place.path("home/state/pentad.db")).unwrap();
    assert!(!String::from_utf8_lossy(&database).contains("canary"));
}

#[test]
fn a_form_that_nobody_can_be_shown_is_cancelled_at_once() {
    let place = place(&[]);
    let mut client = face(&place, false);
    let call = begin(&mut client, &json!({}));
    assert!(ended(&mut client, call).contains("cancel: "));
    client.close().unwrap();
    // A script is no person, though it is one's own.
    let output = place.pentad(&["call", "desk/elicit"]).output().unwrap();
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("cancel: "),
        "{output:?}"
    );
    // Neither is an agent that plays the client.
    let mut env = place.env();
    env.insert("CLAUDECODE".to_owned(), "1".to_owned());
    let mut agent = RawClient::start(&binary(), ["mcp"], &env, &place.path("work")).unwrap();
    let hello = json!({"protocolVersion": SESSION, "capabilities": {"elicitation": {}},
        "clientInfo": {"name": CLIENT, "version": "1"}});
    agent.request("initialize", &hello).unwrap();
    agent.notify("notifications/initialized", &json!({})).unwrap();
    agent
        .call_text("read", &json!({"address": "~/tools/desk/elicit"}))
        .unwrap();
    let call = begin(&mut agent, &json!({}));
    let answer = next(&mut agent, |message| {
        message["id"] == call || message["method"] == "elicitation/create"
    });
    assert!(answer["result"].to_string().contains("cancel: "), "{answer}");
    agent.close().unwrap();
    // Without sessions, a question would end the request, and with it the half of the call that is done.
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": CLIENT, "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
    });
    let mut modern = place.raw_face(&[]);
    let mut ask = |name: &str, arguments: Value| {
        let params = json!({"name": name, "arguments": arguments, "_meta": meta});
        modern.request("tools/call", &params).unwrap()["result"].to_string()
    };
    ask("read", json!({"address": "~/tools/desk/elicit"}));
    let said = ask("call", json!({"tool": "desk/elicit", "input": {}}));
    assert!(said.contains("cancel: "), "{said}");
    modern.close().unwrap();
    place.stop();
    let why: Vec<String> = journaled(&place, "mcp:desk/form")
        .into_iter()
        .filter(|line| line.starts_with("the form was cancelled"))
        .collect();
    assert_eq!(why.len(), 4, "{why:?}");
    assert!(why[3].contains("a revision without sessions"), "{why:?}");
}

#[test]
fn a_form_that_comes_as_an_answer_is_filled_in_and_the_call_goes_on() {
    let place = place(&["--modern"]);
    let mut client = face(&place, true);
    let call = begin(&mut client, &json!({}));
    let question = asked(&mut client);
    say(
        &mut client,
        &question,
        &json!({"action": "accept", "content": {"name": "Ada"}}),
    );
    assert!(ended(&mut client, call).contains("accept: name"));
    client.close().unwrap();
}

#[test]
fn a_form_reaches_each_sdk_over_http() {
    let Some(installed) = Installed::find() else {
        return;
    };
    let place = place(&[]);
    place.grant("web", &["call:desk"]);
    let up = Up::start(&place);
    let calls = json!([read("~/tools/desk/elicit"), tool_call("desk/elicit", &json!({}))]);
    for sdk in SDKS {
        let yes = ["--elicit", "accept", "--elicit-content", r#"{"name":"Ada"}"#];
        let seen = installed.over_http(sdk, &place, &up, "web", &calls, &yes);
        if sdk == Sdk::Stateless {
            // A question would end its request, and the half of the call that is done with it.
            assert!(succeeded(&seen["calls"][1]).contains("cancel: "), "{seen}");
            continue;
        }
        assert!(
            succeeded(&seen["calls"][1]).contains("accept: name"),
            "{sdk:?}: {seen}"
        );
        assert_eq!(seen["elicitations"].as_array().unwrap().len(), 1, "{sdk:?}");
    }
    up.end();
    place.assert_nobody_is_left("after pentad up");
}

#[test]
fn of_several_calls_a_person_in_another_shell_is_asked() {
    let place = place(&[]);
    let mut clients = [face(&place, true), face(&place, true)];
    let sleeping = {
        let call = json!({"tool": "desk/sleep", "input": {"ms": 60_000}});
        let first = &mut clients[0];
        first.call_text("call", &call).unwrap();
        first
            .send("tools/call", &json!({"name": "call", "arguments": call}))
            .unwrap()
    };
    let start = Instant::now();
    while place.witnessed("desk", "sleeping") == 0 {
        assert!(start.elapsed() < END);
        std::thread::yield_now();
    }
    let call = begin(&mut clients[1], &json!({"message": "Who\u{1b}[31m?"}));
    let id = open_form(&place);
    let shown = place.pentad(&["approvals", "show", &id]).output().unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(
        shown.contains("> Who\\u{1b}[31m?") && shown.contains("- name: text, required"),
        "{shown}"
    );
    let listed = place.pentad(&["approvals"]).output().unwrap();
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.contains(&format!("form:{id} desk: ")), "{listed}");

    // Only a person at a terminal may, and only what fits is sent.
    let plain = place
        .pentad(&["approvals", "fill", &id, "name=Eve"])
        .output()
        .unwrap();
    assert!(!plain.status.success());
    let (done, said) =
        AtTerminal::start(&place, &pentad(&format!("approvals fill {id} name=A more=1"))).end();
    assert!(
        !done && said.contains("name: ") && said.contains("more: is no field"),
        "{said}"
    );
    let mut terminal = AtTerminal::start(&place, &pentad(&format!("approvals fill {id}")));
    terminal.until("Fill it in?");
    terminal.type_line("");
    let (done, said) = terminal.end();
    assert!(!done && said.contains("waits on"), "{said}");
    let (done, said) = AtTerminal::start(
        &place,
        &pentad(&format!("approvals fill {id} name=canary-Ada seats=4")),
    )
    .end();
    assert!(done && said.contains("was filled in"), "{said}");
    let [first, second] = &mut clients;
    let outcome = next(second, |message| {
        message["id"] == call || message["method"] == "elicitation/create"
    });
    assert!(
        outcome["result"].to_string().contains("accept: name seats"),
        "{outcome}"
    );
    assert!(
        place
            .witness("desk")
            .iter()
            .any(|line| line.contains("canary-Ada"))
    );

    // A call that is cancelled leaves the form to the other; both cancelled, it is gone.
    let call = begin(second, &json!({}));
    let id = open_form(&place);
    second
        .notify("notifications/cancelled", &json!({"requestId": call}))
        .unwrap();
    first
        .notify("notifications/cancelled", &json!({"requestId": sleeping}))
        .unwrap();
    while forms(&place).iter().any(|form| form["id"] == id.as_str()) {
        assert!(start.elapsed() < END);
    }
    for client in clients {
        client.close().unwrap();
    }
    place.stop();
    let lines = journaled(&place, "mcp:desk/form");
    let filled = lines
        .iter()
        .filter(|line| *line == "the form was filled in: name, seats");
    assert_eq!(filled.count(), 2, "{lines:?}");
    assert!(
        lines.iter().any(|line| line.contains("pentad approvals fill")),
        "{lines:?}"
    );
    assert!(!lines.concat().contains("canary"), "{lines:?}");
}

/// Returns the forms that wait for a person.
fn forms(place: &Place) -> Vec<Value> {
    let output = place.pentad(&["approvals", "--json"]).output().unwrap();
    let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
    outcome["value"]["forms"].as_array().unwrap().clone()
}

/// Waits for a form and returns its id.
fn open_form(place: &Place) -> String {
    let start = Instant::now();
    loop {
        if let Some(form) = forms(place).first() {
            return form["id"].as_str().unwrap().to_owned();
        }
        assert!(start.elapsed() < END, "no form");
    }
}

#[test]
fn a_cancelled_call_takes_its_form_along() {
    let place = place(&[]);
    let mut client = face(&place, true);
    let call = begin(&mut client, &json!({}));
    let question = asked(&mut client);
    client
        .notify("notifications/cancelled", &json!({"requestId": call}))
        .unwrap();
    let void = next(&mut client, |message| {
        message["method"] == "notifications/cancelled"
    });
    assert_eq!(void["params"]["requestId"], question["id"]);
    let start = Instant::now();
    while place.witnessed("desk", "stopped") == 0 {
        assert!(start.elapsed() < END, "{:?}", place.witness("desk"));
        std::thread::yield_now();
    }
    // The next call is asked as if nothing had been.
    let call = begin(&mut client, &json!({}));
    let question = asked(&mut client);
    say(&mut client, &question, &json!({"action": "decline"}));
    assert!(ended(&mut client, call).contains("decline: "));
    client.close().unwrap();
}

#[test]
fn a_person_fills_a_form_in_at_the_terminal_that_called() {
    for (place, words) in [(place(&[]), ""), (place(&[]), "--in-process ")] {
        let line = pentad(&format!("{words}call desk/elicit message=\"Who?\""));
        let mut terminal = AtTerminal::start(&place, &line);
        terminal.until("> Who?");
        terminal.until("Fill it in?");
        terminal.type_line("y");
        terminal.until("Full name (name): ");
        terminal.type_line("A");
        terminal.until("Full name (name): ");
        terminal.type_line("Ada");
        terminal.until("seats: ");
        terminal.type_line("");
        terminal.until("not shown: ");
        terminal.type_line("canary-pin");
        terminal.until("Send this?");
        terminal.type_line("y");
        let (done, said) = terminal.end();
        assert!(done && said.contains("accept: name seats pin_token"), "{said}");
        assert!(!said.contains("canary"), "{said}");
        let witness = place.witness("desk").concat();
        assert!(
            witness.contains("canary-pin") && witness.contains("\"seats\":2"),
            "{witness}"
        );
    }
}

#[test]
fn an_interrupted_command_leaves_its_form_and_the_terminal() {
    let place = place(&[]);
    let mut terminal = AtTerminal::start(&place, &pentad("call desk/elicit"));
    terminal.until("Fill it in?");
    let input = terminal.child.stdin.as_mut().unwrap();
    input.write_all(b"\x03").unwrap();
    input.flush().unwrap();
    let (done, said) = terminal.end();
    assert!(!done, "{said}");
    let start = Instant::now();
    while place.witnessed("desk", "stopped") == 0 {
        assert!(start.elapsed() < END, "{:?}", place.witness("desk"));
        std::thread::yield_now();
    }
}

#[test]
fn what_a_server_writes_to_stderr_during_a_call_is_journaled_with_its_run() {
    let place = place(&["--stderr", "canary-start"]);
    let mut secret = place
        .pentad(&["secret", "set", "desk"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    secret
        .stdin
        .take()
        .unwrap()
        .write_all(b"hunter2-hunter2")
        .unwrap();
    assert!(secret.wait().unwrap().success());
    let mut client = face(&place, false);
    let call = |client: &mut RawClient, said: &str| {
        let call = json!({"tool": "desk/stderr", "input": {"text": said}});
        client.call_text("call", &call).unwrap()
    };
    call(&mut client, "shown first is the contract");
    let many = (0..300)
        .map(|n| format!("line {n}"))
        .collect::<Vec<_>>()
        .join("\n");
    for said in ["the key is hunter2-hunter2\u{1b}[31m\n\n  indented", &many] {
        assert!(call(&mut client, said).contains("written"));
    }
    client.close().unwrap();
    place.stop();
    let lines = journaled(&place, "mcp:desk/stderr");
    assert!(
        lines[0].starts_with("the key is ") && lines[0].ends_with("\\u{1b}[31m"),
        "{lines:?}"
    );
    assert!(
        !lines.concat().contains("hunter2") && !lines.concat().contains("canary"),
        "{lines:?}"
    );
    assert_eq!((lines[1].as_str(), lines[2].as_str()), ("  indented", "line 0"));
    assert_eq!(lines.len(), 2 + 201);
    assert_eq!(lines.last().unwrap(), "100 further lines were not kept");
}
