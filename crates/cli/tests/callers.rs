//! Servers that depend on the variables of whoever calls, through one keeper.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use std::path::Path;
use std::process::Command;

use common::{CLIENT, MARK, Place, Reading, SESSION, binary, text};
use pentad_model::EventBody;
use pentad_testkit::client::RawClient;
use serde_json::{Value, json};

use crate::common::up::Up;

/// Starts a face with these variables besides those of the place.
fn face(place: &Place, variables: &[(&str, &str)]) -> RawClient {
    let mut env = place.env();
    let more = variables.iter();
    env.extend(more.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    let mut face = RawClient::start(&binary(), ["mcp"], &env, &place.path("work")).unwrap();
    face.initialize(SESSION, CLIENT).unwrap();
    face
}

/// Asks a fixture server for one of its variables; a first call shows the contract.
fn shown(face: &mut RawClient, server: &str, name: &str) -> String {
    let call = json!({"tool": format!("{server}/environment"), "input": {"name": name}});
    let said = face.call("call", &call).unwrap();
    let said = said["content"][0]["text"].as_str().unwrap().to_owned();
    if !said.starts_with("Not called yet") {
        return said;
    }
    let said = face.call("call", &call).unwrap();
    said["content"][0]["text"].as_str().unwrap().to_owned()
}

/// Runs a command of the shell with these variables and returns its exit code and what it printed.
fn run(place: &Place, words: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut command = place.pentad(words);
    let output = command.envs(variables.iter().copied()).output().unwrap();
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    (
        output.status.code(),
        out + &String::from_utf8_lossy(&output.stderr),
    )
}

/// Returns every file below a folder that holds `needle`.
fn holding(folder: &Path, needle: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(holding(&path, needle));
        } else if let Ok(bytes) = std::fs::read(&path)
            && bytes.windows(needle.len()).any(|part| part == needle.as_bytes())
        {
            found.push(text(&path));
        }
    }
    found
}

#[test]
fn each_face_has_its_own_value_and_equal_values_share_one_process() {
    let place = Place::new();
    place.fixture_server(
        "mine",
        &["--stderr", "begins"],
        "env = {WHO = \"${env:WHO}\", TOKEN = \"${env:TOKEN}\"}",
    );
    place.fixture_server("ours", &[], "");
    place.grant(CLIENT, &["call:mine", "call:ours"]);
    let ada: &[_] = &[("WHO", "ada"), ("TOKEN", "canary-token-of-ada")];
    let bob: &[_] = &[("WHO", "bob"), ("TOKEN", "canary-token-of-bob")];
    let mut first = face(&place, ada);
    assert_eq!(shown(&mut first, "mine", "WHO"), "ada");
    let mut second = face(&place, bob);
    assert_eq!(shown(&mut second, "mine", "WHO"), "bob");
    assert_eq!(shown(&mut first, "mine", "WHO"), "ada");
    let mut third = face(&place, ada);
    assert_eq!(shown(&mut third, "mine", "WHO"), "ada");
    assert_eq!(place.witnessed("mine", "start"), 2, "{:?}", place.witness("mine"));
    for face in [&mut first, &mut second, &mut third] {
        shown(face, "ours", "WHO");
    }
    assert_eq!(place.witnessed("ours", "start"), 1, "nothing of it differs");

    let listing = first.call_text("read", &json!({"address": "~/tools/"})).unwrap();
    assert!(
        listing.contains("## mine (") && listing.contains("; 2 copies)"),
        "{listing}"
    );
    let (_, findings) = run(&place, &["doctor"], &[]);
    assert!(findings.contains("mine: 2 copies"), "{findings}");

    // Who does not have a variable gets nobody else's.
    let mut nobody = face(&place, &[("WHO", "nobody")]);
    let refused = shown(&mut nobody, "mine", "WHO");
    insta::assert_snapshot!(refused);
    // The shell is a face, too.
    let (code, said) = run(&place, &["call", "mine/environment", "name=WHO"], bob);
    assert_eq!((code, said.trim()), (Some(0), "bob"));
    assert_eq!(place.witnessed("mine", "start"), 2);
    for face in [first, second, third, nobody] {
        face.close().unwrap();
    }
    place.assert_nobody_is_left("every copy ends with its keeper");
    assert_eq!(holding(&place.home(), "canary-token"), Vec::<String>::new());
}

#[test]
fn declared_variables_come_from_whoever_calls() {
    let place = Place::new();
    place.fixture_server("inherits", &[], "env = {FIXED = \"same\"}");
    place.grant(CLIENT, &["call:inherits"]);
    let file = place.path("home/config.toml");
    let config = std::fs::read_to_string(&file).unwrap();
    let declared = format!("names = [\"{MARK}\", \"TEAM\", \"FIXED\"]");
    let before = format!("names = [\"{MARK}\"]");
    assert!(config.contains(&before));
    let mut red = face(&place, &[("TEAM", "red"), ("FIXED", "counts not")]);
    assert_eq!(shown(&mut red, "inherits", "TEAM"), "unset");
    // A name that is declared from now on is asked for and passed on from now on.
    std::fs::write(&file, config.replace(&before, &declared)).unwrap();
    let mut blue = face(&place, &[("TEAM", "blue")]);
    assert_eq!(shown(&mut blue, "inherits", "TEAM"), "blue");
    assert_eq!(shown(&mut red, "inherits", "TEAM"), "red");
    assert_eq!(shown(&mut red, "inherits", "FIXED"), "same");
    let mut also_blue = face(&place, &[("TEAM", "blue"), ("FIXED", "counts not")]);
    assert_eq!(shown(&mut also_blue, "inherits", "TEAM"), "blue");
    assert_eq!(
        place.witnessed("inherits", "start"),
        3,
        "without the name, red and blue: {:?}",
        place.witness("inherits")
    );
    for face in [red, blue, also_blue] {
        face.close().unwrap();
    }
}

