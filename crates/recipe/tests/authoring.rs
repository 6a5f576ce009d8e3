//! Making, changing and deleting tool files.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    missing_docs
)]

use std::fs;
use std::path::Path;

use pentad_model::RefusalKind;
use pentad_recipe::{Author, Form, Imports, RawFile, Registration, Root, RootKind};
use serde_json::{Value, json};

fn author(dir: &Path) -> Author {
    Author::new(Root::at(dir, RootKind::User), Imports::default(), "recipes")
}

fn new(name: &str, template: Value) -> Registration {
    Registration {
        name: name.to_owned(),
        description: Some("Does it.".to_owned()),
        template: Some(template),
        ..Registration::default()
    }
}

fn fields(path: &Path) -> Value {
    let form = Form::of_extension(path.extension().unwrap().to_str().unwrap()).unwrap();
    Value::Object(RawFile::read(form, &fs::read(path).unwrap()).unwrap().fields)
}

#[test]
fn a_new_tool_is_one_json_file_in_the_order_of_the_standard() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("new/root");
    let registration = Registration {
        args: Some("file:path,lang=ru".to_owned()),
        detached: Some(true),
        ..new("  My Tool! ", json!("run {file} {lang}"))
    };
    let authored = author(&root).register(&registration).unwrap();
    assert_eq!(
        authored.message,
        "Registered tool \"my_tool\" (args: file, lang)."
    );
    insta::assert_snapshot!(fs::read_to_string(root.join("my_tool.json")).unwrap(), @r#"
    {
      "description": "Does it.",
      "async": true,
      "args": [
        "file:path",
        "lang"
      ],
      "defaults": {
        "lang": "ru"
      },
      "template": "run {file} {lang}"
    }
    "#);
    let left: Vec<_> = fs::read_dir(&root)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left.len(), 1, "no temporary file is left: {left:?}");
}

#[test]
fn refusals_say_what_to_do_and_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let author = author(dir.path());
    author.register(&new("taken", json!("x"))).unwrap();
    let without = |name: &str| Registration {
        description: None,
        ..new(name, json!("x"))
    };
    let cases = [
        new("!!!", json!("x")),
        new("read", json!("x")),
        new("taken", json!("y")),
        Registration {
            template: None,
            ..new("a", json!("x"))
        },
        without("a"),
        new("a", json!([])),
        new("a", json!(5)),
        new("a", json!(["x", ["y"]])),
        Registration {
            args: Some("n:int=x".to_owned()),
            ..new("a", json!("x {n}"))
        },
        Registration {
            args: Some("n,n".to_owned()),
            ..new("a", json!("x {n}"))
        },
        new("gone", Value::Null),
    ];
    let texts: Vec<String> = cases
        .iter()
        .map(|case| {
            let refusal = author.register(case).unwrap_err();
            format!("{} {}", refusal.kind.status(), refusal.to_text())
        })
        .collect();
    insta::assert_snapshot!(texts.join("\n"));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    let refused = author
        .write("../escape", "{\"template\": \"x\"}", false)
        .unwrap_err();
    assert_eq!(refused.kind, RefusalKind::BadRequest);
}

#[test]
fn an_update_keeps_every_field_it_does_not_name() {
    let dir = tempfile::tempdir().unwrap();
    let author = author(dir.path());
    let path = dir.path().join("t.json");
    let before = json!({
        "timeout": 50, "mailbox": {"accepts": ["go"]}, "artifacts": {"a": "b"}, "template": ["x {a}", "y"],
        "args": ["a:int"], "description": "old", "values": {"z": 1}
    });
    fs::write(&path, before.to_string()).unwrap();
    let update = Registration {
        template: None,
        update: true,
        ..new("t", json!(null))
    };
    author.register(&update).unwrap();
    let mut wanted = before;
    wanted["description"] = json!("Does it.");
    assert_eq!(fields(&path), wanted);
}

