//! A disk that is full or cannot be written.

use crate::fixtures::{home_with, note, text_of};
use pentad_journal::{Journal, JournalOptions};
use pentad_program::{Durability, EventRange, Store, StoreError};

#[tokio::test]
async fn a_full_disk_keeps_what_was_acknowledged_and_takes_small_writes_on() {
    let home = home_with(JournalOptions {
        max_database_bytes: Some(1 << 20),
        ..JournalOptions::default()
    });
    let thread = home.thread().await;
    let mut acknowledged = Vec::new();
    let error = loop {
        let text = format!("{} {}", acknowledged.len(), "x".repeat(120_000));
        match home
            .journal
            .append(vec![note(thread, &text)], Durability::Power)
            .await
        {
            Ok(_) => acknowledged.push(text),
            Err(error) => break error,
        }
        assert!(acknowledged.len() < 200, "the limit was not kept");
    };
    let StoreError::NotWritten(_) = &error else {
        panic!("{error:?}");
    };
    let text = error.to_string();
    assert!(text.contains("pentad.db: database or disk is full"), "{text}");
    assert!(
        text.ends_with("free space or check permissions, then repeat"),
        "{text}"
    );
    let page = home
        .journal
        .events(thread, EventRange::After(0), 500)
        .await
        .unwrap();
    assert_eq!(page.events.iter().map(text_of).collect::<Vec<_>>(), acknowledged);
    assert_eq!(home.journal.verify(thread).await.unwrap(), None);

    // In one batch the large ones fail and the small ones do not.
    let requests: Vec<_> = (0..20)
        .map(|n| {
            let journal = home.journal.clone();
            let text = if n % 2 == 0 {
                "y".repeat(130_000)
            } else {
                "small".to_owned()
            };
            tokio::spawn(async move {
                journal
                    .append(vec![note(thread, &text)], Durability::Power)
                    .await
                    .is_ok()
            })
        })
        .collect();
    for (n, request) in requests.into_iter().enumerate() {
        assert_eq!(request.await.unwrap(), n % 2 == 1, "{n}");
    }
    assert_eq!(home.journal.verify(thread).await.unwrap(), None);
    // A search cannot collect new words now, and still answers.
    let filter = pentad_program::ThreadFilter {
        query: Some("small".to_owned()),
        limit: 5,
        ..pentad_program::ThreadFilter::default()
    };
    home.journal.threads(filter).await.unwrap();
    home.journal.close().await.unwrap();

    let again = Journal::open(home.dir.path(), JournalOptions::default()).unwrap();
    again
        .append(vec![note(thread, &"z".repeat(40_000))], Durability::Power)
        .await
        .unwrap();
    assert_eq!(again.verify(thread).await.unwrap(), None);
}

#[tokio::test]
async fn a_home_that_is_no_folder_is_refused_with_the_next_step() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("home");
    std::fs::write(&file, "x").unwrap();
    for state in [file.clone(), file.join("state")] {
        let Err(StoreError::Unusable(text)) = Journal::open(&state, JournalOptions::default()).map(|_| ())
        else {
            panic!("it was opened");
        };
        assert!(text.contains(file.to_str().unwrap()), "{text}");
        assert!(text.contains("point PENTAD_HOME to"), "{text}");
    }
    assert_eq!(std::fs::read(&file).unwrap(), b"x");
    let folder = dir.path().join("state");
    std::fs::create_dir_all(folder.join("pentad.db")).unwrap();
    let Err(StoreError::Unusable(text)) = Journal::open(&folder, JournalOptions::default()).map(|_| ())
    else {
        panic!("it was opened");
    };
    assert!(text.contains("pentad.db"), "{text}");
}
