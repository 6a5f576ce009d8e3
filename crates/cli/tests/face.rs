//! The faces of one home as a client and a person meet them: stdio MCP, HTTP, changes while they run.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use std::io::Write as _;
use std::process::Stdio;

use common::up::Up;
use common::{CLIENT, MARK, Place, SESSION, text};
use pentad_testkit::client::RawClient;
use serde_json::json;

fn tools_list(face: &mut RawClient) -> String {
    face.request("tools/list", &json!({})).unwrap()["result"]["tools"].to_string()
}

fn read(face: &mut RawClient, address: &str) -> String {
    face.call_text("read", &json!({"address": address})).unwrap()
}

#[test]
fn n01_p20_fifty_servers_change_no_byte_of_the_payload_and_none_is_started() {
    let empty = Place::new();
    let mut face = empty.face();
    let alone = tools_list(&mut face);
    face.close().unwrap();

    let full = Place::new();
    for n in 0..50 {
        full.fixture_server(&format!("server-{n}"), &["--odd-names"], "");
    }
    let mut face = full.face();
    assert_eq!(tools_list(&mut face), alone);
    assert!(alone.len() <= pentad_model::contract::MAX_PAYLOAD_BYTES);
    let listing = read(&mut face, "~/tools/");
    assert!(listing.contains("server-49"), "{listing}");
    for n in 0..50 {
        assert!(
            full.witness(&format!("server-{n}")).is_empty(),
            "server-{n} was started by a look at the list"
        );
    }
    // The first look into one of them starts that one; with it, all of its names are callable by address.
    let tools = read(&mut face, "~/tools/server-7/");
    assert!(tools.lines().count() > 5, "{tools}");
    assert_eq!(
        full.witnessed("server-7", "start"),
        1,
        "{:?}",
        full.witness("server-7")
    );
    assert!(full.witness("server-8").is_empty());
    assert_eq!(tools_list(&mut face), alone);
    face.close().unwrap();
    full.assert_nobody_is_left("after the face");
}

#[test]
fn three_conversations_of_one_face_share_one_server() {
    let place = Place::new();
    place.fixture_server("shared", &[], "");
    place.grant(CLIENT, &["call:shared"]);
    let mut face = place.face();
    for title in ["one", "two", "three"] {
        let plan = face
            .call("plan", &json!({"title": title, "steps": ["a"]}))
            .unwrap();
        let thread = plan["structuredContent"]["thread"].clone();
        let call = json!({"tool": "shared/echo", "input": {"text": title}, "thread": thread});
        let contract = face.call_text("call", &call).unwrap();
        assert!(contract.starts_with("Not called yet"), "{contract}");
        assert_eq!(face.call_text("call", &call).unwrap(), title);
    }
    assert_eq!(
        place.witnessed("shared", "start"),
        1,
        "{:?}",
        place.witness("shared")
    );
    face.close().unwrap();
    place.assert_nobody_is_left("after the face");
}

#[test]
fn a_saved_recipe_a_connected_server_and_a_policy_are_there_without_a_restart() {
    let place = Place::new();
    place.grant(CLIENT, &["call:recipes", "call:late"]);
    let mut face = place.face();
    assert!(read(&mut face, "~/tools/hello").contains("There is no tool"));

    place.recipe("hello", "echo hello {name=world}", &["name"]);
    place.recipe("other", "echo other", &[]);
    let call = json!({"tool": "hello", "input": {"name": "you"}});
    until(&mut face, |face| {
        read(face, "~/tools/hello").contains("# recipes/hello")
    });
    assert_eq!(face.call_text("call", &call).unwrap().trim(), "hello you");

    std::fs::write(place.path("home/recipes/broken.json"), "{").unwrap();
    until(&mut face, |face| read(face, "~/tools/").contains("broken.json"));
    assert!(
        face.call_text("call", &call).unwrap().contains("hello you"),
        "a broken file hides no other"
    );

    place.fixture_server("late", &[], "");
    until(&mut face, |face| read(face, "~/tools/late/").contains("echo"));
    std::fs::write(
        place.path("home/policy.toml"),
        "deny = [\"call:recipes/hello\"]\n",
    )
    .unwrap();
    until(&mut face, |face| {
        !face.call_text("call", &call).unwrap().contains("hello you")
    });
    std::fs::write(place.path("home/policy.toml"), "deny = [\n").unwrap();
    read(&mut face, "~/tools/");
    assert!(
        !face.call_text("call", &call).unwrap().contains("hello you"),
        "a broken policy allows nothing new"
    );
    face.close().unwrap();
    place.assert_nobody_is_left("after the face");
}

