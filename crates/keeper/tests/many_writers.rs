//! Many processes change the same files at once.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use pentad_keeper::edit::edit_config;
use pentad_keeper::{Config, Home, SecretValue, Secrets};

const WRITERS: usize = 16;
const UPDATES: usize = 100;
const EDITS: usize = 25;
const SLOTS: usize = 2;
const PLACE: &str = "PENTAD_TEST_PLACE";
const WRITER: &str = "PENTAD_TEST_WRITER";

fn home(path: &Path) -> Home {
    Home::locate(Some(path), None, None).unwrap()
}

/// Starts this very test binary again as one writer.
fn start(test: &str, place: &Path, writer: usize) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(PLACE, place)
        .env(WRITER, writer.to_string())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

fn role() -> Option<(PathBuf, usize)> {
    let place = std::env::var_os(PLACE)?;
    Some((place.into(), std::env::var(WRITER).unwrap().parse().unwrap()))
}

/// Reads with `read` until all writers have ended; every read must succeed.
fn watch(mut writers: Vec<Child>, read: impl Fn()) {
    while !writers.is_empty() {
        read();
        // Leaves the processors to the writers; correctness does not depend on how often this reads.
        std::thread::park_timeout(std::time::Duration::from_millis(5));
        writers.retain_mut(|writer| match writer.try_wait().unwrap() {
            None => true,
            Some(status) => {
                assert!(status.success());
                false
            }
        });
    }
}

#[test]
fn f01_processes_that_change_the_configuration_lose_nothing() {
    if let Some((place, _)) = role() {
        for _ in 0..EDITS {
            edit_config(&home(&place), |document| {
                let count = document["limits"]["state_bytes"].as_integer().unwrap();
                let counter = document["limits"]["state_bytes"].as_value_mut().unwrap();
                let decor = counter.decor().clone();
                *counter = (count + 1).into();
                *counter.decor_mut() = decor;
                Ok(())
            })
            .unwrap();
        }
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let home = home(dir.path());
    home.prepare().unwrap();
    let start_at = 10_000_000_u64;
    let text = format!("# mine\n[limits]\nstate_bytes = {start_at} # counted\n");
    std::fs::write(home.config_file(), text).unwrap();
    let test = "f01_processes_that_change_the_configuration_lose_nothing";
    let writers = (0..WRITERS)
        .map(|writer| start(test, dir.path(), writer))
        .collect();
    watch(writers, || {
        Config::load(&home).unwrap();
    });
    let total = (WRITERS * EDITS) as u64;
    assert_eq!(
        std::fs::read_to_string(home.config_file()).unwrap(),
        format!("# mine\n[limits]\nstate_bytes = {} # counted\n", start_at + total)
    );
}

#[test]
fn f01_processes_that_set_secrets_lose_nothing() {
    if let Some((place, writer)) = role() {
        let secrets = Secrets::of(&home(&place));
        for update in 0..UPDATES {
            let name = format!("w{writer}.{}", update % SLOTS).parse().unwrap();
            secrets.set(&name, &SecretValue::new(update.to_string())).unwrap();
        }
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let home = home(dir.path());
    home.prepare().unwrap();
    let secrets = Secrets::of(&home);
    let test = "f01_processes_that_set_secrets_lose_nothing";
    let writers = (0..WRITERS)
        .map(|writer| start(test, dir.path(), writer))
        .collect();
    watch(writers, || {
        secrets.list().unwrap();
    });
    assert_eq!(secrets.list().unwrap().len(), WRITERS * SLOTS);
    for writer in 0..WRITERS {
        for slot in 0..SLOTS {
            let name = format!("w{writer}.{slot}").parse().unwrap();
            let value = secrets.get(&name).unwrap().unwrap();
            assert_eq!(value.reveal(), (UPDATES - SLOTS + slot).to_string());
        }
    }
    let left = std::fs::read_dir(home.keys()).unwrap().count();
    assert_eq!(left, 2, "temporary files are left");
}
