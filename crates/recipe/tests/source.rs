//! Recipes as a source of tools.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    missing_docs
)]

mod common;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{call, echoes};
use pentad_model::{RefusalKind, ToolDocument};
use pentad_process::{Spawner, SpawnerProgram};
use pentad_program::{Content, ToolAuthor, ToolFailure, ToolSource};
use pentad_recipe::{
    Imports, Launchers, Library, OutputBounds, ProcessLaunchers, RecipeSource, Registration, Root, RootKind,
};
use serde_json::json;

fn open(dir: &Path, launchers: Arc<dyn Launchers>) -> RecipeSource {
    RecipeSource::open(
        "recipes",
        vec![Root::at(dir, RootKind::User)],
        Imports::default(),
        launchers,
    )
}

fn document(source: &dyn ToolSource, name: &str) -> Arc<ToolDocument> {
    let documents = source.documents();
    Arc::clone(
        documents
            .iter()
            .find(|document| document.tool.name == name)
            .expect(name),
    )
}

fn names(source: &dyn ToolSource) -> Vec<String> {
    source
        .documents()
        .iter()
        .map(|document| document.tool.name.clone())
        .collect()
}

/// Waits until a condition holds, looking often; never longer than the limit of a test.
async fn until(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(20), "{what} never happened");
        tokio::task::yield_now().await;
        std::thread::yield_now();
    }
}

#[tokio::test]
async fn a_registered_tool_is_found_and_called_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let (echo, launchers) = echoes();
    let source = open(dir.path(), launchers);
    let before = source.generation();
    source
        .register_shorthand(
            "greet",
            "say 'hello {name}' {loud?--loud:}",
            Some("Greets."),
            false,
        )
        .await
        .unwrap();
    assert!(source.generation() > before);
    let greet = document(&source, "greet");
    assert_eq!(
        (greet.summary.as_str(), greet.tool.source.as_str()),
        ("Greets.", "recipes")
    );
    let output = source
        .call(call(&greet, json!({"name": "Ann; rm -rf /"}), dir.path()))
        .await
        .unwrap();
    assert_eq!(
        output.content,
        vec![Content::Text("say hello Ann; rm -rf /".to_owned())]
    );
    assert_eq!(
        *echo.seen.lock().unwrap(),
        vec![vec!["say", "hello Ann; rm -rf /"]]
    );
    source.delete("greet", false).await.unwrap();
    assert!(names(&source).is_empty());
}

#[tokio::test]
async fn d11_a_call_keeps_to_the_text_that_was_judged() {
    let dir = tempfile::tempdir().unwrap();
    let (echo, launchers) = echoes();
    let source = open(dir.path(), launchers);
    source
        .register_shorthand("t", "safe", Some("D."), false)
        .await
        .unwrap();
    let judged = document(&source, "t");
    fs::write(
        dir.path().join("t.json"),
        r#"{"description": "D.", "template": "dangerous"}"#,
    )
    .unwrap();
    let refused = source
        .call(call(&judged, json!({}), dir.path()))
        .await
        .unwrap_err();
    let ToolFailure::Refused(refusal) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(refusal.kind, RefusalKind::Conflict);
    assert!(echo.seen.lock().unwrap().is_empty());
}

#[tokio::test]
async fn bad_input_and_code_are_refused_with_the_next_step() {
    let dir = tempfile::tempdir().unwrap();
    let (_, launchers) = echoes();
    let source = open(dir.path(), launchers);
    source
        .write(
            "add",
            "---\ndescription: Adds.\n---\n```python lambda\nreturn 1\n```\n",
            false,
        )
        .await
        .unwrap();
    source
        .register_shorthand("t", "x {n:int}", Some("D."), false)
        .await
        .unwrap();
    let mut texts = Vec::new();
    for (name, input) in [("t", json!({"n": "many"})), ("t", json!({})), ("add", json!({}))] {
        let refused = source
            .call(call(&document(&source, name), input, dir.path()))
            .await
            .unwrap_err();
        let ToolFailure::Refused(refusal) = refused else {
            panic!("{refused:?}")
        };
        texts.push(format!("{} {}", refusal.kind.status(), refusal.to_text()));
    }
    insta::assert_snapshot!(texts.join("\n\n"));
}