/// Asks until it is so. Each question is a round trip to the face, so this waits on its work, not on a clock.
fn until(face: &mut RawClient, so: impl Fn(&mut RawClient) -> bool) {
    for _ in 0..2_000 {
        if so(face) {
            return;
        }
    }
    panic!("it never became so");
}

#[test]
fn no_secret_value_stands_anywhere_but_in_the_secret_store() {
    const CANARY: &str = "canary-4b1d-swordfish";
    let place = Place::new();
    let mut set = place
        .pentad(&["secret", "set", "github"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    set.stdin.take().unwrap().write_all(CANARY.as_bytes()).unwrap();
    assert!(set.wait().unwrap().success());
    place.fixture_server(
        "keeps",
        &["--stderr", CANARY],
        "env = { TOKEN = \"${secret:github}\" }",
    );
    place.grant(CLIENT, &["call:keeps"]);
    let mut face = place.face();
    let mut said = Vec::new();
    for (tool, input) in [
        ("environment", json!({"name": "TOKEN"})),
        ("echo", json!({"text": CANARY})),
        ("stderr", json!({"text": CANARY})),
        ("die", json!({"text": CANARY})),
        (CANARY, json!({})),
    ] {
        let call = json!({"tool": format!("keeps/{tool}"), "input": input});
        said.push(face.call("call", &call).unwrap().to_string());
        said.push(face.call("call", &call).unwrap().to_string());
    }
    said.push(read(&mut face, "~/tools/keeps/"));
    said.push(read(&mut face, "activity:"));
    assert!(said.iter().any(|text| text.contains("[secret]")), "{said:?}");
    for text in &said {
        assert!(!text.contains(CANARY), "{text}");
    }
    face.close().unwrap();
    let mut grep = std::process::Command::new("grep");
    grep.args(["-rlaF", CANARY])
        .arg(place.home())
        .arg("--exclude-dir=keys");
    let found = grep.output().unwrap();
    let config = String::from_utf8_lossy(&found.stdout).replace(&text(&place.path("home/config.toml")), "");
    assert_eq!(
        config.trim(),
        "",
        "only the configuration that this test wrote has it"
    );
}

#[test]
fn m06_a_home_that_cannot_be_used_answers_at_once_and_says_why_when_asked() {
    let place = Place::new();
    place.configure("\n[servers.x]\ncomand = \"y\"\n");
    let mut face = place.face();
    assert!(tools_list(&mut face).contains("delegate"));
    let why = read(&mut face, "~/self");
    assert!(
        why.contains("config.toml") && why.contains("did you mean 'command'"),
        "{why}"
    );
    face.close().unwrap();

    let newer = Place::new();
    drop(newer.face().close());
    let mut face = newer.face();
    read(&mut face, "~/self");
    face.close().unwrap();
    newer.stop();
    let database = newer.path("home/state/pentad.db");
    let script = "import sqlite3,sys; c=sqlite3.connect(sys.argv[1]); c.execute('pragma user_version=9999'); c.close()";
    assert!(
        std::process::Command::new("python3")
            .args(["-c", script])
            .arg(&database)
            .status()
            .unwrap()
            .success()
    );
    let before = std::fs::read(&database).unwrap();
    let mut face = newer.face();
    let why = read(&mut face, "~/self");
    assert!(why.contains("pentad.db") && why.contains("newer"), "{why}");
    face.close().unwrap();
    assert_eq!(
        std::fs::read(&database).unwrap(),
        before,
        "a newer database is not touched"
    );
}

#[test]
fn the_same_verbs_over_http() {
    let place = Place::new();
    place.recipe("hello", "echo hello {name}", &["name"]);
    let up = Up::start(&place);
    let body = json!({"verb": "call", "arguments": {"tool": "hello", "input": {"name": "http"}}}).to_string();
    let json_type = ("Content-Type", "application/json");
    let person = up.token("person");
    let said = up.ask(
        "POST",
        "/api/v1/invoke",
        &[json_type, ("Authorization", &person)],
        &body,
    );
    assert!(
        said.starts_with("HTTP/1.1 200") && said.contains("hello http"),
        "{said}"
    );

    let client = up.token("web");
    let said = up.ask(
        "POST",
        "/api/v1/invoke",
        &[json_type, ("Authorization", &client)],
        &body,
    );
    assert!(
        said.contains("Not called yet"),
        "a client is a client here, too: {said}"
    );
    assert!(
        up.ask("POST", "/api/v1/invoke", &[json_type], &body)
            .starts_with("HTTP/1.1 401")
    );
    let rebound = [
        json_type,
        ("Authorization", person.as_str()),
        ("Host", "evil.example:80"),
    ];
    let said = up.ask("POST", "/api/v1/invoke", &rebound, &body);
    assert!(said.starts_with("HTTP/1.1 4"), "{said}");
    let foreign = [
        json_type,
        ("Authorization", person.as_str()),
        ("Origin", "https://evil.example"),
    ];
    assert!(
        up.ask("POST", "/api/v1/invoke", &foreign, &body)
            .starts_with("HTTP/1.1 403")
    );
    assert!(
        up.ask("POST", "/mcp", &[json_type], "{}")
            .starts_with("HTTP/1.1 401")
    );

    // Another one beside it is served by the same process, with tokens of its own, and ends alone.
    let second = Up::start(&place);
    let other = second.token("person");
    for (server, token, status) in [(&second, &other, 200), (&up, &person, 200), (&up, &other, 401)] {
        let said = server.ask(
            "POST",
            "/api/v1/invoke",
            &[json_type, ("Authorization", token)],
            &body,
        );
        assert!(said.starts_with(&format!("HTTP/1.1 {status}")), "{said}");
    }
    let place_taken = up.authority().rsplit(':').next().unwrap().to_owned();
    let refused = place.pentad(&["up", "--port", &place_taken]).output().unwrap();
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && why.contains("in use"), "{why}");
    second.end();
    assert!(up.ask("GET", "/healthz", &[], "").starts_with("HTTP/1.1 200"));
    let events = place.pentad(&["log", "--json", "-n", "100"]).output().unwrap();
    assert!(String::from_utf8_lossy(&events.stdout).contains("client:web"));
    up.end();
    place.assert_nobody_is_left("after pentad up");
}

#[test]
fn an_attached_file_is_read_by_its_address_from_anywhere() {
    let place = Place::new();
    std::fs::write(place.path("work/note.txt"), "attached words\n").unwrap();
    let out = place.pentad(&["attach", "note.txt"]).output().unwrap();
    let printed = String::from_utf8_lossy(&out.stdout).into_owned();
    let address = printed
        .split_whitespace()
        .find(|word| word.starts_with("attachment:"))
        .unwrap()
        .to_owned();
    let mut face = place.face();
    assert!(read(&mut face, &address).contains("attached words"));
    let write = json!({"address": "~/memory/copy.txt", "options": {"fromAttachment": address.trim_start_matches("attachment:")}});
    face.call_text("write", &write).unwrap();
    assert_eq!(read(&mut face, "~/memory/copy.txt").trim(), "attached words");
    face.close().unwrap();
}

#[test]
fn a_client_of_each_revision_gets_the_same_five_tools() {
    let place = Place::new();
    let mut lists = Vec::new();
    for version in ["2025-06-18", SESSION] {
        let mut face = place.raw_face(&[]);
        let answer = face.initialize(version, CLIENT).unwrap();
        assert_eq!(answer["result"]["protocolVersion"], version);
        lists.push(tools_list(&mut face));
        face.close().unwrap();
    }
    let mut stateless = place.raw_face(&[]);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": CLIENT, "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let answer = stateless.request("tools/list", &json!({"_meta": meta})).unwrap();
    assert!(
        answer["result"]["ttlMs"].as_u64().unwrap() >= 3_600_000,
        "{answer}"
    );
    // Apart from the marks of what travels as a header, which older revisions do not know.
    let marked = answer["result"]["tools"].to_string();
    let plain = ["Address", "Tool"].iter().fold(marked.clone(), |list, header| {
        list.replace(&format!(",\"x-mcp-header\":\"{header}\""), "")
    });
    assert_ne!(plain, marked);
    lists.push(plain);
    stateless.close().unwrap();
    assert!(lists.iter().all(|list| *list == lists[0]));
    let _ = MARK;
}
