//! Reading tool files: front matter, fields, lambdas, roots.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    missing_docs
)]

use std::fs;

use pentad_program::Severity;
use pentad_recipe::{
    Body, Form, Imports, InvalidRecipe, Place, RawFile, Recipe, Root, RootFormat, RootKind, Scanner, State,
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn front(text: &str) -> (Value, Vec<String>) {
    let file = format!("---\n{text}\n---\n```template\nx\n```\n");
    let mut raw = RawFile::read(Form::Markdown, file.as_bytes()).unwrap();
    raw.fields.remove("template");
    (
        Value::Object(raw.fields),
        raw.notes.into_iter().map(|note| note.message).collect(),
    )
}

fn read(form: Form, text: &str) -> Result<Recipe, InvalidRecipe> {
    let place = Place {
        path: Some("/root/tool.md".into()),
        format: RootFormat::Pentad,
    };
    Recipe::read("tool", place, form, text.as_bytes(), &Imports::default())
}

fn told(recipe: &Result<Recipe, InvalidRecipe>) -> String {
    let notes = match recipe {
        Ok(recipe) => &recipe.notes,
        Err(invalid) => &invalid.notes,
    };
    notes
        .iter()
        .map(|note| format!("{:?}: {}\n", note.severity, note.message))
        .collect()
}

#[test]
fn the_line_grammar_comes_first_and_yaml_takes_what_is_indented() {
    let (fields, notes) = front(
        "a: 1\nb: -2.5\nc: true\nd: null\ne: plain text: with colon\nf: \"quoted\"\ng: [1, 2]\nh: {\"k\": 1}\ni: {not json}\nj:\nk: yes\n# comment\n\nlist:\n  - one\n  - 2\npairs:\n  x: 1\n  deep:\n    y: two\ntext: |\n  first\n  second\ndeeper:\n  - name: n\n    more:\n      - z",
    );
    assert_eq!(
        fields,
        json!({
            "a": 1, "b": -2.5, "c": true, "d": null, "e": "plain text: with colon", "f": "quoted", "g": [1, 2],
            "h": {"k": 1}, "i": "{not json}", "j": "", "k": "yes", "list": ["one", 2],
            "pairs": {"x": 1, "deep": {"y": "two"}}, "text": "first\nsecond\n",
            "deeper": [{"name": "n", "more": ["z"]}]
        })
    );
    assert_eq!(notes, Vec::<String>::new());
}

#[test]
fn where_the_readings_differ_the_grammar_wins_and_says_so() {
    let (fields, notes) = front("a: text # remark\nb: 'it''s'\nc: 0x10\n\"odd key\": 3\nnonsense");
    assert_eq!(fields, json!({"a": "text # remark", "b": "it''s", "c": "0x10"}));
    insta::assert_snapshot!(notes.join("\n"), @r#"
    a reads as "text # remark"; as YAML it would be "text". Quote it to be sure.
    b reads as "it''s"; as YAML it would be "it's". Quote it to be sure.
    c reads as "0x10"; as YAML it would be 16. Quote it to be sure.
    Front matter line 5, 6 is not understood and has no effect; write key: value.
    "#);
    let (adopted, quiet) = front("a: 1\n\"odd key\": 3");
    assert_eq!((adopted, quiet), (json!({"a": 1, "odd key": 3}), Vec::new()));
}

#[test]
fn every_field_that_has_no_effect_is_reported() {
    let recipe = read(
        Form::Json,
        r#"{"description": 5, "disabled": "no", "template": {"template": "bash -c {x}", "retries": 3}, "colour": 1,
            "mailbox": {}, "artifacts": {"a": 1, "b": "out.txt"}, "hints": {"readonly": true}, "args": ["x:text"],
            "imports": [], "async": true}"#,
    );
    insta::assert_snapshot!(told(&recipe));
    assert_eq!(recipe.unwrap().description, "Runs `bash -c {x}`.");
}

#[test]
fn what_cannot_run_says_why() {
    let lines: Vec<String> = [
        (Form::Json, r#"{"template": ["a", ["b"]], "retry": 0}"#),
        (Form::Json, r#"{"template": "x", "env": {"TOKEN": "secret"}}"#),
        (
            Form::Json,
            r#"{"template": "x", "defaults": {"recipe_dir": "/"}}"#,
        ),
        (Form::Json, r#"{"source": "return 1"}"#),
        (Form::Json, "{"),
        (
            Form::Markdown,
            "---\nx: 1\n---\n```template\na\n```\n```js lambda\nb\n```\n",
        ),
        (Form::Markdown, "---\nx: 1\n---\n```json\n{\n```\n"),
        (Form::Markdown, "hello"),
    ]
    .into_iter()
    .map(|(form, text)| read(form, text).unwrap_err().to_string())
    .collect();
    insta::assert_snapshot!(lines.join("\n"));
    let long = format!("{{\"template\": \"{}\"}}", "x".repeat(1024 * 1024));
    assert!(
        read(Form::Json, &long)
            .unwrap_err()
            .to_string()
            .contains("has at most 1048576")
    );
}

#[test]
fn a_fence_with_code_is_a_lambda_with_a_contract() {
    let text = "---\ndescription: Adds.\nargs:\n  - a:int\n  - b:int=2\n---\nHow it works.\n\n```js lambda\nreturn a + b;\n```\n";
    let recipe = read(Form::Markdown, text).unwrap();
    let Body::Lambda(lambda) = &recipe.body else {
        panic!("no lambda")
    };
    assert_eq!(
        (lambda.runtime.as_str(), lambda.source.as_str()),
        ("js", "return a + b;")
    );
    let document = recipe.document("recipes");
    assert_eq!(
        document.input["properties"]["b"],
        json!({"type": "integer", "default": 2})
    );
    assert_eq!(
        document.input["required"],
        json!([]),
        "code decides itself what it needs"
    );
}

#[test]
fn a_document_changes_with_everything_that_decides_what_runs() {
    let cid = |text: &str| read(Form::Json, text).unwrap().document("recipes").cid().unwrap();
    let base = cid(r#"{"description": "d", "template": "x {a}"}"#);
    assert_eq!(
        base,
        cid("{\"template\":\"x {a}\",\n\"description\":\"d\"}"),
        "writing does not matter"
    );
    let changed = [
        r#"{"description": "d", "template": "y {a}"}"#,
        r#"{"description": "d", "template": "x {a}", "retry": 2}"#,
        r#"{"description": "d", "template": "x {a}", "env": ["TOKEN"]}"#,
        r#"{"description": "d", "template": "x {a}", "leaves_processes": true}"#,
        r#"{"description": "d", "template": "x {a}", "defaults": {"a": "1"}}"#,
    ];
    for text in changed {
        assert_ne!(base, cid(text), "{text}");
    }
}

#[test]
fn one_broken_file_hides_no_other_and_keeps_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let (user, packaged) = (dir.path().join("user"), dir.path().join("packaged"));
    fs::create_dir_all(&packaged).unwrap();
    fs::create_dir_all(user.join("folder.json")).unwrap();
    fs::write(user.join("bad.json"), "{").unwrap();
    fs::write(user.join("binary.md"), [0xff, 0xfe]).unwrap();
    fs::write(user.join("good.json"), r#"{"description": "d", "template": "x"}"#).unwrap();
    fs::write(user.join("read.json"), r#"{"description": "d", "template": "x"}"#).unwrap();
    fs::write(user.join(".hidden.json"), "{").unwrap();
    fs::write(packaged.join("bad.json"), r#"{"template": "x"}"#).unwrap();
    std::os::unix::fs::symlink("/nowhere", user.join("dangling.json")).unwrap();
    let roots = vec![
        Root::at(&user, RootKind::User),
        Root::at(&packaged, RootKind::Packaged),
        Root::at(dir.path().join("missing"), RootKind::User),
    ];
    let mut scanner = Scanner::new(roots, Imports::default());
    let discovery = scanner.scan();
    let states: Vec<(&str, State)> = discovery
        .entries
        .iter()
        .map(|e| (e.id.as_str(), e.state))
        .collect();
    assert_eq!(
        states,
        [
            ("bad", State::Invalid),
            ("bad", State::Shadowed),
            ("binary", State::Invalid),
            ("dangling", State::Invalid),
            ("good", State::Active),
            ("read", State::Active),
        ]
    );
    assert!(discovery.active("good").is_some() && discovery.active("bad").is_none());
    let told: Vec<String> = discovery
        .diagnostics()
        .into_iter()
        .map(|d| {
            format!(
                "{:?} {}: {}",
                d.severity,
                d.subject.rsplit('/').next().unwrap(),
                d.message
            )
        })
        .collect();
    let told = told.join("\n").replace(&dir.path().display().to_string(), "DIR");
    insta::assert_snapshot!(told);
}

#[test]
fn imports_make_one_document_and_follow_their_files() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    fs::create_dir_all(root.join("parts")).unwrap();
    let whole = r#"{"description": "W", "imports": {"p": {"from": "./parts/part.md", "defaults": {"lang": "de"}}},
        "template": [{"name": "p", "retry": 2}, "show {p.defaults.lang} {recipe_dir}"]}"#;
    fs::write(root.join("whole.json"), whole).unwrap();
    let part = |text: &str| fs::write(root.join("parts/part.md"), text).unwrap();
    part(
        "---\nenv:\n  - KEY\ndefaults:\n  lang: en\n---\n```template\n{recipe_dir}/say {lang} {file:path}\n```\n",
    );
    let mut scanner = Scanner::new(vec![Root::at(&root, RootKind::User)], Imports::default());
    let first = scanner.scan();
    let recipe = first.active("whole").unwrap();
    let Body::Template { template, .. } = &recipe.body else {
        panic!("no template")
    };
    let site = pentad_template::Site {
        recipe_dir: Some(root.clone()),
        ..Default::default()
    };
    let values = json!({"file": "a b"}).as_object().unwrap().clone();
    let argv: Vec<Vec<String>> = pentad_template::explain(template, &values, &site)
        .into_iter()
        .map(|found| found.argv.unwrap())
        .collect();
    let parts = root.join("parts").display().to_string();
    assert_eq!(
        argv,
        vec![
            vec![format!("{parts}/say"), "de".to_owned(), "a b".to_owned()],
            vec!["show".to_owned(), "de".to_owned(), root.display().to_string()]
        ]
    );
    assert_eq!(recipe.fields.env, ["KEY"]);
    let before = recipe.document("recipes");
    part("---\ndefaults:\n  lang: en\n---\n```template\nshout {lang} {file:path}\n```\n");
    let after = scanner.scan().active("whole").unwrap().document("recipes");
    assert_ne!(before.cid().unwrap(), after.cid().unwrap());
    part("---\ndisabled: true\n---\n```template\nshout\n```\n");
    let disabled = scanner.scan();
    assert_eq!(
        disabled.entry("whole").unwrap().state,
        State::Invalid,
        "a disabled import is refused"
    );
}

#[test]
fn one_word_is_a_command_unless_the_root_is_shared() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("make.json"), r#"{"template": "real make"}"#).unwrap();
    fs::write(dir.path().join("build.json"), r#"{"template": "make"}"#).unwrap();
    fs::write(dir.path().join("named.json"), r#"{"template": "recipe:make"}"#).unwrap();
    let body = |name: &str| {
        let discovery = Scanner::new(vec![Root::at(dir.path(), RootKind::User)], Imports::default()).scan();
        let recipe = discovery.active(name).unwrap();
        let noted = recipe
            .notes
            .iter()
            .any(|n| n.severity == Severity::Info && n.message.contains("one-word"));
        (
            recipe.document("recipes").body.unwrap()["template"]["template"].clone(),
            noted,
        )
    };
    assert_eq!(body("build"), (json!("make"), false));
    assert_eq!(body("named"), (json!("real make"), false));
    fs::create_dir(dir.path().join(".usage")).unwrap();
    assert_eq!(body("build"), (json!("real make"), true));
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC*", front in "[a-z:\\-'\"\\[\\]{}#|> \n0-9]{0,80}") {
        drop(RawFile::read(Form::Json, text.as_bytes()));
        drop(RawFile::read(Form::Markdown, text.as_bytes()));
        let file = format!("---\n{front}\n---\n```template\nx\n```\n");
        drop(RawFile::read(Form::Markdown, file.as_bytes()));
    }
}