#[tokio::test]
async fn f06_f07_without_a_watch_each_read_looks_at_the_files() {
    let dir = tempfile::tempdir().unwrap();
    let (_, launchers) = echoes();
    let source = open(&dir.path().join("later"), launchers);
    assert!(names(&source).is_empty());
    fs::create_dir(dir.path().join("later")).unwrap();
    fs::write(dir.path().join("later/a.json"), r#"{"template": "x"}"#).unwrap();
    assert_eq!(names(&source), ["a"]);
    let generation = source.generation();
    assert_eq!(source.generation(), generation, "nothing changed");
    fs::write(dir.path().join("later/a.json"), r#"{"template": "y"}"#).unwrap();
    assert_ne!(source.generation(), generation);
}

#[tokio::test]
async fn many_files_are_read_whole_and_in_order_and_again_only_when_told() {
    let dir = tempfile::tempdir().unwrap();
    let expected: Vec<String> = (0..300).map(|n| format!("t{n:03}")).collect();
    for name in &expected {
        fs::write(
            dir.path().join(format!("{name}.json")),
            json!({"description": name, "template": "x"}).to_string(),
        )
        .unwrap();
    }
    let (_, launchers) = echoes();
    let source = open(dir.path(), launchers);
    assert_eq!(names(&source), expected);
    assert!(
        source
            .documents()
            .iter()
            .all(|document| document.description == document.tool.name)
    );
    source.look_when_told();
    let generation = source.generation();
    fs::write(dir.path().join("t300.json"), r#"{"template": "x"}"#).unwrap();
    assert_eq!(source.generation(), generation);
    assert_eq!(names(&source), expected);
    source.look_again();
    assert_eq!(names(&source).len(), 301);
}

#[tokio::test]
async fn a_watch_follows_a_root_that_comes_goes_and_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let (_, launchers) = echoes();
    let root = dir.path().join("not/yet");
    let source = open(&root, launchers);
    source.watch();
    for round in ["first", "second"] {
        fs::create_dir_all(&root).unwrap();
        fs::write(
            root.join("t.json"),
            json!({"description": round, "template": "x"}).to_string(),
        )
        .unwrap();
        until(round, || {
            source
                .documents()
                .iter()
                .any(|document| document.description == round)
        })
        .await;
        fs::write(
            root.join("t.json"),
            json!({"description": "edited", "template": "x"}).to_string(),
        )
        .unwrap();
        until("the edit", || {
            source
                .documents()
                .iter()
                .any(|document| document.description == "edited")
        })
        .await;
        fs::remove_dir_all(dir.path().join("not")).unwrap();
        until("the removal", || source.documents().is_empty()).await;
    }
    source.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn library_tools_parse_explain_and_are_described() {
    let (_, launchers) = echoes();
    let library = Library::open(launchers);
    assert_eq!(library.status().diagnostics, Vec::new());
    let mut lines = Vec::new();
    for tool in library.documents().iter() {
        let recipe = library.recipe(&tool.tool.name).unwrap();
        assert!(
            !recipe.description_derived && tool.description.len() > 20,
            "{}",
            tool.tool
        );
        assert!(tool.declared.read_only.is_some(), "{}", tool.tool);
        let required = recipe
            .interface
            .parameters
            .iter()
            .filter(|parameter| parameter.required);
        let input = required
            .map(|p| (p.name.clone(), json!(format!("<{}>", p.name))))
            .collect();
        let found = recipe
            .explain(
                &serde_json::Value::Object(input),
                &pentad_template::Site::default(),
            )
            .unwrap();
        assert!(
            found.iter().all(|command| command.argv.is_ok()),
            "{}: {found:?}",
            tool.tool
        );
        let commands: Vec<String> = found.iter().map(pentad_template::Explained::command).collect();
        let trusted = if tool.is_trusted_read_only() {
            " (trusted)"
        } else {
            ""
        };
        lines.push(format!("{}{trusted}: {}", tool.tool, commands.join(" | ")));
    }
    let sorted = names(&library);
    assert!(sorted.is_sorted() && sorted.len() >= 25);
    insta::assert_snapshot!(lines.join("\n"));
}

fn real_launchers() -> (Arc<Spawner>, Arc<dyn Launchers>) {
    let exe = env!("CARGO_BIN_EXE_pentad-recipe-fixture").into();
    let spawner = Arc::new(
        Spawner::launch(SpawnerProgram {
            exe,
            args: Vec::new(),
        })
        .unwrap(),
    );
    let env = BTreeMap::from([(
        OsString::from("PATH"),
        OsString::from("/usr/local/bin:/usr/bin:/bin"),
    )]);
    let bounds = OutputBounds {
        head_bytes: 1000,
        tail_bytes: 1000,
        spill_cap: 10_000_000,
    };
    let launchers = ProcessLaunchers::new(Arc::clone(&spawner), Arc::new(move |_| Ok(env.clone())), bounds);
    (spawner, Arc::new(launchers))
}

#[tokio::test]
async fn real_processes_get_their_words_hand_on_their_output_and_end_in_time() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("recipes");
    let (spawner, launchers) = real_launchers();
    let source = open(&root, launchers);
    let write = |name: &str, template: serde_json::Value| Registration {
        name: name.to_owned(),
        description: Some("D.".to_owned()),
        template: Some(template),
        ..Registration::default()
    };
    source
        .register(write("words", json!("printf '[%s]' {a} '' {b=x}")))
        .await
        .unwrap();
    source
        .register(write("long", json!(["seq 1 20000", "wc -l"])))
        .await
        .unwrap();
    source
        .register(write(
            "slow",
            json!({"timeout": 200, "template": "sh -c 'sleep 60 & sleep 60'"}),
        ))
        .await
        .unwrap();
    source
        .register(write("none", json!("no-such-program-here")))
        .await
        .unwrap();
    let run = async |name: &str, input| {
        source
            .call(call(&document(&source, name), input, dir.path()))
            .await
            .unwrap()
    };
    let text = |output: &pentad_program::ToolOutput| match &output.content[..] {
        [Content::Text(text)] => text.clone(),
        other => panic!("{other:?}"),
    };
    let hostile = "a\"b'; $(id) {x}\n日";
    assert_eq!(
        text(&run("words", json!({"a": hostile})).await),
        format!("[{hostile}][][x]")
    );
    assert_eq!(
        text(&run("long", json!({})).await),
        "20000",
        "more than is kept in memory"
    );
    let slow = run("slow", json!({})).await;
    assert!(
        slow.is_error && text(&slow).contains("(killed)"),
        "{}",
        text(&slow)
    );
    let none = run("none", json!({})).await;
    assert!(
        none.is_error
            && text(&none).starts_with("Exit code 127\n\nstderr:\nno-such-program-here: no such program")
    );
    spawner.shutdown(Duration::from_secs(10)).await;
}
