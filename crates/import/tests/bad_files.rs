//! Files that are not as one would wish, and what is left of them.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use common::Person;
use pentad_import::replace::backups;
use pentad_import::{ApplyError, Client, ClientFile, Insist, Scope, apply, undo};

const SERVERS: &str = r#"{"a": 1, "mcpServers": {"x": {"command": "x", "env": {"TOKEN": "canary"}}}}"#;

fn none() -> BTreeMap<pentad_keeper::SecretName, pentad_keeper::SecretValue> {
    BTreeMap::new()
}

fn cursor(person: &Person, text: &str) -> PathBuf {
    let path = person.around.home_dir.join(".cursor/mcp.json");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    path
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Nothing was stored, written or left over.
fn untouched(person: &Person, path: &Path, text: &str) {
    assert_eq!(fs::read_to_string(path).unwrap(), text);
    assert_eq!(person.config(), "");
    assert!(person.secrets().is_empty());
    let beside = fs::read_dir(path.parent().unwrap()).unwrap().count();
    assert_eq!(beside, 1, "something lies beside {}", path.display());
    assert!(!person.home.state().join("imports").exists());
}

#[test]
fn a_link_stays_and_its_target_changes() {
    let person = Person::new();
    let link = cursor(&person, "");
    let dotfiles = person.around.home_dir.join("dotfiles");
    fs::create_dir(&dotfiles).unwrap();
    let real = dotfiles.join("cursor.json");
    fs::write(&real, SERVERS).unwrap();
    mode(&real, 0o640);
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink("../dotfiles/cursor.json", &link).unwrap();

    let plan = person.plan(Client::Cursor).unwrap();
    let applied = apply(&person.home, &plan, &none()).unwrap();
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert!(fs::read_to_string(&real).unwrap().contains("pentad"));
    assert_eq!(real.metadata().unwrap().mode() & 0o777, 0o640);
    assert_eq!(applied.backup.parent(), Some(dotfiles.as_path()));
    assert_eq!(applied.backup.metadata().unwrap().mode() & 0o777, 0o600);
    undo(&person.home, &link, Insist::No).unwrap();
    assert_eq!(fs::read_to_string(&real).unwrap(), SERVERS);
    assert_eq!(real.metadata().unwrap().mode() & 0o777, 0o640);
    assert!(link.symlink_metadata().unwrap().is_symlink());

    // A link that points elsewhere by now is another file than the one that was shown.
    let plan = person.plan(Client::Cursor).unwrap();
    fs::write(dotfiles.join("other.json"), SERVERS).unwrap();
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink("../dotfiles/other.json", &link).unwrap();
    let error = apply(&person.home, &plan, &none()).unwrap_err();
    assert!(matches!(error, ApplyError::Changed { .. }), "{error}");
}

#[test]
fn what_is_read_only_is_refused_before_anything_is_changed() {
    let person = Person::new();
    let path = cursor(&person, SERVERS);
    let folder = path.parent().unwrap();
    for (locked, bits, free) in [(path.as_path(), 0o444, 0o644), (folder, 0o555, 0o755)] {
        let plan = person.plan(Client::Cursor).unwrap();
        mode(locked, bits);
        let error = apply(&person.home, &plan, &none()).unwrap_err().to_string();
        mode(locked, free);
        assert!(
            error.starts_with(&format!(
                "{} is read-only; nothing was changed\nNext: ",
                locked.display()
            )),
            "{error}"
        );
        untouched(&person, &path, SERVERS);
    }
    fs::hard_link(&path, person.around.home_dir.join("second")).unwrap();
    let plan = person.plan(Client::Cursor).unwrap();
    let error = apply(&person.home, &plan, &none()).unwrap_err().to_string();
    assert!(error.contains("2 names (hard links)"), "{error}");
    untouched(&person, &path, SERVERS);
}

#[test]
fn f03_a_file_that_is_not_valid_is_kept() {
    let person = Person::new();
    let broken = "{\"mcpServers\": {\"x\": {\"command\": \"x\", \"env\": {\"TOKEN\": canary}}}}";
    let path = cursor(&person, broken);
    let error = person.plan(Client::Cursor).unwrap_err();
    insta::assert_snapshot!(person.hide(&error.to_string()), @"
    /ada/.cursor/mcp.json: line 1 is not valid JSON: Unexpected token; it was left as it is
    Next: repair the file, then repeat
    ");
    assert!(!format!("{error:?}").contains("canary"));
    untouched(&person, &path, broken);

    // Ours is kept as well, and the client's file is not touched for it.
    fs::write(&path, SERVERS).unwrap();
    let plan = person.plan(Client::Cursor).unwrap();
    fs::write(person.home.config_file(), "[http\n").unwrap();
    assert!(person.plan(Client::Cursor).is_err());
    assert!(apply(&person.home, &plan, &none()).is_err());
    assert_eq!(person.config(), "[http\n");
    fs::remove_file(person.home.config_file()).unwrap();
    untouched(&person, &path, SERVERS);
}

#[test]
fn f01_what_was_edited_since_it_was_shown_is_not_overwritten() {
    let person = Person::new();
    let path = cursor(&person, SERVERS);
    let plan = person.plan(Client::Cursor).unwrap();
    let edited = SERVERS.replace("\"a\": 1", "\"a\": 2");
    fs::write(&path, &edited).unwrap();
    let error = apply(&person.home, &plan, &none()).unwrap_err();
    assert!(matches!(error, ApplyError::Changed { .. }), "{error}");
    untouched(&person, &path, &edited);
}

#[test]
fn f01_many_imports_at_once_lose_nothing_and_no_reader_sees_half_a_file() {
    let person = Person::new();
    let path = cursor(&person, SERVERS);
    let (done, wins) = (AtomicBool::new(false), std::sync::atomic::AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let text = fs::read_to_string(&path).unwrap();
                assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{text}");
            }
        });
        let writers: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..10 {
                        let file =
                            ClientFile::of_client(Client::Cursor, Scope::User, &person.around).unwrap();
                        let plan = person.planner(false).plan(file).unwrap();
                        if !plan.is_empty() && apply(&person.home, &plan, &none()).is_ok() {
                            wins.fetch_add(1, Ordering::Relaxed);
                            undo(&person.home, &path, Insist::No).unwrap();
                        }
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }
        done.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
    assert!(wins.into_inner() > 0);
    assert_eq!(fs::read_to_string(&path).unwrap(), SERVERS);
    assert!(backups(&path).is_empty());
    assert_eq!(person.config().matches("[servers.x").count(), 1);
    assert_eq!(person.secrets().len(), 1);
}

