use std::os::unix::fs::{PermissionsExt as _, symlink};

use pentad_model::RefusalKind;
use pentad_space::{SpaceLimits, WebPolicy};
use serde_json::json;

use crate::support::{home, home_with};

#[tokio::test]
async fn a_file_is_read_relative_and_absolute() {
    let home = home();
    std::fs::create_dir(home.work("src")).unwrap();
    std::fs::write(home.work("src/main.rs"), "fn main() {}\n").unwrap();
    std::fs::write(home.work("blob.dat"), [0, 159, 146, 150]).unwrap();
    symlink("src/main.rs", home.work("link.rs")).unwrap();
    for path in ["src/main.rs", "./src/../src/main.rs", "link.rs"] {
        assert_eq!(home.text(&format!("file:{path}")).await, "fn main() {}\n");
    }
    let absolute = format!("file:{}", home.work("src/main.rs").display());
    let product = home.read(json!({"address": absolute})).await.unwrap();
    assert_eq!(product.value.unwrap()["mimeType"], "text/x-rust");
    insta::assert_snapshot!("listing", home.stable(&home.text("file:.").await));
    insta::assert_snapshot!("binary", home.stable(&home.text("file:blob.dat").await));
    let refusal = home.refused("file:/etc/passwd").await;
    insta::assert_snapshot!("outside", home.stable(&refusal.to_text()));
    let missing = home.refused("file:nothing.txt").await;
    assert_eq!(missing.kind, RefusalKind::NotFound);
}

