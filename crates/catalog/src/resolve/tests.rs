use std::sync::Arc;

use pentad_model::grant::{Grant, GrantSet};
use proptest::prelude::*;

use super::*;
use crate::testing::FakeSource;

fn some_catalog() -> Catalog {
    Catalog::new(vec![
        FakeSource::named(
            "builtin",
            &[("tool_search", "Finds tools."), ("execute", "Runs code.")],
        ),
        FakeSource::named(
            "recipes",
            &[
                ("execute", "An old file."),
                ("github/notes", "Has a slash."),
                ("build", "Builds."),
            ],
        ),
        FakeSource::named("library", &[("media/transcribe", "Transcribes.")]),
        FakeSource::named(
            "github",
            &[
                ("create_issue", "Creates."),
                ("a.b/c", "Dots and slashes."),
                ("read", "Reads."),
            ],
        ),
        FakeSource::named(
            "gitlab",
            &[("create_issue", "Creates."), ("日本 語%", "Unicode.")],
        ),
    ])
}

fn shown(resolution: &Resolution) -> String {
    let list = |refs: &[ToolRef]| refs.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    match resolution {
        Resolution::Found(entry) => format!("found {} {}", entry.source.name(), entry.document.tool),
        Resolution::Verb { verb, also } => format!("verb {verb} {}", list(also)),
        Resolution::Ambiguous(refs) => format!("ambiguous {}", list(refs)),
        Resolution::Unknown { nearest } => format!("unknown {}", list(nearest)),
        Resolution::SourceUnknownTools { source, .. } => format!("source {source}"),
    }
}

fn resolve(name: &str) -> String {
    shown(&some_catalog().resolve(name, &Visibility::everything()))
}

#[test]
fn n02_any_legal_name_is_reached_by_its_full_name_and_address() {
    assert_eq!(resolve("github/a.b/c"), "found github github/a.b/c");
    assert_eq!(resolve("gitlab/日本 語%"), "found gitlab gitlab/日本 語%");
    assert_eq!(
        resolve("~/tools/gitlab/日本%20語%25"),
        "found gitlab gitlab/日本 語%"
    );
    assert_eq!(resolve("日本 語%"), "found gitlab gitlab/日本 語%");
    assert_eq!(
        resolve("library/media/transcribe"),
        "found library library/media/transcribe"
    );
    assert_eq!(
        resolve("media/transcribe"),
        "found library library/media/transcribe"
    );
    let long = "n".repeat(128);
    let catalog = Catalog::new(vec![FakeSource::named("long", &[(&long, "Long.")])]);
    let full = format!("long/{long}");
    assert_eq!(
        shown(&catalog.resolve(&full, &Visibility::everything())),
        format!("found long {full}")
    );
}

#[test]
fn n03_a_bare_name_of_several_sources_is_never_decided() {
    assert_eq!(
        resolve("create_issue"),
        "ambiguous github/create_issue gitlab/create_issue"
    );
    assert_eq!(resolve("build"), "found recipes recipes/build");
}