#[test]
fn f02_nothing_of_ours_is_counted_in_the_client_s_file() {
    let texts: Vec<(String, String)> = (0..2)
        .map(|rounds| {
            let person = Person::new();
            let path = cursor(&person, SERVERS);
            for _ in 0..rounds {
                apply(&person.home, &person.plan(Client::Cursor).unwrap(), &none()).unwrap();
                undo(&person.home, &path, Insist::No).unwrap();
            }
            apply(&person.home, &person.plan(Client::Cursor).unwrap(), &none()).unwrap();
            (fs::read_to_string(&path).unwrap(), person.config())
        })
        .collect();
    assert_eq!(texts[0], texts[1], "an import leaves traces of earlier ones");
}

#[test]
fn s14_no_name_that_is_made_holds_a_piece_of_a_secret() {
    let person = Person::new();
    let secret = "ghp_canary00112233445566778899aabbccdd";
    let path = cursor(&person, &SERVERS.replace("canary", secret));
    let applied = apply(&person.home, &person.plan(Client::Cursor).unwrap(), &none()).unwrap();
    let mut names = vec![applied.backup.display().to_string(), person.config()];
    for entry in fs::read_dir(person.home.state().join("imports")).unwrap() {
        let entry = entry.unwrap().path();
        assert_eq!(entry.metadata().unwrap().mode() & 0o777, 0o600);
        names.push(fs::read_to_string(&entry).unwrap());
        names.push(entry.display().to_string());
    }
    names.extend(person.secrets().into_keys());
    for name in names {
        for piece in secret.as_bytes().windows(8) {
            assert!(!name.contains(std::str::from_utf8(piece).unwrap()), "{name}");
        }
    }
    assert!(!fs::read_to_string(&path).unwrap().contains("canary"));
}

