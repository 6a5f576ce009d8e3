//! The same hostile corpus through memory and files, reading and writing.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pentad_model::RefusalKind;
use serde_json::json;

use crate::support::{Home, home};

const SECRET: &str = "the secret outside";

/// Lays the corpus into `inside`; `outside` lies beside it and shares its name's beginning.
fn lay(inside: &Path, outside: &Path) {
    std::fs::create_dir_all(inside.join("real")).unwrap();
    std::fs::create_dir_all(outside.join("dir")).unwrap();
    std::fs::write(inside.join("real/ok.txt"), "inside").unwrap();
    std::fs::write(outside.join("secret.txt"), SECRET).unwrap();
    std::fs::write(outside.join("dir/secret.txt"), SECRET).unwrap();
    symlink(outside.join("secret.txt"), inside.join("abs-file")).unwrap();
    symlink(outside.join("dir"), inside.join("abs-dir")).unwrap();
    let up = format!("../{}", outside.file_name().unwrap().to_str().unwrap());
    symlink(format!("{up}/secret.txt"), inside.join("rel-file")).unwrap();
    symlink(&up, inside.join("rel-dir")).unwrap();
    symlink("rel-dir", inside.join("chain-1")).unwrap();
    symlink("chain-1", inside.join("chain-2")).unwrap();
    symlink("loop", inside.join("loop")).unwrap();
    symlink(outside.join("missing"), inside.join("dangling")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, inside.join("fifo"), rustix::fs::Mode::RUSR).unwrap();
    std::os::unix::net::UnixListener::bind(inside.join("socket")).unwrap();
}

/// Paths that must never show or change anything outside.
const PATHS: &[&str] = &[
    "abs-file",
    "abs-dir/secret.txt",
    "abs-dir",
    "rel-file",
    "rel-dir/secret.txt",
    "rel-dir/dir/secret.txt",
    "chain-1/secret.txt",
    "chain-2/secret.txt",
    "chain-2",
    "loop",
    "loop/x",
    "dangling",
    "fifo",
    "socket",
    "real/ok.txt/x",
];

/// Paths that only `file:` can even say.
const DOTTED: &[&str] = &[
    "../work-evil/secret.txt",
    "real/../../work-evil/secret.txt",
    "missing/../../work-evil/secret.txt",
    "rel-dir/../work-evil/secret.txt",
    "./../work-evil",
    "real/../rel-file",
    "/../../../../../../etc/passwd",
];

fn corpus() -> Home {
    let home = home();
    lay(&home.root.join("work"), &home.root.join("work-evil"));
    lay(
        &home.root.join("home/memory/main"),
        &home.root.join("home/memory/main-evil"),
    );
    home
}

fn untouched(home: &Home) {
    for outside in ["work-evil", "home/memory/main-evil"] {
        let outside = home.root.join(outside);
        for file in ["secret.txt", "dir/secret.txt"] {
            assert_eq!(std::fs::read_to_string(outside.join(file)).unwrap(), SECRET);
        }
        assert!(!outside.join("missing").exists());
        assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 2);
    }
}

#[tokio::test]
async fn s01_nothing_outside_is_read() {
    let home = corpus();
    for prefix in ["~/memory/", "file:"] {
        for path in PATHS {
            let address = format!("{prefix}{path}");
            let refusal = home.refused(&address).await;
            assert!(!refusal.to_text().contains(SECRET), "{address}");
            assert!(refusal.kind != RefusalKind::Internal, "{address}: {refusal:?}");
        }
    }
    for path in DOTTED {
        let refusal = home.refused(&format!("file:{path}")).await;
        assert!(
            matches!(refusal.kind, RefusalKind::Forbidden | RefusalKind::NotFound),
            "{path}: {refusal:?}"
        );
    }
    for path in [
        "../main-evil/secret.txt",
        "real/../../main-evil/secret.txt",
        "a\0b",
    ] {
        assert_eq!(
            home.refused(&format!("~/memory/{path}")).await.kind,
            RefusalKind::BadRequest
        );
    }
    assert_eq!(home.refused("file:a\0b").await.kind, RefusalKind::BadRequest);
    assert_eq!(home.text("file:real/ok.txt").await, "inside");
    assert_eq!(home.text("~/memory/real/ok.txt").await, "inside");
}

