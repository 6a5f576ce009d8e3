//! Every client: what is shown, what is written, and that nothing secret is said.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod common;

use std::collections::BTreeMap;
use std::fs;

use common::Person;
use pentad_import::measure::Unknown;
use pentad_import::{Client, ClientFile, Insist, Payload, Plan, Planner, Scope, apply, show, undo};
use pentad_keeper::Config;

fn payload(plan: &Plan) -> Payload {
    Payload::of(plan.active(), &Unknown)
}

/// Imports a fixture and returns everything that a person would see or find.
fn imported(person: &Person, client: Client, scope: Scope, trust: bool) -> String {
    let path = person.fixture(client, scope);
    let before = fs::read(&path).unwrap();
    let file = ClientFile::of_client(client, scope, &person.around).unwrap();
    let plan = person.planner(trust).plan(file).unwrap();
    let shown = show::text(&plan, &payload(&plan));
    let data = show::value(&plan, &payload(&plan));
    assert_eq!(fs::read(&path).unwrap(), before, "showing changes nothing");
    assert!(person.config().is_empty());

    let applied = apply(&person.home, &plan, &BTreeMap::new()).unwrap();
    let (written, config) = (fs::read_to_string(&path).unwrap(), person.config());
    Config::load(&person.home).unwrap();
    for text in [
        &shown,
        &data.to_string(),
        &config,
        &format!("{plan:?} {applied:?}"),
    ] {
        assert!(!text.contains("canary"), "{text}");
    }
    assert!(
        person
            .secrets()
            .values()
            .all(|value| value.contains("canary") && value.len() < 60)
    );
    let secrets = format!("{:?}", person.secrets());
    assert_eq!(fs::read(&applied.backup).unwrap(), before);

    // A second look finds nothing to do, and undoing it gives every byte back.
    let file = ClientFile::of_client(client, scope, &person.around).unwrap();
    assert!(person.planner(false).plan(file).unwrap().is_empty());
    let undone = undo(&person.home, &path, Insist::No).unwrap();
    assert_eq!((undone.servers, undone.replaced), (applied.servers, None));
    assert_eq!(fs::read(&path).unwrap(), before);
    assert!(!applied.backup.exists());

    // What a client writes into its file meanwhile stays when the servers come back.
    let file = ClientFile::of_client(client, scope, &person.around).unwrap();
    let value = file.value.clone();
    let plan = person.planner(trust).plan(file).unwrap();
    apply(&person.home, &plan, &BTreeMap::new()).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let later = match path.extension().unwrap().to_str().unwrap() {
        "toml" => text + "\n[later]\nx = 1\n",
        "yaml" => text + "later: 1\n",
        _ => text.replacen('{', "{ \"later\": 1,", 1),
    };
    fs::write(&path, &later).unwrap();
    assert!(undo(&person.home, &path, Insist::No).is_err());
    assert!(undo(&person.home, &path, Insist::Merge).unwrap().merged);
    let mut merged = ClientFile::of_client(client, scope, &person.around)
        .unwrap()
        .value;
    assert!(merged.as_object_mut().unwrap().shift_remove("later").is_some());
    assert_eq!(merged, value);
    fs::write(&path, &before).unwrap();

    // Once more: the servers are there already, and no secret is made twice.
    let file = ClientFile::of_client(client, scope, &person.around).unwrap();
    let again = person.planner(false).plan(file).unwrap();
    assert_eq!(again.stored().count(), 0);
    apply(&person.home, &again, &BTreeMap::new()).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), written);
    if !trust {
        assert_eq!(person.config(), config);
    }

    let data = serde_json::to_string_pretty(&data).unwrap();
    person.hide(&format!(
        "=== shown\n{shown}=== json\n{data}\n=== config.toml\n{config}=== secrets\n{secrets}\n=== the client's file\n{written}"
    ))
}

#[test]
fn claude_code_moves_its_servers() {
    let person = Person::new();
    insta::assert_snapshot!(imported(&person, Client::ClaudeCode, Scope::User, false));
}

#[test]
fn claude_code_moves_the_servers_of_a_project() {
    let person = Person::new();
    insta::assert_snapshot!(imported(&person, Client::ClaudeCode, Scope::Project, false));
}