#[test]
fn a_markdown_tool_stays_markdown_with_every_other_line() {
    let dir = tempfile::tempdir().unwrap();
    let author = author(dir.path());
    let path = dir.path().join("t.md");
    let text = "---\n# why it is here\ndescription: old\nargs:\n  - a:int\n  - b\n\ntimeout: 50\n---\nProse stays.\n\n```template\nrun {a} {b}\n```\n\nMore prose.\n";
    fs::write(&path, text).unwrap();
    let update = Registration {
        description: Some("New: with colon".to_owned()),
        args: Some("a:int,c=x".to_owned()),
        update: true,
        ..new("t", json!("run {a} --new {c}"))
    };
    author.register(&update).unwrap();
    insta::assert_snapshot!(fs::read_to_string(&path).unwrap(), @r#"
    ---
    # why it is here
    description: "New: with colon"
    args: ["a:int","c"]

    timeout: 50
    defaults: {"c":"x"}
    ---
    Prose stays.

    ```template
    run {a} --new {c}
    ```

    More prose.
    "#);
    let steps = Registration {
        update: true,
        description: Some("It's\n\"two\" lines".to_owned()),
        ..new("t", json!(["a", "b {a}"]))
    };
    author.register(&steps).unwrap();
    assert_eq!(fields(&path)["template"], json!(["a", "b {a}"]));
    assert_eq!(fields(&path)["description"], json!("It's\n\"two\" lines"));
    assert!(!dir.path().join("t.json").exists());
}

#[test]
fn deleting_removes_the_file_whatever_its_form() {
    let dir = tempfile::tempdir().unwrap();
    let author = author(dir.path());
    fs::write(dir.path().join("t.md"), "---\nx: 1\n---\n```template\na\n```\n").unwrap();
    fs::write(dir.path().join("t.json"), r#"{"template": "b"}"#).unwrap();
    author.delete("t", true).unwrap();
    assert_eq!(
        fs::read_dir(dir.path()).unwrap().count(),
        2,
        "a dry run changes nothing"
    );
    let authored = author
        .register(&Registration {
            template: Some(json!("  ")),
            ..new("t", json!(null))
        })
        .unwrap();
    assert!(authored.replaced && authored.document.is_none());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    assert_eq!(author.delete("t", false).unwrap_err().kind, RefusalKind::NotFound);
}

#[test]
fn writing_a_whole_file_takes_the_form_of_the_content() {
    let dir = tempfile::tempdir().unwrap();
    let author = author(dir.path());
    author
        .write("a-b", "---\ndescription: D.\n---\n```template\nx\n```\n", false)
        .unwrap();
    assert!(dir.path().join("a-b.md").exists());
    let authored = author
        .write("a-b", r#"{"description": "D.", "template": "x"}"#, false)
        .unwrap();
    assert!(authored.replaced);
    assert!(dir.path().join("a-b.json").exists() && !dir.path().join("a-b.md").exists());
    let dry = author.write("c", r#"{"template": "x"}"#, true).unwrap();
    assert!(dry.message.starts_with("Would register tool \"c\""));
    assert!(!dir.path().join("c.json").exists());
}

#[test]
fn a_link_stays_a_link_and_permissions_stay() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let (root, dotfiles) = (dir.path().join("root"), dir.path().join("dotfiles"));
    fs::create_dir_all(&root).unwrap();
    fs::create_dir_all(&dotfiles).unwrap();
    let real = dotfiles.join("t.json");
    fs::write(&real, r#"{"description": "old", "template": "x"}"#).unwrap();
    fs::set_permissions(&real, fs::Permissions::from_mode(0o600)).unwrap();
    std::os::unix::fs::symlink(&real, root.join("t.json")).unwrap();
    author(&root)
        .register(&Registration {
            update: true,
            template: None,
            ..new("t", json!(null))
        })
        .unwrap();
    assert!(fs::symlink_metadata(root.join("t.json")).unwrap().is_symlink());
    assert_eq!(fields(&real)["description"], "Does it.");
    assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn many_writers_lose_no_registration() {
    let dir = tempfile::tempdir().unwrap();
    let author = author(dir.path());
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let author = author.clone();
            scope.spawn(move || {
                for number in 0..5 {
                    author
                        .register(&new(&format!("t_{writer}_{number}"), json!("x")))
                        .unwrap();
                }
            });
        }
    });
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 20);
    let wins: usize = std::thread::scope(|scope| {
        let race: Vec<_> = (0..4)
            .map(|_| {
                let author = author.clone();
                scope.spawn(move || author.register(&new("one", json!("x"))).is_ok())
            })
            .collect();
        race.into_iter()
            .map(|writer| usize::from(writer.join().unwrap()))
            .sum()
    });
    assert_eq!(wins, 1, "one name is given once");
}

#[test]
fn a_short_registration_derives_what_is_missing_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let authored = author(dir.path())
        .register_shorthand("transcribe", "whisper {file:path} --lang {lang=en}", None, false)
        .unwrap();
    insta::assert_snapshot!(authored.message, @r#"Registered tool "transcribe" (args: file, lang). The description was derived: "Runs `whisper {file:path} --lang {lang=en}`." Give one that says what it is for."#);
    let document = authored.document.unwrap();
    assert_eq!(document.input["required"], json!(["file"]));
    let refused = author(dir.path())
        .register_shorthand("x", "   ", None, false)
        .unwrap_err();
    assert_eq!(refused.kind, RefusalKind::Invalid);
}
