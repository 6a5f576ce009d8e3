use pentad_model::RefusalKind;
use pentad_model::outcome::Part;
use pentad_space::{SpaceLimits, WebPolicy, attach_bytes};
use serde_json::json;

use crate::support::{NOW, PNG, home, home_with};

#[tokio::test]
async fn an_empty_memory_lists_itself() {
    let home = home();
    insta::assert_snapshot!(home.text("~/memory/").await);
    assert!(
        !home.root.join("home/memory/main").exists(),
        "reading makes nothing"
    );
    let refusal = home.refused("~/memory/a/b.md").await;
    insta::assert_snapshot!(refusal.to_text());
}

#[tokio::test]
async fn what_was_written_is_read_listed_and_deleted() {
    let home = home();
    let wrote = home
        .write(json!({"address": "~/memory/notes/a.md", "content": "one\ntwo\n"}))
        .await
        .unwrap();
    assert_eq!(wrote.text, "Wrote ~/memory/notes/a.md (8 B)\n");
    let again = home
        .write(json!({"address": "~/memory/notes/a.md", "content": "one\ntwo\nthree é\n"}))
        .await
        .unwrap();
    assert_eq!(again.value.unwrap()["replaced"], true);
    home.write(json!({"address": "~/memory/Z.txt", "content": ""}))
        .await
        .unwrap();
    std::fs::write(home.memory("data.bin"), b"\0\x01\x02").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", home.memory("link")).unwrap();

    insta::assert_snapshot!("listing", home.stable(&home.text("~/memory/").await));
    let read = home
        .read(json!({"address": "~/memory/notes/a.md"}))
        .await
        .unwrap();
    assert_eq!(read.text, "one\ntwo\nthree é\n");
    assert!(read.selected && read.total.is_none());
    assert_eq!(read.value.unwrap()["totalLines"], 3);
    insta::assert_snapshot!("binary", home.stable(&home.text("~/memory/data.bin").await));
    insta::assert_snapshot!("directory", home.stable(&home.text("~/memory/notes").await));

    let deleted = home
        .write(json!({"address": "~/memory/notes/", "options": {"delete": true}}))
        .await
        .unwrap();
    assert_eq!(deleted.value.unwrap()["deleted"], true);
    let nothing = home
        .write(json!({"address": "~/memory/notes", "options": {"delete": true}}))
        .await
        .unwrap();
    assert_eq!(nothing.value.unwrap()["deleted"], false);
    let left: Vec<_> = std::fs::read_dir(home.memory(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left.len(), 3, "{left:?}");
}

#[tokio::test]
async fn o10_parts_of_a_file_are_chosen_by_options() {
    let home = home();
    let text: String = (1..=100).map(|n| format!("line {n}\n")).collect();
    home.write(json!({"address": "~/memory/log", "content": text}))
        .await
        .unwrap();
    let read = |options| home.read(json!({"address": "~/memory/log", "options": options}));
    let lines = read(json!({"lines": "-2"})).await.unwrap();
    assert_eq!(lines.text, "line 99\nline 100\n");
    assert_eq!(lines.total, Some((text.len() as u64, 100)));
    assert_eq!(read(json!({"bytes": "5-9"})).await.unwrap().text, "1\nlin");
    assert_eq!(
        read(json!({"grep": "^line 9.$"})).await.unwrap().value.unwrap()["matched"],
        10
    );
    assert_eq!(
        read(json!({"grep": "("})).await.unwrap_err().kind,
        RefusalKind::BadRequest
    );
}

#[tokio::test]
async fn a_dry_run_changes_nothing_and_sees_everything() {
    let home = home();
    home.write(json!({"address": "~/memory/a", "content": "x"}))
        .await
        .unwrap();
    for (arguments, expected) in [
        (
            json!({"address": "~/memory/b/c", "content": "new", "dryRun": true}),
            "Dry run: would write ~/memory/b/c (3 B)\n",
        ),
        (
            json!({"address": "~/memory/a", "content": "new", "dryRun": true}),
            "Dry run: would replace ~/memory/a (3 B)\n",
        ),
        (
            json!({"address": "~/memory/a", "options": {"delete": true}, "dryRun": true}),
            "Dry run: ~/memory/a would be deleted; nothing was changed.\n",
        ),
    ] {
        assert_eq!(home.write(arguments).await.unwrap().text, expected);
    }
    let under_file = json!({"address": "~/memory/a/b", "content": "x", "dryRun": true});
    assert_eq!(
        home.write(under_file).await.unwrap_err().kind,
        RefusalKind::NotFound
    );
    assert_eq!(std::fs::read(home.memory("a")).unwrap(), b"x");
    assert!(!home.memory("b").exists());
}

#[tokio::test]
async fn quotas_hold_per_file_and_per_agent() {
    let limits = SpaceLimits {
        memory_bytes: 100,
        memory_file_bytes: 60,
        ..SpaceLimits::default()
    };
    let home = home_with(limits, WebPolicy::default());
    let write = |path: &str, size: usize| {
        home.write(json!({"address": format!("~/memory/{path}"), "content": "x".repeat(size)}))
    };
    assert_eq!(write("a", 61).await.unwrap_err().kind, RefusalKind::TooLarge);
    write("a", 60).await.unwrap();
    write("b", 40).await.unwrap();
    let full = write("c", 1).await.unwrap_err();
    insta::assert_snapshot!(full.to_text());
    // Replacing counts the difference only.
    write("a", 59).await.unwrap();
    write("c", 1).await.unwrap();
}

#[tokio::test]
async fn a_write_needs_exactly_one_source() {
    let home = home();
    let none = home.write(json!({"address": "~/memory/a"})).await.unwrap_err();
    insta::assert_snapshot!(none.to_text());
    let two = json!({"address": "~/memory/a", "content": "x", "options": {"delete": true}});
    assert_eq!(home.write(two).await.unwrap_err().kind, RefusalKind::BadRequest);
    for address in ["~/memory/", "~/memory/dir/"] {
        let refusal = home
            .write(json!({"address": address, "content": "x"}))
            .await
            .unwrap_err();
        assert_eq!(refusal.kind, RefusalKind::BadRequest);
    }
    let whole = home
        .write(json!({"address": "~/memory/", "options": {"delete": true}}))
        .await;
    assert_eq!(whole.unwrap_err().kind, RefusalKind::BadRequest);
}

#[tokio::test]
async fn an_image_is_shown_and_kept() {
    let home = home();
    home.write(json!({"address": "~/memory/x", "content": ""}))
        .await
        .unwrap();
    std::fs::write(home.memory("p.png"), PNG).unwrap();
    let product = home.read(json!({"address": "~/memory/p.png"})).await.unwrap();
    let [Part::Image { cid, mime, data }] = product.parts.as_slice() else {
        panic!("{product:?}")
    };
    assert_eq!((mime.as_str(), data.is_some()), ("image/png", true));
    insta::assert_snapshot!(home.stable(&product.text));
    let kept = home
        .read(json!({"address": format!("attachment:{cid}")}))
        .await
        .unwrap();
    assert_eq!(kept.parts.len(), 1);
}

#[tokio::test]
async fn an_attachment_becomes_a_file() {
    let home = home();
    let attached = attach_bytes(&*home.store, "a,b\n".into(), Some("../t.csv"), 100, NOW)
        .await
        .unwrap();
    assert_eq!(
        (attached.name.as_deref(), attached.mime.as_str()),
        (Some("t.csv"), "text/csv")
    );
    let options = json!({"fromAttachment": attached.cid});
    let written = home
        .write(json!({"address": "~/memory/", "options": options}))
        .await
        .unwrap();
    assert_eq!(written.address, "~/memory/attachments/t.csv");
    assert_eq!(home.text("~/memory/attachments/t.csv").await, "a,b\n");
    let large = attach_bytes(&*home.store, vec![0; 101].into(), None, 100, NOW)
        .await
        .unwrap_err();
    assert_eq!(large.kind, RefusalKind::TooLarge);
}

#[tokio::test]
async fn writers_leave_no_half_written_files() {
    let home = home();
    home.write(json!({"address": "~/memory/d/x", "content": "1"}))
        .await
        .unwrap();
    let onto_directory = home
        .write(json!({"address": "~/memory/d", "content": "1"}))
        .await
        .unwrap_err();
    assert_eq!(onto_directory.kind, RefusalKind::Conflict);
    assert_eq!(std::fs::read_dir(home.memory("")).unwrap().count(), 1);
}