/// Lets a person at a terminal grant what a refusal asks for, always; returns the approval's id.
fn grant(place: &Place, refusal: &str) -> String {
    let (_, rest) = refusal
        .rsplit_once("approval:")
        .unwrap_or_else(|| panic!("{refusal}"));
    let id: String = rest.chars().take_while(char::is_ascii_alphanumeric).collect();
    let line = format!("{} approvals grant {id} --always", binary().display());
    let granted = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .env_clear()
        .envs(place.env())
        .current_dir(place.path("work"))
        .output()
        .unwrap();
    let screen = String::from_utf8_lossy(&granted.stdout);
    assert!(granted.status.success(), "{screen}");
    id
}

/// Reads the resource that a fixture server has.
fn memo(face: &mut RawClient, server: &str) -> String {
    let read = json!({"address": format!("mcp:{server}/memo://one")});
    let said = face.call("read", &read).unwrap();
    said["content"][0]["text"].as_str().unwrap().to_owned()
}

#[test]
fn an_approval_holds_for_callers_with_the_variables_it_was_given_for() {
    let place = Place::new();
    place.fixture_server("mine", &[], "env = {WHO = \"${env:WHO}\"}");
    let mut ada = face(&place, &[("WHO", "ada")]);
    let to_call = grant(&place, &shown(&mut ada, "mine", "WHO"));
    assert_eq!(shown(&mut ada, "mine", "WHO"), "ada");
    let to_read = grant(&place, &memo(&mut ada, "mine"));
    assert!(memo(&mut ada, "mine").contains("a memo"));

    let mut bob = face(&place, &[("WHO", "bob")]);
    for (asked, id) in [
        (shown(&mut bob, "mine", "WHO"), &to_call),
        (memo(&mut bob, "mine"), &to_read),
    ] {
        assert!(
            asked.contains("approval:") && !asked.contains(id) && asked.contains("has changed since"),
            "{asked}"
        );
    }
    let mut also_ada = face(&place, &[("WHO", "ada")]);
    assert_eq!(shown(&mut also_ada, "mine", "WHO"), "ada");
    assert!(memo(&mut also_ada, "mine").contains("a memo"));
    for face in [ada, bob, also_ada] {
        face.close().unwrap();
    }
    // What is journaled of the intent is bound to the variables, and names none of them.
    place.stop();
    let intents: Vec<String> = Reading::of(&place)
        .whole()
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::Intent { closure, .. } => Some(closure.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(intents.len(), 2);
    assert_eq!(intents[0], intents[1]);
}

#[test]
fn http_has_the_variables_of_whoever_opened_it() {
    let place = Place::new();
    place.fixture_server("mine", &[], "env = {WHO = \"${env:WHO}\"}");
    let mut other = face(&place, &[("WHO", "another face")]);
    other.call_text("read", &json!({"address": "~/self"})).unwrap();
    let up = Up::start_with_variables(&place, &["--client", "web"], &[("WHO", "who opened it")]);
    let body = json!({"verb": "call", "arguments": {"tool": "mine/environment", "input": {"name": "WHO"}}});
    let authorization = up.token("person");
    let headers = [
        ("Authorization", authorization.as_str()),
        ("Content-Type", "application/json"),
    ];
    let answer = up.ask("POST", "/api/v1/invoke", &headers, &body.to_string());
    assert!(answer.contains("who opened it"), "{answer}");
    up.end();
    other.close().unwrap();
}

#[test]
fn m10_a_person_asks_for_a_failing_server_again() {
    let place = Place::new();
    let licence = place.path("licence");
    let fixture = pentad_testkit::binaries::fixture("fixture-mcp-server").unwrap();
    let script = format!(
        "test -e {licence} || {{ echo \"no licence for $WHO\" >&2; exit 3; }}; exec {fixture}",
        licence = text(&licence),
        fixture = text(&fixture)
    );
    place.server("picky", &["sh", "-c", &script], "env = {WHO = \"${env:WHO}\"}");
    place.server("keyless", &["sh"], "env = {KEY = \"${secret:missing}\"}");
    let who: &[_] = &[("WHO", "canary-who")];
    let (code, _) = run(&place, &["call", "picky/echo", "text=hi"], who);
    assert_ne!(code, Some(0));
    let (_, held_back) = run(&place, &["call", "picky/echo", "text=hi"], who);
    assert!(held_back.contains("tried again in"), "{held_back}");

    let again = ["connect", "picky", "--again"];
    let mut said = Vec::new();
    for (words, variables) in [
        (&again, who),
        (&again, &[][..]),
        (&["connect", "nobody", "--again"], who),
        (&["connect", "keyless", "--again"], who),
    ] {
        let (code, text) = run(&place, words, variables);
        assert_eq!(code, Some(1), "{text}");
        said.push(format!("pentad {}\n{text}", words.join(" ")));
    }
    insta::assert_snapshot!(said.join("\n"));
    let agent = [who, &[("CLAUDECODE", "1")][..]].concat();
    let (code, text) = run(&place, &again, &agent);
    assert_eq!(code, Some(3), "{text}");

    std::fs::write(&licence, "").unwrap();
    let (code, text) = run(&place, &again, who);
    assert!(code == Some(0) && text.starts_with("Started picky: "), "{text}");
    let (code, text) = run(&place, &["connect", "picky", "--again", "--json"], who);
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &value["copies"]), (Some(0), &json!(1)), "{value}");
    let (code, text) = run(&place, &["call", "picky/echo", "text=hi"], who);
    assert_eq!((code, text.trim()), (Some(0), "hi"));
}
