//! Searching threads by words.

use crate::fixtures::{T0, home, new_thread, note, with_body};
use pentad_journal::{Journal, JournalOptions};
use pentad_model::{EventBody, ThreadId, Timestamp, Verb};
use pentad_program::{Durability, NewThread, Store, StoreError, ThreadFilter, ThreadHit};
use proptest::prelude::*;

async fn search(journal: &Journal, query: &str) -> Vec<ThreadHit> {
    let filter = ThreadFilter {
        query: Some(query.to_owned()),
        limit: 50,
        ..ThreadFilter::default()
    };
    journal.threads(filter).await.unwrap()
}

async fn found(journal: &Journal, query: &str) -> Vec<ThreadId> {
    search(journal, query)
        .await
        .iter()
        .map(|hit| hit.thread.id)
        .collect()
}

#[tokio::test]
async fn every_word_must_occur_somewhere_in_the_thread() {
    let home = home();
    let (a, b) = (home.thread_at(T0).await, home.thread_at(T0 + 10).await);
    home.journal.title_thread(a, "Quarterly Report").await.unwrap();
    home.say(a, "the café is in src/main.rs").await;
    home.say_at(b, "a report about something else", T0 + 10).await;
    let called = EventBody::Called {
        verb: Verb::Call,
        arguments: serde_json::json!({"tool": "grep", "input": {"pattern": "needle", "depth": 42}}),
        cwd: "/hidden".to_owned(),
    };
    home.journal
        .append(vec![with_body(b, called)], Durability::Crash)
        .await
        .unwrap();

    assert_eq!(found(&home.journal, "report").await, [b, a]);
    assert_eq!(found(&home.journal, "REPORT  quarterly").await, [a]);
    assert_eq!(
        found(&home.journal, "report cafe").await,
        [a],
        "title and event together, accents apart"
    );
    assert_eq!(found(&home.journal, "src/main.rs").await, [a]);
    assert_eq!(found(&home.journal, "main/src").await, []);
    assert_eq!(found(&home.journal, "needle 42").await, [b]);
    for nothing in ["hidden", "pattern", "repor", "", " ", "---", "report nothing"] {
        assert_eq!(found(&home.journal, nothing).await, [], "{nothing}");
    }
    home.say(a, "needle too").await;
    assert_eq!(
        found(&home.journal, "needle").await.len(),
        2,
        "a new event is found at once"
    );
    let snippets: Vec<_> = search(&home.journal, "needle")
        .await
        .into_iter()
        .map(|h| h.snippet.unwrap())
        .collect();
    assert_eq!(snippets, ["grep 42 needle", "needle too"]);
}

#[tokio::test]
async fn searches_keep_agent_order_and_pages() {
    let home = home();
    let mut ids = Vec::new();
    for n in 0..9 {
        let new = NewThread {
            agent: if n % 3 == 0 { "other" } else { "main" }.parse().unwrap(),
            title: Some(format!("topic {n}")),
            at: Timestamp(T0 + n),
            ..new_thread()
        };
        ids.push(home.journal.open_thread(new).await.unwrap().id);
    }
    let mut filter = ThreadFilter {
        agent: Some("main".parse().unwrap()),
        query: Some("topic".to_owned()),
        limit: 4,
        ..ThreadFilter::default()
    };
    let first = home.journal.threads(filter.clone()).await.unwrap();
    filter.after = Some(first[3].mark.clone());
    let second = home.journal.threads(filter.clone()).await.unwrap();
    let all: Vec<_> = first.iter().chain(&second).map(|hit| hit.thread.id).collect();
    assert_eq!(all, [8, 7, 5, 4, 2, 1].map(|n| ids[n]));
    filter.after = Some("nonsense".to_owned());
    assert!(matches!(
        home.journal.threads(filter.clone()).await,
        Err(StoreError::NotFound(_))
    ));
    filter.query = Some((0..40).map(|n| format!("w{n} ")).collect());
    let Err(StoreError::NotFound(text)) = home.journal.threads(filter).await else {
        panic!("forty words were taken");
    };
    insta::assert_snapshot!(text, @"a search takes at most 32 words and this one has 40; give fewer");
}

#[tokio::test]
async fn what_another_process_wrote_is_found() {
    let home = home();
    let thread = home.thread().await;
    let other = Journal::open(home.dir.path(), JournalOptions::default()).unwrap();
    for n in 0..300 {
        other
            .append(vec![note(thread, &format!("word{n}"))], Durability::Crash)
            .await
            .unwrap();
    }
    assert_eq!(found(&home.journal, "word0 word150 word299").await, [thread]);
    assert_eq!(found(&other, "word0 word150 word299").await, [thread]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn no_query_is_syntax(queries in proptest::collection::vec("(\\PC|[\"*^:(){}+\\-]|AND|OR|NEAR|\\s|\\x00){0,24}", 16)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let home = home();
            let thread = home.thread().await;
            home.say(thread, "AND OR NOT NEAR text").await;
            for query in queries {
                search(&home.journal, &query).await;
            }
            for operator in ["NOT", "NEAR", "or", "and text", "text OR"] {
                assert_eq!(found(&home.journal, operator).await, [thread], "{operator}");
            }
            for syntax in ["text OR nothing", "tex*", "NEAR(text nothing)", "text NOT nothing"] {
                assert_eq!(found(&home.journal, syntax).await, [], "{syntax}");
            }
            // A column's name is a word like any other.
            assert_eq!(found(&home.journal, "text:AND").await, []);
        });
    }
}