#[test]
fn claude_desktop_moves_its_servers() {
    let person = Person::new();
    insta::assert_snapshot!(imported(&person, Client::Claude, Scope::User, false));
}

#[test]
fn cursor_moves_its_servers() {
    let person = Person::new();
    insta::assert_snapshot!(imported(&person, Client::Cursor, Scope::User, false));
}

#[test]
fn vscode_moves_its_servers() {
    let person = Person::new();
    insta::assert_snapshot!(imported(&person, Client::VsCode, Scope::User, false));
}

#[test]
fn codex_moves_its_servers_and_keeps_standing() {
    let person = Person::new();
    insta::assert_snapshot!(imported(&person, Client::Codex, Scope::User, true));
}

#[test]
fn windsurf_moves_its_servers() {
    let person = Person::new();
    insta::assert_snapshot!(imported(&person, Client::Windsurf, Scope::User, false));
}

#[test]
fn goose_moves_its_servers() {
    let person = Person::new();
    insta::assert_snapshot!(imported(&person, Client::Goose, Scope::User, false));
}

#[test]
fn opencode_moves_its_servers() {
    let person = Person::new();
    insta::assert_snapshot!(imported(&person, Client::OpenCode, Scope::User, false));
}

#[test]
fn a_server_that_another_client_brought_is_used_again() {
    let person = Person::new();
    let file = person.around.home_dir.join("one.json");
    let text =
        r#"{"mcpServers": {"gh": {"command": "npx", "args": ["-y", "gh"], "env": {"GH_TOKEN": "canary"}}}}"#;
    fs::write(&file, text).unwrap();
    let planner = Planner {
        trust: false,
        ..person.planner(false)
    };
    let plan = planner.plan(ClientFile::recognised(&file).unwrap()).unwrap();
    apply(&person.home, &plan, &BTreeMap::new()).unwrap();

    let other = text.replace("\"gh\": {", "\"github\": {");
    fs::write(&file, &other).unwrap();
    let plan = planner.plan(ClientFile::recognised(&file).unwrap()).unwrap();
    assert_eq!(plan.servers[0].server(), Some("gh"));
    // Another account is another server, and its key another secret.
    fs::write(&file, text.replace("canary", "canary-two")).unwrap();
    let plan = planner.plan(ClientFile::recognised(&file).unwrap()).unwrap();
    assert_eq!(plan.servers[0].server(), Some("gh-2"));
    assert_eq!(
        plan.stored().map(ToString::to_string).collect::<Vec<_>>(),
        ["gh-token-2"]
    );
    insta::assert_snapshot!(person.hide(&show::text(&plan, &payload(&plan))));
}

#[test]
fn another_home_is_named_to_the_client() {
    let person = Person::new();
    person.fixture(Client::Windsurf, Scope::User);
    let home = pentad_keeper::Home::locate(Some(&person.around.home_dir.join("other")), None, None).unwrap();
    home.prepare().unwrap();
    let file = ClientFile::of_client(Client::Windsurf, Scope::User, &person.around).unwrap();
    let planner = Planner {
        home: &home,
        ..person.planner(false)
    };
    let command = planner.plan(file).unwrap().command;
    let other = home.path().to_str().unwrap();
    assert_eq!(
        command,
        ["pentad", "mcp", "--home", other, "--client", "windsurf"]
    );
}

#[test]
fn the_second_form_of_opencode_and_settings_of_an_editor_are_known() {
    let person = Person::new();
    for (text, entry) in [
        (
            r#"{"mcp": {"servers": {"a": {"type": "local", "command": ["a"], "disabled": true}}}}"#,
            r#"{"mcp": {"servers": {"pentad": {"type":"local","command":["pentad","mcp","--client","opencode"]}}}}"#,
        ),
        (
            r#"{"x": 1, "mcp": {"inputs": [], "servers": {"a": {"command": "a"}}}}"#,
            r#"{"x": 1, "mcp": {"inputs": [], "servers": {"pentad": {"type":"stdio","command":"pentad","args":["mcp","--client","vscode"]}}}}"#,
        ),
    ] {
        let path = person.around.home_dir.join("settings.json");
        fs::write(&path, text).unwrap();
        let plan = person
            .planner(false)
            .plan(ClientFile::recognised(&path).unwrap())
            .unwrap();
        apply(&person.home, &plan, &BTreeMap::new()).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), entry);
    }
}
