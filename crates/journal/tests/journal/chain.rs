//! Appending, the chain, the feed and what waits for it.

use crate::fixtures::{T0, home, note, text_of, with_body};
use pentad_model::{Event, EventBody, ThreadId};
use pentad_program::{Durability, EventRange, Store, StoreError};
use std::collections::BTreeMap;

#[tokio::test]
async fn events_are_chained_by_the_hash_of_the_bytes_before_them() {
    let home = home();
    let (a, b) = (home.thread().await, home.thread().await);
    let new = vec![note(a, "one"), note(b, "other"), note(a, "two")];
    let events = home.journal.append(new, Durability::Power).await.unwrap();
    assert_eq!(events.iter().map(|e| e.seq).collect::<Vec<_>>(), [1, 1, 2]);
    assert_eq!(events.iter().map(|e| e.position).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(events[0].prev, [0; 32]);
    assert_eq!(events[2].prev, Event::hash(&events[0].encode().unwrap()));
    let third = home.say(a, "three").await;
    assert_eq!(third.prev, Event::hash(&events[2].encode().unwrap()));

    let read = home.journal.events(a, EventRange::After(0), 10).await.unwrap();
    assert_eq!(read.events, [events[0].clone(), events[2].clone(), third]);
    assert!(!read.more);
    assert_eq!(home.journal.verify(a).await.unwrap(), None);
    assert_eq!(home.journal.head().await.unwrap(), 4);
    let thread = home
        .journal
        .find_thread(&a.to_string().parse().unwrap())
        .await
        .unwrap();
    assert_eq!(thread.events, 3);
}

#[tokio::test]
async fn pages_go_from_either_end() {
    let home = home();
    let thread = home.thread().await;
    for n in 1..=7 {
        home.say(thread, &n.to_string()).await;
    }
    let texts = async |range, limit| {
        let page = home.journal.events(thread, range, limit).await.unwrap();
        let texts: Vec<String> = page.events.iter().map(|e| text_of(e).to_owned()).collect();
        (texts.join(""), page.more)
    };
    assert_eq!(texts(EventRange::After(0), 3).await, ("123".to_owned(), true));
    assert_eq!(texts(EventRange::After(4), 3).await, ("567".to_owned(), false));
    assert_eq!(texts(EventRange::Before(None), 3).await, ("567".to_owned(), true));
    assert_eq!(
        texts(EventRange::Before(Some(4)), 3).await,
        ("123".to_owned(), false)
    );
    assert_eq!(
        texts(EventRange::Before(Some(1)), 3).await,
        (String::new(), false)
    );
    assert_eq!(texts(EventRange::After(0), 0).await, (String::new(), true));
    let missing = home
        .journal
        .events(ThreadId::generate(), EventRange::After(0), 1)
        .await;
    assert!(matches!(missing, Err(StoreError::NotFound(_))));
    let feed = home.journal.feed(5, 10).await.unwrap();
    assert_eq!(feed.iter().map(|e| e.position).collect::<Vec<_>>(), [6, 7]);
}

#[tokio::test]
async fn an_append_is_whole_or_nothing() {
    let home = home();
    let thread = home.thread().await;
    let stray = home
        .journal
        .append(
            vec![note(thread, "a"), note(ThreadId::generate(), "b")],
            Durability::Crash,
        )
        .await;
    assert!(matches!(stray, Err(StoreError::NotFound(_))), "{stray:?}");
    let huge = home
        .journal
        .append(
            vec![note(thread, "a"), note(thread, &"x".repeat(300 << 10))],
            Durability::Crash,
        )
        .await;
    let Err(StoreError::Conflict(text)) = huge else {
        panic!("{huge:?}");
    };
    assert!(text.contains("put its payload into a blob"), "{text}");
    assert_eq!(home.journal.head().await.unwrap(), 0);
    assert_eq!(home.say(thread, "c").await.seq, 1);
}

#[tokio::test]
async fn a_failing_request_takes_no_other_with_it() {
    let home = home();
    let thread = home.thread().await;
    let requests = (0..200).map(|n| {
        let journal = home.journal.clone();
        let to = if n % 3 == 0 { ThreadId::generate() } else { thread };
        let durability = if n % 7 == 0 {
            Durability::Power
        } else {
            Durability::Crash
        };
        tokio::spawn(async move {
            (
                n,
                journal.append(vec![note(to, &n.to_string())], durability).await,
            )
        })
    });
    let requests: Vec<_> = requests.collect();
    let mut kept = BTreeMap::new();
    for request in requests {
        let (n, result) = request.await.unwrap();
        assert_eq!(result.is_err(), n % 3 == 0, "{n}: {result:?}");
        if let Ok(events) = result {
            kept.insert(events[0].seq, n.to_string());
        }
    }
    assert_eq!(
        kept.keys().copied().collect::<Vec<_>>(),
        (1..=133).collect::<Vec<_>>()
    );
    let read = home
        .journal
        .events(thread, EventRange::After(0), 500)
        .await
        .unwrap();
    for event in &read.events {
        assert_eq!(kept[&event.seq], text_of(event));
    }
    assert_eq!(home.journal.verify(thread).await.unwrap(), None);
}

#[tokio::test]
async fn a_changed_chain_is_found() {
    for (damage, broken) in [
        (
            "UPDATE event SET body = (SELECT body FROM event WHERE seq = 2) WHERE seq = 3",
            3,
        ),
        ("UPDATE event SET hash = zeroblob(32) WHERE seq = 4", 4),
        ("DELETE FROM event WHERE seq = 2", 2),
        ("DELETE FROM event WHERE seq = 5", 5),
        ("UPDATE event SET body = x'00' WHERE seq = 1", 1),
        ("UPDATE thread SET events = 4", 5),
        ("UPDATE thread SET head = zeroblob(32)", 5),
    ] {
        let home = home();
        let thread = home.thread().await;
        for n in 0..5 {
            home.say(thread, &n.to_string()).await;
        }
        assert_eq!(home.journal.verify(thread).await.unwrap(), None);
        let other = rusqlite::Connection::open(home.journal.database()).unwrap();
        other.execute(damage, []).unwrap();
        assert_eq!(
            home.journal.verify(thread).await.unwrap(),
            Some(broken),
            "{damage}"
        );
    }
}

#[tokio::test]
async fn an_event_of_a_newer_build_is_named_and_not_guessed() {
    let home = home();
    let thread = home.thread().await;
    let mut event = home.say(thread, "x").await;
    event.v = 9;
    let other = rusqlite::Connection::open(home.journal.database()).unwrap();
    other
        .execute("UPDATE event SET body = ?1", [event.encode().unwrap()])
        .unwrap();
    let Err(StoreError::Corrupt(text)) = home.journal.events(thread, EventRange::After(0), 1).await else {
        panic!("it was read");
    };
    insta::assert_snapshot!(text, @"event 1 of the journal has format 9, and this build reads up to 1; use a newer pentad");
}

#[tokio::test]
async fn promotions_are_what_the_events_say() {
    let home = home();
    let (a, b) = (home.thread().await, home.thread().await);
    let promoted = |thread, tool: &str, cid: &str| {
        let (tool, cid) = (tool.to_owned(), cid.to_owned());
        with_body(thread, EventBody::Promoted { tool, cid })
    };
    let new = vec![
        promoted(a, "github/create_issue", "c1"),
        promoted(b, "shell", "s1"),
        promoted(a, "github/create_issue", "c2"),
    ];
    home.journal.append(new, Durability::Crash).await.unwrap();
    let expected = BTreeMap::from([("github/create_issue".to_owned(), "c2".to_owned())]);
    assert_eq!(home.journal.promoted(a).await.unwrap(), expected);
    let other = rusqlite::Connection::open(home.journal.database()).unwrap();
    other.execute("UPDATE promoted SET cid = 'wrong'", []).unwrap();
    home.journal.rebuild_promoted(a).await.unwrap();
    assert_eq!(home.journal.promoted(a).await.unwrap(), expected);
}

#[tokio::test]
async fn whoever_waits_hears_of_events_of_this_and_of_other_processes() {
    let home = home();
    let thread = home.thread().await;
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let journal = home.journal.clone();
            tokio::spawn(async move { journal.changed(0).await })
        })
        .collect();
    home.say(thread, "x").await;
    for waiter in waiting {
        assert_eq!(waiter.await.unwrap().unwrap(), 1);
    }
    assert_eq!(home.journal.changed(0).await.unwrap(), 1);

    let other =
        pentad_journal::Journal::open(home.dir.path(), pentad_journal::JournalOptions::default()).unwrap();
    let journal = home.journal.clone();
    let waiter = tokio::spawn(async move { journal.changed(1).await });
    other
        .append(vec![note(thread, "y")], Durability::Crash)
        .await
        .unwrap();
    assert_eq!(waiter.await.unwrap().unwrap(), 2);
    other.close().await.unwrap();

    let journal = home.journal.clone();
    let waiter = tokio::spawn(async move { journal.changed(2).await });
    home.journal.close().await.unwrap();
    assert!(matches!(waiter.await.unwrap(), Err(StoreError::Closed)));
}