#[test]
fn refusals_name_the_candidates_and_the_state() {
    let later = FakeSource::named("later", &[]);
    later.stands(Readiness::Disabled {
        error: "exit 1".to_owned(),
    });
    let catalog = some_catalog();
    catalog.add_source(later);
    let texts: Vec<String> = ["create_issue", "later/x", "build"]
        .into_iter()
        .filter_map(|name| catalog.resolve(name, &Visibility::everything()).refusal(name))
        .map(|refusal| refusal.to_text())
        .collect();
    insta::assert_snapshot!(texts.join("\n"), @"
    Several sources have a tool 'create_issue'; give the full name.
    Supported: github/create_issue, gitlab/create_issue.
    The tools of later are not known: failed too often, not tried by itself: exit 1.
    Next: pentad doctor shows what later needs; then repeat
    ");
}

#[test]
fn n04_a_known_source_takes_the_first_slash() {
    assert_eq!(
        resolve("recipes/github/notes"),
        "found recipes recipes/github/notes"
    );
    assert_eq!(resolve("github/notes"), "unknown recipes/github/notes");
}

#[test]
fn a_file_with_a_builtins_name_keeps_its_full_name_only() {
    assert_eq!(resolve("execute"), "found builtin builtin/execute");
    assert_eq!(resolve("recipes/execute"), "found recipes recipes/execute");
}

#[test]
fn verbs_resolve_to_themselves_and_name_their_namesakes() {
    assert_eq!(resolve("write"), "verb write ");
    assert_eq!(resolve("read"), "verb read github/read");
    assert_eq!(resolve("~/tools/builtin/plan"), "verb plan ");
    assert_eq!(resolve("github/read"), "found github github/read");
}

#[test]
fn a_source_without_an_index_says_so() {
    let later = FakeSource::named("later", &[]);
    later.stands(Readiness::Configured);
    let catalog = Catalog::new(vec![later]);
    let everything = Visibility::everything();
    assert_eq!(shown(&catalog.resolve("later/x", &everything)), "source later");
    assert_eq!(shown(&catalog.resolve("later", &everything)), "unknown ");
    let none = Visibility::of(GrantSet::new(["call:other/".parse::<Grant>().unwrap()]));
    assert_eq!(shown(&catalog.resolve("later/x", &none)), "unknown ");
    let ready = FakeSource::named("later", &[]);
    catalog.add_source(ready);
    assert_eq!(shown(&catalog.resolve("later/x", &everything)), "unknown ");
}

#[test]
fn hidden_tools_and_absent_tools_give_the_same_answer() {
    let visibility = Visibility {
        denied: GrantSet::new(["call:github/create_issue".parse::<Grant>().unwrap()]),
        ..Visibility::everything()
    };
    let catalog = some_catalog();
    assert_eq!(
        shown(&catalog.resolve("create_issue", &visibility)),
        "found gitlab gitlab/create_issue"
    );
    let hidden = catalog.resolve("github/create_issue", &visibility);
    catalog.add_source(FakeSource::named(
        "github",
        &[("a.b/c", "Dots and slashes."), ("read", "Reads.")],
    ));
    let absent = catalog.resolve("github/create_issue", &visibility);
    assert_eq!(shown(&hidden), shown(&absent));
    let Resolution::Unknown { nearest } = hidden else {
        panic!("{hidden:?}")
    };
    insta::assert_snapshot!(unknown_tool("github/create_issue\u{202e}", &nearest).to_text(), @r#"
    There is no tool 'github/create_issue\u{202e}' that you can call.
    Next: nearest: gitlab/create_issue
    Next: search with read {"address":"~/tools/","options":{"query":"what you need"}}
    "#);
}

#[test]
fn sources_come_and_go() {
    let catalog = some_catalog();
    let everything = Visibility::everything();
    assert!(catalog.remove_source("gitlab").is_some());
    assert!(catalog.remove_source("gitlab").is_none());
    assert_eq!(
        shown(&catalog.resolve("create_issue", &everything)),
        "found github github/create_issue"
    );
    let changing = FakeSource::named("extra", &[("one", "One.")]);
    catalog.add_source(Arc::clone(&changing) as Arc<dyn ToolSource>);
    assert_eq!(
        shown(&catalog.resolve("one", &everything)),
        "found extra extra/one"
    );
    changing.set(Vec::new());
    assert!(shown(&catalog.resolve("one", &everything)).starts_with("unknown"));
    let order: Vec<String> = catalog.statuses().into_iter().map(|s| s.source).collect();
    assert_eq!(order, ["builtin", "recipes", "library", "extra", "github"]);
}

#[tokio::test]
async fn refreshing_learns_a_sources_tools() {
    let later = FakeSource::named("later", &[]);
    later.stands(Readiness::Configured);
    let catalog = Catalog::new(vec![later]);
    assert_eq!(
        catalog
            .refresh_source("later", None)
            .await
            .unwrap()
            .unwrap()
            .tools,
        1
    );
    assert_eq!(
        shown(&catalog.resolve("found", &Visibility::everything())),
        "found later later/found"
    );
    assert!(catalog.refresh_source("nobody", None).await.unwrap().is_none());
}

proptest! {
    #[test]
    fn every_tool_is_found_by_its_full_name_and_by_its_address(name in "[\\PC]{1,40}") {
        let catalog = Catalog::new(vec![FakeSource::named("s", &[(&name, "Text.")])]);
        let full = format!("s/{name}");
        prop_assert_eq!(shown(&catalog.resolve(&full, &Visibility::everything())), format!("found s {full}"));
        let address = ToolRef::new("s", name.as_str()).address();
        prop_assert_eq!(shown(&catalog.resolve(&address, &Visibility::everything())), format!("found s {full}"));
    }
}
