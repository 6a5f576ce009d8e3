use std::sync::Arc;

use pentad_model::grant::{Grant, GrantSet};
use pentad_program::{Readiness, ToolSource};
use serde_json::json;

use super::*;
use crate::testing::{FakeSource, document, with_input};

fn visible_to(grants: &[&str]) -> Visibility {
    Visibility::of(GrantSet::new(grants.iter().map(|g| g.parse::<Grant>().unwrap())))
}

fn names(outcome: &SearchOutcome) -> Vec<String> {
    outcome
        .hits
        .iter()
        .map(|hit| hit.document.tool.to_string())
        .collect()
}

fn find(catalog: &Catalog, query: &str) -> Vec<String> {
    names(&catalog.search(query, &SearchOptions::default(), &Visibility::everything()))
}

fn some_catalog() -> Catalog {
    Catalog::new(vec![
        FakeSource::named(
            "github",
            &[
                ("create_issue", "Opens a new issue in a repository."),
                ("listPullRequests", "Returns the open pull requests."),
                ("search", "Finds code in repositories."),
            ],
        ),
        FakeSource::named(
            "slack",
            &[
                ("post-message", "Sends a message to a channel of the workspace."),
                ("search", "Finds messages."),
            ],
        ),
        FakeSource::named(
            "weather",
            &[
                ("予報", "明日の天気予報を返します。"),
                ("forecast.get", "Returns the forecast."),
            ],
        ),
    ])
}

#[test]
fn a_name_in_the_query_comes_first_in_any_spelling() {
    let catalog = some_catalog();
    for query in [
        "create_issue",
        "github/create_issue",
        "GITHUB/CREATE_ISSUE",
        "createIssue",
        "please use create_issue for the message in the channel of the workspace",
        "create_isue",
        "~/tools/github/create_issue",
    ] {
        assert_eq!(
            find(&catalog, query).first().unwrap(),
            "github/create_issue",
            "{query}"
        );
    }
    assert_eq!(find(&catalog, "list pull requests")[0], "github/listPullRequests");
    assert_eq!(find(&catalog, "forecast.get")[0], "weather/forecast.get");
}

#[test]
fn words_are_stemmed_and_scripts_without_spaces_are_found() {
    let catalog = some_catalog();
    assert_eq!(
        find(&catalog, "sending messages to channels")[0],
        "slack/post-message"
    );
    assert_eq!(find(&catalog, "天気")[0], "weather/予報");
    assert_eq!(find(&catalog, "répositories")[0], "github/search");
}

#[test]
fn equal_scores_are_in_byte_order_of_names() {
    let catalog = Catalog::new(vec![
        FakeSource::named("b", &[("same", "One thing."), ("alike", "One thing.")]),
        FakeSource::named("a", &[("same", "One thing.")]),
    ]);
    assert_eq!(find(&catalog, "same"), ["a/same", "b/same"]);
    for _ in 0..5 {
        assert_eq!(find(&catalog, "thing").len(), 3);
        assert_eq!(find(&catalog, "thing"), find(&catalog, "thing"));
    }
}

#[test]
fn arguments_are_searched_too() {
    let schema = json!({"type": "object", "properties": {"latitude": {"description": "where on the globe"}}});
    let source = FakeSource::new("maps", vec![with_input("maps", "place", "Shows it.", schema)]);
    let catalog = Catalog::new(vec![source]);
    assert_eq!(find(&catalog, "latitude"), ["maps/place"]);
    assert_eq!(find(&catalog, "globe"), ["maps/place"]);
}

#[test]
fn what_may_not_be_called_is_in_no_hit_count_score_or_suggestion() {
    let catalog = some_catalog();
    let restricted = visible_to(&["call:slack/", "call:github/search"]);
    let alone = Catalog::new(vec![
        FakeSource::named("github", &[("search", "Finds code in repositories.")]),
        FakeSource::named(
            "slack",
            &[
                ("post-message", "Sends a message to a channel of the workspace."),
                ("search", "Finds messages."),
            ],
        ),
    ]);
    for query in ["create_issue", "search", "finds repositories", "issue message"] {
        let hidden = catalog.search(query, &SearchOptions::default(), &restricted);
        let absent = alone.search(query, &SearchOptions::default(), &Visibility::everything());
        assert_eq!(hidden.to_value(), absent.to_value(), "{query}");
        assert_eq!(hidden.to_markdown(), absent.to_markdown(), "{query}");
        assert_eq!(hidden.searched, 3);
    }
}