#[tokio::test]
async fn what_is_queued_is_written_before_the_journal_closes() {
    let home = home();
    let thread = home.thread().await;
    let writes: Vec<_> = (0..50)
        .map(|n| {
            let journal = home.journal.clone();
            tokio::spawn(async move {
                journal
                    .append(vec![note(thread, &n.to_string())], Durability::Crash)
                    .await
            })
        })
        .collect();
    tokio::task::yield_now().await;
    home.journal.close().await.unwrap();
    home.journal.close().await.unwrap();
    let mut acknowledged = 0;
    for write in writes {
        match write.await.unwrap() {
            Ok(_) => acknowledged += 1,
            Err(error) => assert!(matches!(error, StoreError::Closed), "{error}"),
        }
    }
    let wal = std::fs::metadata(home.dir.path().join("pentad.db-wal"));
    assert!(wal.is_err(), "the write-ahead log is left: {wal:?}");
    let again =
        pentad_journal::Journal::open(home.dir.path(), pentad_journal::JournalOptions::default()).unwrap();
    assert_eq!(again.head().await.unwrap(), acknowledged);
    assert!(matches!(home.journal.head().await, Err(StoreError::Closed)));
}

#[tokio::test]
async fn values_come_back_as_they_were() {
    let home = home();
    let thread = home.thread().await;
    let arguments = serde_json::json!({"f": 0.1, "tiny": 5e-324, "big": u64::MAX, "neg": i64::MIN, "null": null,
        "deep": {"list": [1, "ä\u{0}b", [], {}]}});
    let body = EventBody::Called {
        verb: pentad_model::Verb::Call,
        arguments,
        cwd: "/".to_owned(),
    };
    let written = home
        .journal
        .append(vec![with_body(thread, body)], Durability::Crash)
        .await
        .unwrap();
    let read = home
        .journal
        .events(thread, EventRange::After(0), 1)
        .await
        .unwrap();
    assert_eq!(read.events, written);
    assert_eq!(read.events[0].at.0, T0);
}