#[tokio::test]
async fn s04_both_spellings_of_a_linked_root_work() {
    let mut home = home();
    std::fs::write(home.work("a.txt"), "a").unwrap();
    let alias = home.root.join("alias");
    symlink(home.work(""), &alias).unwrap();
    for (root, cwd) in [(&alias, home.work("")), (&home.work(""), alias.clone())] {
        home.scene.read_roots = vec![root.clone()];
        home.scene.write_roots = vec![root.clone()];
        home.scene.workspace.cwd = cwd;
        for path in [home.work("a.txt"), alias.join("a.txt"), "a.txt".into()] {
            assert_eq!(home.text(&format!("file:{}", path.display())).await, "a");
        }
        let address = format!("file:{}", alias.join("b.txt").display());
        home.write(json!({"address": address, "content": "b"}))
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn a_single_file_can_be_a_root() {
    let mut home = home();
    let (one, other, new) = (
        home.root.join("one.txt"),
        home.root.join("other.txt"),
        home.root.join("new/out.txt"),
    );
    std::fs::write(&one, "one").unwrap();
    std::fs::write(&other, "other").unwrap();
    home.scene.read_roots = vec![one.clone()];
    home.scene.write_roots = vec![one.clone(), new.clone()];
    assert_eq!(home.text(&format!("file:{}", one.display())).await, "one");
    for closed in [&other, &home.root] {
        assert_eq!(
            home.refused(&format!("file:{}", closed.display())).await.kind,
            RefusalKind::Forbidden
        );
    }
    for open in [&one, &new] {
        home.write(json!({"address": format!("file:{}", open.display()), "content": "x"}))
            .await
            .unwrap();
        assert_eq!(std::fs::read_to_string(open).unwrap(), "x");
    }
    let refused = home
        .write(json!({"address": format!("file:{}", other.display()), "content": "x"}))
        .await;
    assert_eq!(refused.unwrap_err().kind, RefusalKind::Forbidden);
}

#[tokio::test]
async fn closed_files_stay_closed_under_every_name() {
    let mut home = home();
    home.scene.read_roots = vec![home.root.clone()];
    home.scene.write_roots = vec![home.root.clone()];
    let (client, secret) = (home.root.join("client.json"), home.root.join("home/secrets.toml"));
    std::fs::write(&client, "token").unwrap();
    std::fs::write(&secret, "token").unwrap();
    std::fs::create_dir_all(home.memory("")).unwrap();
    std::fs::create_dir_all(home.root.join("home/memory/other")).unwrap();
    std::fs::write(home.memory("mine.txt"), "mine").unwrap();
    std::fs::write(home.root.join("home/memory/other/theirs.txt"), "token").unwrap();
    std::fs::hard_link(&client, home.work("hard-client")).unwrap();
    std::fs::hard_link(&secret, home.work("hard-secret")).unwrap();
    symlink(&secret, home.work("soft-secret")).unwrap();
    symlink(home.root.join("home"), home.work("soft-home")).unwrap();
    for path in [
        "client.json",
        "./client.json",
        "work/../client.json",
        "work/hard-client",
        "work/hard-secret",
        "work/soft-secret",
        "work/soft-home/secrets.toml",
        "work/soft-home",
        "home",
        "home/",
        "home/secrets.toml",
        "home/missing.toml",
        "home/memory",
        "home/memory/other/theirs.txt",
    ] {
        let address = format!("file:{}", home.root.join(path).display());
        let refusal = home.refused(&address).await;
        assert_eq!(refusal.kind, RefusalKind::Forbidden, "{path}: {refusal:?}");
        let written = home
            .write(json!({"address": address, "content": "evil"}))
            .await
            .unwrap_err();
        assert!(
            matches!(written.kind, RefusalKind::Forbidden | RefusalKind::Conflict),
            "{path}: {written:?}"
        );
    }
    let address = |path: &str| format!("file:{}", home.root.join(path).display());
    insta::assert_snapshot!(home.stable(&home.refused(&address("client.json")).await.to_text()));
    assert_eq!(home.text(&address("home/memory/main/mine.txt")).await, "mine");
    // A closed file that does not exist yet cannot be made either.
    let early = home
        .write(json!({"address": address("not-yet"), "content": "x"}))
        .await
        .unwrap_err();
    assert_eq!(early.kind, RefusalKind::Forbidden);
    // A closed path that is a link is closed both as the link and as its target.
    std::fs::write(home.work("dotfile"), "token").unwrap();
    symlink(home.work("dotfile"), home.root.join("linked.json")).unwrap();
    assert_eq!(
        home.refused(&address("linked.json")).await.kind,
        RefusalKind::Forbidden
    );
    assert_eq!(
        home.refused(&address("work/dotfile")).await.kind,
        RefusalKind::Forbidden
    );
    let delete = json!({"address": address("linked.json"), "options": {"delete": true}});
    assert_eq!(home.write(delete).await.unwrap_err().kind, RefusalKind::Forbidden);
    // An ordinary file with two names is read.
    std::fs::write(home.work("a"), "a").unwrap();
    std::fs::hard_link(home.work("a"), home.work("b")).unwrap();
    assert_eq!(home.text(&address("work/b")).await, "a");
    assert_eq!(std::fs::read_to_string(&client).unwrap(), "token");
}

#[tokio::test]
async fn writing_keeps_the_mode_and_replaces_whole_files() {
    let home = home();
    std::fs::write(home.work("run.sh"), "old").unwrap();
    std::fs::set_permissions(home.work("run.sh"), std::fs::Permissions::from_mode(0o751)).unwrap();
    let dry = home
        .write(json!({"address": "file:run.sh", "content": "new", "dryRun": true}))
        .await
        .unwrap();
    assert_eq!(dry.text, "Dry run: would replace file:run.sh (3 B)\n");
    assert_eq!(std::fs::read_to_string(home.work("run.sh")).unwrap(), "old");
    home.write(json!({"address": "file:run.sh", "content": "new"}))
        .await
        .unwrap();
    assert_eq!(std::fs::read_to_string(home.work("run.sh")).unwrap(), "new");
    assert_eq!(
        std::fs::metadata(home.work("run.sh"))
            .unwrap()
            .permissions()
            .mode()
            & 0o7777,
        0o751
    );
    home.write(json!({"address": "file:deep/er/x.txt", "content": "x"}))
        .await
        .unwrap();
    let onto = home
        .write(json!({"address": "file:deep", "content": "x"}))
        .await
        .unwrap_err();
    assert_eq!(onto.kind, RefusalKind::Conflict);

    let full = home
        .write(json!({"address": "file:deep", "options": {"delete": true}}))
        .await
        .unwrap_err();
    insta::assert_snapshot!(full.to_text());
    for address in ["file:deep/er/x.txt", "file:deep/er", "file:deep"] {
        let product = home
            .write(json!({"address": address, "options": {"delete": true}}))
            .await
            .unwrap();
        assert_eq!(product.value.unwrap()["deleted"], true);
    }
    let gone = home
        .write(json!({"address": "file:deep", "options": {"delete": true}}))
        .await
        .unwrap();
    assert_eq!(gone.value.unwrap()["deleted"], false);
    let root = home
        .write(json!({"address": "file:.", "options": {"delete": true}}))
        .await;
    assert!(root.is_err());
    assert!(home.work("").exists());
}

#[tokio::test]
async fn o05_a_long_file_keeps_head_and_tail_and_says_its_size() {
    let limits = SpaceLimits {
        text_bytes: 1000,
        ..SpaceLimits::default()
    };
    let home = home_with(limits, WebPolicy::default());
    let text: String = (1..=5000).map(|n| format!("line {n}\n")).collect();
    std::fs::write(home.work("log.txt"), &text).unwrap();
    let product = home.read(json!({"address": "file:log.txt"})).await.unwrap();
    assert!(product.text.starts_with("line 1\n") && product.text.ends_with("line 5000\n"));
    assert!(product.text.len() < 1100);
    assert_eq!(product.total, Some((text.len() as u64, 5000)));
    // One bad byte does not make a log unreadable.
    std::fs::write(
        home.work("bad.txt"),
        [b"ok ".as_slice(), &[b'x'; 40_000], b"\xff end\n"].concat(),
    )
    .unwrap();
    let product = home
        .read(json!({"address": "file:bad.txt", "options": {"bytes": "-6"}}))
        .await
        .unwrap();
    assert_eq!(product.text, "\u{fffd} end\n");
}

#[tokio::test]
async fn devices_and_processes_are_not_opened() {
    let mut home = home();
    home.scene.read_roots = vec!["/".into()];
    for path in [
        "/proc/self/environ",
        "/proc/self/cwd/Cargo.toml/..",
        "/dev/../proc/self/maps",
    ] {
        let kind = home.refused(&format!("file:{path}")).await.kind;
        assert!(
            matches!(kind, RefusalKind::Forbidden | RefusalKind::NotFound),
            "{path}"
        );
    }
    let refusal = home.refused("file:/dev/null").await;
    assert_eq!(refusal.kind, RefusalKind::NotSupported);
    insta::assert_snapshot!(refusal.to_text());
}