#[tokio::test]
async fn s02_nothing_outside_is_written_or_deleted() {
    let home = corpus();
    for prefix in ["~/memory/", "file:"] {
        for path in PATHS
            .iter()
            .chain(&["rel-dir/new.txt", "chain-2/new/deep.txt", "abs-dir/new.txt"])
        {
            let address = format!("{prefix}{path}");
            for dry_run in [true, false] {
                let refused = home
                    .write(json!({"address": address, "content": "evil", "dryRun": dry_run}))
                    .await
                    .unwrap_err();
                assert!(refused.kind != RefusalKind::Internal, "{address}: {refused:?}");
            }
            untouched(&home);
        }
    }
    for path in DOTTED {
        let written = home
            .write(json!({"address": format!("file:{path}"), "content": "evil"}))
            .await;
        assert!(written.is_err(), "{path}");
        if path.ends_with("rel-file") {
            continue;
        }
        let deleted = home
            .write(json!({"address": format!("file:{path}"), "options": {"delete": true}}))
            .await;
        assert!(deleted.is_err(), "{path}");
    }
    // A link itself may be deleted; what it points to stays.
    for address in [
        "~/memory/abs-dir",
        "file:abs-dir",
        "~/memory/chain-1",
        "file:rel-file",
    ] {
        home.write(json!({"address": address, "options": {"delete": true}}))
            .await
            .unwrap();
    }
    untouched(&home);
}

#[tokio::test]
async fn deleting_a_folder_of_links_follows_none() {
    let home = corpus();
    std::fs::create_dir(home.memory("tree")).unwrap();
    symlink(home.root.join("work-evil"), home.memory("tree/link")).unwrap();
    home.write(json!({"address": "~/memory/tree", "options": {"delete": true}}))
        .await
        .unwrap();
    assert!(!home.memory("tree").exists());
    untouched(&home);
}

#[tokio::test]
async fn names_are_bytes_and_may_be_long() {
    let home = home();
    let longest = "é".repeat(127) + "x";
    let too_long = "é".repeat(128);
    let (composed, decomposed) = ("caf\u{e9}.txt", "cafe\u{301}.txt");
    for prefix in ["~/memory/", "file:"] {
        for (name, content) in [(longest.as_str(), "long"), (composed, "one"), (decomposed, "two")] {
            home.write(json!({"address": format!("{prefix}{name}"), "content": content}))
                .await
                .unwrap();
        }
        assert_eq!(home.text(&format!("{prefix}{composed}")).await, "one");
        assert_eq!(home.text(&format!("{prefix}{decomposed}")).await, "two");
        assert_eq!(home.text(&format!("{prefix}{longest}")).await, "long");
        let address = format!("{prefix}{too_long}");
        let written = home
            .write(json!({"address": address, "content": "x"}))
            .await
            .unwrap_err();
        assert_eq!(written.kind, RefusalKind::BadRequest, "{written:?}");
        assert_eq!(home.refused(&address).await.kind, RefusalKind::BadRequest);
    }
}

#[tokio::test]
async fn s06_a_flipping_link_never_shows_what_is_outside() {
    let home = corpus();
    std::fs::create_dir(home.memory("spot")).unwrap();
    let (stop, flips) = (Arc::new(AtomicBool::new(false)), home.work("flip"));
    let (inside, outside) = (home.work("real"), home.root.join("work-evil"));
    std::fs::write(inside.join("secret.txt"), "inside").unwrap();
    let (memory_flip, memory_inside) = (home.memory("flip"), home.memory("real"));
    std::fs::write(memory_inside.join("secret.txt"), "inside").unwrap();
    let stopping = Arc::clone(&stop);
    let parked = home.root.join("parked");
    let flipper = std::thread::spawn(move || {
        let mut turns = 0_u64;
        while !stopping.load(Ordering::Relaxed) {
            // A link inside, a link outside, and a real folder take turns at the same name.
            for (flip, inside) in [(&flips, &inside), (&memory_flip, &memory_inside)] {
                let _ = std::fs::remove_file(flip);
                let _ = symlink(inside, flip);
                let _ = std::fs::remove_file(flip);
                let _ = symlink(&outside, flip);
                let _ = std::fs::remove_file(flip);
                if std::fs::rename(inside, flip).is_ok() {
                    let _ = std::fs::rename(flip, &parked);
                    let _ = symlink(&outside, flip);
                    let _ = std::fs::rename(&parked, inside);
                }
            }
            turns += 1;
        }
        turns
    });
    let mut seen = 0;
    for _ in 0..5_000 {
        for address in ["file:flip/secret.txt", "~/memory/flip/secret.txt"] {
            match home.read(json!({"address": address})).await {
                Ok(product) => {
                    assert_eq!(product.text, "inside");
                    seen += 1;
                }
                Err(refusal) => assert!(!refusal.to_text().contains(SECRET)),
            }
        }
    }
    stop.store(true, Ordering::Relaxed);
    assert!(flipper.join().unwrap() > 0);
    assert!(seen > 0, "the link was never inside when it was read");
}
