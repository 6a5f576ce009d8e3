//! Blobs and attachments.

use crate::fixtures::{T0, home, home_with};
use pentad_journal::JournalOptions;
use pentad_model::Timestamp;
use pentad_model::canonical::{raw_cid, sha256_hex};
use pentad_program::{Attachment, Store, StoreError};
use std::path::Path;

fn names_below(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            names.extend(names_below(&entry.path()));
        } else {
            names.push(entry.file_name().into_string().unwrap());
        }
    }
    names.sort();
    names
}

#[tokio::test]
async fn bytes_are_kept_once_under_their_hash() {
    let home = home();
    let blob = home.journal.put_blob("hello".into()).await.unwrap();
    assert_eq!(blob, home.journal.put_blob("hello".into()).await.unwrap());
    assert_eq!(
        (blob.hash.as_str(), blob.bytes),
        (sha256_hex(b"hello").as_str(), 5)
    );
    assert_eq!(home.journal.blob(&blob.hash, 5).await.unwrap(), "hello");
    let path = home.journal.blob_path(&blob.hash).await.unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"hello");
    assert_eq!(
        names_below(&home.dir.path().join("blobs")),
        std::slice::from_ref(&blob.hash)
    );
    let Err(StoreError::NotFound(text)) = home.journal.blob(&blob.hash, 4).await else {
        panic!("more than the cap was read");
    };
    assert!(
        text.ends_with("has 5 bytes, more than the 4 that may be read at once; read a part of it"),
        "{text}"
    );
}

#[tokio::test]
async fn s03_no_name_from_outside_becomes_a_path() {
    let home = home();
    std::fs::write(home.dir.path().join("secret"), "s").unwrap();
    let upper = sha256_hex(b"hello").to_uppercase();
    home.journal.put_blob("hello".into()).await.unwrap();
    for name in [
        "",
        "..",
        "../secret",
        "../../etc/passwd",
        &"../".repeat(21),
        &upper,
        &"é".repeat(32),
        &"0".repeat(64),
    ] {
        for result in [
            home.journal.blob(name, 9).await.map(|_| ()),
            home.journal.blob_path(name).await.map(|_| ()),
        ] {
            assert!(
                matches!(result, Err(StoreError::NotFound(_))),
                "{name}: {result:?}"
            );
        }
    }
    let place = home.dir.path().join("blobs/00");
    std::fs::create_dir_all(&place).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", place.join("0".repeat(64))).unwrap();
    assert!(home.journal.blob(&"0".repeat(64), 1 << 20).await.is_err());
}

#[tokio::test]
async fn a_damaged_blob_is_not_returned_and_can_be_stored_again() {
    let home = home();
    let blob = home.journal.put_blob("hello".into()).await.unwrap();
    let path = home.journal.blob_path(&blob.hash).await.unwrap();
    std::fs::write(&path, "jello").unwrap();
    let Err(StoreError::Corrupt(text)) = home.journal.blob(&blob.hash, 99).await else {
        panic!("damage was not seen");
    };
    assert!(
        text.contains(path.to_str().unwrap()) && text.contains("put a copy in its place"),
        "{text}"
    );
    std::fs::write(&path, "hell").unwrap();
    home.journal.put_blob("hello".into()).await.unwrap();
    assert_eq!(home.journal.blob(&blob.hash, 99).await.unwrap(), "hello");
}