#[test]
fn catalogues_are_searched_only_where_they_are_open() {
    let catalog = some_catalog();
    catalog.add_catalogue(FakeSource::named("market", &[("buy", "Buys a repository.")]));
    let closed = Visibility::everything();
    let emptied = Visibility {
        sources: Some(Vec::new()),
        ..Visibility::everything()
    };
    let open = Visibility {
        sources: Some(vec!["market".to_owned()]),
        ..Visibility::everything()
    };
    let search = |v: &Visibility| names(&catalog.search("buys", &SearchOptions::default(), v));
    assert!(search(&closed).is_empty());
    assert!(search(&emptied).is_empty());
    assert_eq!(search(&open), ["market/buy"]);
    for visibility in [&closed, &emptied, &open] {
        assert_eq!(
            names(&catalog.search("create_issue", &SearchOptions::default(), visibility))[0],
            "github/create_issue"
        );
    }
}

#[test]
fn n12_only_what_changed_is_analysed_again() {
    let source = FakeSource::named("s", &[("a", "First."), ("b", "Second.")]);
    let catalog = Catalog::new(vec![Arc::clone(&source) as Arc<dyn ToolSource>]);
    let everything = Visibility::everything();
    let ranker = Lexical::default();
    let before = ranker.segment(&catalog.visible_sources(&everything)[0]);
    let kept = source.documents();
    source.set(vec![
        Arc::clone(&kept[0]),
        Arc::new(document("s", "b", "Changed entirely.")),
    ]);
    let after = ranker.segment(&catalog.visible_sources(&everything)[0]);
    assert!(after.shares_analysis_with(&before, 0));
    assert!(!after.shares_analysis_with(&before, 1));
    assert_eq!(find(&catalog, "entirely"), ["s/b"]);
    assert!(find(&catalog, "second").is_empty());
}

#[test]
fn n12_ten_clients_see_every_tool_while_the_source_changes() {
    let source = FakeSource::named("s", &[("constant", "Always here.")]);
    let catalog = Catalog::new(vec![Arc::clone(&source) as Arc<dyn ToolSource>]);
    let constant = Arc::clone(&source.documents()[0]);
    let missed: usize = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..10)
            .map(|_| {
                scope.spawn(|| {
                    (0..40)
                        .filter(|_| find(&catalog, "always here") != ["s/constant"])
                        .count()
                })
            })
            .collect();
        for i in 0..40 {
            let other = document("s", &format!("other_{i}"), "Something else.");
            source.set(vec![Arc::new(other), Arc::clone(&constant)]);
        }
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    assert_eq!(missed, 0);
    assert_eq!(find(&catalog, "other_39"), ["s/other_39"]);
}

#[test]
fn an_empty_result_says_what_was_searched() {
    let catalog = some_catalog();
    let pending = FakeSource::named("later", &[]);
    pending.stands(Readiness::BackingOff {
        retry_in_ms: 4_200,
        error: "exit 1\u{7}: no token".to_owned(),
    });
    catalog.add_source(pending);
    let nothing = catalog.search(
        "forcaast.gt",
        &SearchOptions::default(),
        &Visibility::everything(),
    );
    insta::assert_snapshot!(nothing.to_markdown());
}

#[test]
fn the_source_option_and_the_limit_hold() {
    let catalog = some_catalog();
    let options = SearchOptions {
        limit: 1,
        source: Some("slack".to_owned()),
    };
    assert_eq!(
        names(&catalog.search("search", &options, &Visibility::everything())),
        ["slack/search"]
    );
    assert_eq!(
        catalog
            .search(&"word ".repeat(10_000), &options, &Visibility::everything())
            .hits
            .len(),
        0
    );
}

#[test]
fn a_hit_shows_trust_and_readiness() {
    let mut reads = document("docs", "page", "Returns a page.");
    reads.trusted.read_only = Some(true);
    let source = FakeSource::new("docs", vec![reads, document("docs", "edit", "Changes a page.")]);
    source.stands(Readiness::Indexed);
    let catalog = Catalog::new(vec![source]);
    let mut outcome = catalog.search("page", &SearchOptions::default(), &Visibility::everything());
    for hit in &mut outcome.hits {
        hit.would_ask = Some(!hit.read_only);
    }
    insta::assert_snapshot!(outcome.to_markdown());
}
