use pentad_model::grant::{Grant, GrantSet};

use super::*;
use crate::testing::{FakeSource, document};

fn some_catalog() -> Catalog {
    let mut reads = document("github", "list_issues", "Lists issues.\u{200b} Then\nmore.");
    reads.trusted.read_only = Some(true);
    let github = FakeSource::new(
        "github",
        vec![document("github", "create_issue", "Creates an issue."), reads],
    );
    let many: Vec<_> = (0..=MAX_LISTED)
        .map(|i| document("many", &format!("tool_{i}"), "One of many."))
        .collect();
    let later = FakeSource::named("later", &[]);
    later.stands(Readiness::Configured);
    let catalog = Catalog::new(vec![
        later,
        FakeSource::new("many", many),
        github,
        FakeSource::named("recipes", &[("transcribe", "Transcribes a recording.")]),
        FakeSource::named(
            "library",
            &[
                ("media/cut", "Cuts."),
                ("media/join", "Joins."),
                ("text/sort", "Sorts."),
            ],
        ),
    ]);
    catalog.add_catalogue(FakeSource::named("market", &[("buy", "Buys.")]));
    catalog
}

#[test]
fn the_list_names_sources_tools_and_what_to_do_next() {
    let open = Visibility {
        sources: Some(vec!["market".to_owned()]),
        ..Visibility::everything()
    };
    insta::assert_snapshot!(some_catalog().list(&open).to_markdown());
}

#[test]
fn hidden_sources_and_tools_are_not_counted() {
    let grants = ["call:github/create_issue", "call:many/tool_7"].map(|g| g.parse::<Grant>().unwrap());
    let visibility = Visibility::of(GrantSet::new(grants));
    let listing = some_catalog().list(&visibility);
    let json = serde_json::to_string(&listing).unwrap();
    assert!(
        !json.contains("list_issues") && !json.contains("library") && !json.contains("later"),
        "{json}"
    );
    let counts: Vec<(usize, usize)> = listing
        .sources
        .iter()
        .map(|s| (s.total, s.status.tools))
        .collect();
    assert_eq!(counts, [(1, 1), (1, 1)]);
}

#[test]
fn one_source_is_listed_whole() {
    let catalog = some_catalog();
    let everything = Visibility::everything();
    assert_eq!(
        catalog.list_source("many", &everything).unwrap().sources[0]
            .tools
            .len(),
        MAX_LISTED + 1
    );
    assert_eq!(
        catalog.list_source("library", &everything).unwrap().sources[0]
            .tools
            .len(),
        3
    );
    assert!(catalog.list_source("market", &everything).is_none());
    assert!(catalog.list_source("nobody", &everything).is_none());
    let nothing = Visibility::default();
    assert!(catalog.list_source("github", &nothing).is_none());
    insta::assert_snapshot!(catalog.list(&nothing).to_markdown(), @"There are no tools that you can call.");
}

#[test]
fn m10_a_list_says_how_a_failed_source_is_tried_again_and_how_often_one_runs() {
    let failed = FakeSource::named("failed", &[]);
    failed.stands(Readiness::Disabled {
        error: "server 'failed' ended: exit code 7".to_owned(),
    });
    let twice = FakeSource::named("twice", &[("look", "Looks.")]);
    twice.runs(2);
    let once = FakeSource::named("once", &[("look", "Looks.")]);
    once.runs(1);
    let listing = Catalog::new(vec![failed, twice, once]).list(&Visibility::everything());
    insta::assert_snapshot!(listing.to_markdown());
}