#[tokio::test]
async fn a_spool_file_is_moved_and_any_other_copied() {
    let home = home();
    let runs = home.dir.path().join("runs/r1");
    std::fs::create_dir_all(&runs).unwrap();
    let outside = tempfile::tempdir().unwrap();
    let (spool, theirs, linked) = (
        runs.join("stdout"),
        outside.path().join("a.txt"),
        runs.join("linked"),
    );
    std::fs::write(&spool, "spooled").unwrap();
    std::fs::write(&theirs, "theirs").unwrap();
    std::fs::hard_link(&theirs, &linked).unwrap();
    let blob = home.journal.put_file(&spool).await.unwrap();
    assert_eq!(blob.hash, sha256_hex(b"spooled"));
    assert!(!spool.exists());
    let copied = home.journal.put_file(&theirs).await.unwrap();
    assert_eq!(home.journal.put_file(&linked).await.unwrap(), copied);
    // The blob must not change when the original does.
    std::fs::write(&theirs, "changed").unwrap();
    assert_eq!(home.journal.blob(&copied.hash, 99).await.unwrap(), "theirs");
    assert_eq!(
        names_below(&home.dir.path().join("blobs")).len(),
        2,
        "temporary files are left"
    );

    std::os::unix::fs::symlink("/etc/passwd", runs.join("link")).unwrap();
    let pipe = std::process::Command::new("mkfifo")
        .arg(runs.join("pipe"))
        .status();
    assert!(pipe.unwrap().success());
    for wrong in [
        runs.join("link"),
        runs.join("pipe"),
        runs.clone(),
        runs.join("none"),
        "/dev/null".into(),
    ] {
        let result = home.journal.put_file(&wrong).await;
        assert!(result.is_err(), "{}: {result:?}", wrong.display());
    }
    assert_eq!(names_below(&home.dir.path().join("blobs")).len(), 2);
}

#[tokio::test]
async fn nothing_beyond_the_cap_is_stored() {
    let home = home_with(JournalOptions {
        max_blob_bytes: 4,
        ..JournalOptions::default()
    });
    let spool = home.dir.path().join("runs/out");
    std::fs::create_dir_all(spool.parent().unwrap()).unwrap();
    std::fs::write(&spool, "hello").unwrap();
    for result in [
        home.journal.put_blob("hello".into()).await,
        home.journal.put_file(&spool).await,
    ] {
        let Err(StoreError::Conflict(text)) = result else {
            panic!("{result:?}");
        };
        assert!(
            text.ends_with("has 5 bytes or more; a blob has at most 4"),
            "{text}"
        );
    }
    assert!(spool.exists());
}

#[tokio::test]
async fn attachments_are_records_of_blobs() {
    let home = home();
    let attachment = Attachment {
        cid: raw_cid(b"png"),
        name: Some("chart.png".to_owned()),
        mime: "image/png".to_owned(),
        bytes: 3,
        created_at: Timestamp(T0),
    };
    let early = home.journal.put_attachment(attachment.clone()).await;
    assert!(matches!(early, Err(StoreError::NotFound(_))), "{early:?}");
    home.journal.put_blob("png".into()).await.unwrap();
    let wrong = Attachment {
        bytes: 4,
        ..attachment.clone()
    };
    assert!(matches!(
        home.journal.put_attachment(wrong).await,
        Err(StoreError::Conflict(_))
    ));
    assert_eq!(
        home.journal.put_attachment(attachment.clone()).await.unwrap(),
        attachment
    );
    let later = Attachment {
        name: None,
        created_at: Timestamp(T0 + 1),
        ..attachment.clone()
    };
    assert_eq!(home.journal.put_attachment(later).await.unwrap(), attachment);
    assert_eq!(
        home.journal.attachment(&attachment.cid).await.unwrap(),
        attachment
    );
    assert!(matches!(
        home.journal.attachment("../x").await,
        Err(StoreError::NotFound(_))
    ));
}

#[tokio::test]
async fn temporary_files_of_a_killed_process_are_removed_by_the_next_opening() {
    let home = home();
    home.journal.put_blob("kept".into()).await.unwrap();
    home.journal.close().await.unwrap();
    let own = pentad_journal::Owner::current();
    let mut gone = std::process::Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    let blobs = home.dir.path().join("blobs");
    let names = [
        format!(".new-{}-{}-living", own.pid, own.born),
        format!(".new-{}-{}-reused", own.pid, own.born + 1),
        format!(".new-{}-{}-killed", gone.id(), own.born),
        "a person's own file".to_owned(),
    ];
    for name in &names {
        std::fs::write(blobs.join(name), "half").unwrap();
    }
    let journal = pentad_journal::Journal::open(home.dir.path(), JournalOptions::default()).unwrap();
    let mut expected = vec![sha256_hex(b"kept"), names[0].clone(), names[3].clone()];
    expected.sort();
    assert_eq!(names_below(&blobs), expected);
    journal.close().await.unwrap();
}