#[test]
fn an_undo_keeps_what_came_after_the_import() {
    let person = Person::new();
    let path = cursor(&person, SERVERS);
    let applied = apply(&person.home, &person.plan(Client::Cursor).unwrap(), &none()).unwrap();
    let later = fs::read_to_string(&path)
        .unwrap()
        .replace("\"a\": 1", "\"a\": 2, \"token\": \"canary\"");
    fs::write(&path, &later).unwrap();
    let error = undo(&person.home, &path, Insist::No).unwrap_err().to_string();
    insta::assert_snapshot!(person.hide(&error), @"
    /ada/.cursor/mcp.json was changed after the import (compared with the file before it, these differ: a, mcpServers, token); it was left as it is
    Next: --undo --merge puts the servers back and keeps what was changed since; --undo --force puts the whole old file back and keeps this one as a backup
    ");
    assert_eq!(fs::read_to_string(&path).unwrap(), later);

    let undone = undo(&person.home, &path, Insist::Force).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), SERVERS);
    assert_eq!(fs::read_to_string(undone.replaced.unwrap()).unwrap(), later);
    assert!(!applied.backup.exists());
    let error = undo(&person.home, &path, Insist::No).unwrap_err().to_string();
    assert!(
        error.contains("--force puts") && error.contains(".pentad-backup-2 back"),
        "{error}"
    );
}

#[test]
fn several_imports_are_undone_one_by_one() {
    let person = Person::new();
    let path = cursor(&person, SERVERS);
    apply(&person.home, &person.plan(Client::Cursor).unwrap(), &none()).unwrap();
    let second = fs::read_to_string(&path)
        .unwrap()
        .replace("\"pentad\":", "\"y\": {\"command\": \"y\"}, \"pentad\":");
    fs::write(&path, &second).unwrap();
    let applied = apply(&person.home, &person.plan(Client::Cursor).unwrap(), &none()).unwrap();
    assert!(applied.backup.to_str().unwrap().ends_with("-2"));
    undo(&person.home, &path, Insist::No).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), second);
    // The first import is not what stands there any more.
    assert!(undo(&person.home, &path, Insist::No).is_err());
    // A file that is gone comes back by force only.
    fs::remove_file(&path).unwrap();
    assert!(undo(&person.home, &path, Insist::No).is_err());
    undo(&person.home, &path, Insist::Force).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), SERVERS);
}

#[test]
fn a_secret_that_was_set_meanwhile_is_not_overwritten() {
    let person = Person::new();
    let path = cursor(&person, SERVERS);
    let plan = person.plan(Client::Cursor).unwrap();
    let secrets = pentad_keeper::Secrets::of(&person.home);
    let name = plan.stored().next().unwrap();
    secrets
        .set(name, &pentad_keeper::SecretValue::new("mine".to_owned()))
        .unwrap();
    let error = apply(&person.home, &plan, &none()).unwrap_err();
    assert!(matches!(error, ApplyError::SecretTaken { .. }), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), SERVERS);
    assert_eq!(person.secrets().into_values().collect::<Vec<_>>(), ["mine"]);
    // Another plan takes another name.
    let plan = person.plan(Client::Cursor).unwrap();
    assert_eq!(
        plan.stored().map(ToString::to_string).collect::<Vec<_>>(),
        ["x-token-2"]
    );
}
