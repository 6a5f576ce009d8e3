//! Opening: what is created, and what is refused untouched.

use crate::fixtures::{home, note};
use pentad_journal::{Journal, JournalOptions};
use pentad_program::{Durability, Store, StoreError};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn bytes_in(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            (name, std::fs::read(entry.path()).unwrap())
        })
        .collect()
}

fn refusal(state: &Path) -> String {
    match Journal::open(state, JournalOptions::default()) {
        Err(StoreError::Unusable(text)) => text.replace(state.to_str().unwrap(), "STATE"),
        other => panic!("{:?}", other.map(|_| "opened")),
    }
}

#[test]
fn d13_sqlite_is_newer_than_the_wal_reset_bug() {
    assert!(rusqlite::version_number() > 3_051_002, "{}", rusqlite::version());
}

#[tokio::test]
async fn a_new_journal_says_what_it_is() {
    let home = home();
    let look = rusqlite::Connection::open(home.journal.database()).unwrap();
    let pragma = |name: &str| {
        look.pragma_query_value(None, name, |row| row.get::<_, rusqlite::types::Value>(0))
            .unwrap()
    };
    assert_eq!(pragma("application_id"), 0x506E_7464.into());
    assert_eq!(pragma("user_version"), 3.into());
    assert_eq!(pragma("journal_mode"), "wal".to_owned().into());
    assert_eq!(pragma("auto_vacuum"), 2.into());
    let fresh = home.dir.path().join("deeper/state");
    let journal = Journal::open(&fresh, JournalOptions::default()).unwrap();
    journal.open_thread(crate::fixtures::new_thread()).await.unwrap();
    let mode = |name: &str| std::fs::metadata(fresh.join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("."), 0o700);
    for name in ["pentad.db", "pentad.db-wal", "pentad.db-shm", "pentad.lock"] {
        assert_eq!(mode(name), 0o600, "{name}");
    }
}

#[tokio::test]
async fn a_newer_database_is_refused_and_not_a_byte_changes() {
    let home = home();
    let thread = home.thread().await;
    home.say(thread, "x").await;
    home.journal.close().await.unwrap();
    let path = home.dir.path().join("pentad.db");
    let newer = rusqlite::Connection::open(&path).unwrap();
    newer.pragma_update(None, "user_version", 7).unwrap();
    drop(newer);
    let before = bytes_in(home.dir.path());
    insta::assert_snapshot!(refusal(home.dir.path()), @"STATE/pentad.db has format 7, and this build reads up to 3; nothing was changed. Use a newer pentad, or point PENTAD_HOME to another folder");
    assert_eq!(bytes_in(home.dir.path()), before);
}

#[tokio::test]
async fn a_newer_format_that_stands_in_the_log_only_is_refused_too() {
    let home = home();
    home.thread().await;
    home.journal.close().await.unwrap();
    // A crash of the newer build leaves its first page in the write-ahead log.
    let crashed = tempfile::tempdir().unwrap();
    let newer = rusqlite::Connection::open(home.dir.path().join("pentad.db")).unwrap();
    newer.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
    newer.pragma_update(None, "user_version", 7).unwrap();
    for name in ["pentad.db", "pentad.db-wal"] {
        std::fs::copy(home.dir.path().join(name), crashed.path().join(name)).unwrap();
    }
    let before = bytes_in(crashed.path());
    assert!(refusal(crashed.path()).contains("has format 7"));
    let mut after = bytes_in(crashed.path());
    // Looking into the log makes an index of it, which holds nothing of its own.
    after.remove("pentad.db-shm");
    assert_eq!(after, before);
}

#[test]
fn foreign_and_damaged_files_are_refused_untouched() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pentad.db");
    let foreign = |prepare: &str| {
        let connection = rusqlite::Connection::open(&path).unwrap();
        connection.execute_batch(prepare).unwrap();
    };
    std::fs::write(
        &path,
        "these are notes of mine, longer than a header would be; ".repeat(4),
    )
    .unwrap();
    let expected =
        "STATE/pentad.db is no journal of Pentad; move it away, or point PENTAD_HOME to another folder";
    assert_eq!(refusal(dir.path()), expected);
    std::fs::write(&path, "short").unwrap();
    assert_eq!(refusal(dir.path()), expected);
    for prepare in [
        "PRAGMA application_id = 1",
        "CREATE TABLE notes (text)",
        "PRAGMA user_version = 1",
    ] {
        std::fs::remove_file(&path).unwrap();
        foreign(prepare);
        let before = std::fs::read(&path).unwrap();
        assert_eq!(refusal(dir.path()), expected, "{prepare}");
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }
}

#[tokio::test]
async fn a_file_that_a_crash_left_empty_is_filled() {
    for prepare in ["", "PRAGMA auto_vacuum = 2; PRAGMA journal_mode = WAL;"] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pentad.db");
        std::fs::write(&path, "").unwrap();
        rusqlite::Connection::open(&path)
            .unwrap()
            .execute_batch(prepare)
            .unwrap();
        let journal = Journal::open(dir.path(), JournalOptions::default()).unwrap();
        assert_eq!(journal.head().await.unwrap(), 0);
    }
}

#[tokio::test]
async fn many_open_a_new_home_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let opened: Vec<_> = (0..8)
        .map(|_| {
            let state = dir.path().to_owned();
            std::thread::spawn(move || Journal::open(&state, JournalOptions::default()).unwrap())
        })
        .collect();
    let journals: Vec<Journal> = opened.into_iter().map(|thread| thread.join().unwrap()).collect();
    let thread = journals[0]
        .open_thread(crate::fixtures::new_thread())
        .await
        .unwrap()
        .id;
    for journal in &journals {
        journal
            .append(vec![note(thread, "x")], Durability::Crash)
            .await
            .unwrap();
    }
    assert_eq!(journals[7].verify(thread).await.unwrap(), None);
    assert_eq!(journals[0].head().await.unwrap(), 8);
}
