//! Runs as a person steers them from a shell, through a real keeper.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use std::io::{BufRead as _, BufReader};
use std::process::{Output, Stdio};

use common::{Place, text};
use serde_json::Value;

fn said(output: &Output) -> (i32, String, String) {
    (
        output.status.code().unwrap(),
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

/// Starts a recipe that waits until something is written to a pipe; returns its run.
fn held(place: &Place) -> (String, std::path::PathBuf) {
    let fifo = place.fifo("go");
    place.recipe("hold", "cat {file:path}", &["file:path"]);
    let words = ["delegate", "--recipe", "hold", "--detach", "--json"];
    let file = format!("file={}", text(&fifo));
    let output = place.pentad(&[&words[..], &[&file]].concat()).output().unwrap();
    let (code, out, err) = said(&output);
    assert_eq!(code, 0, "{out}{err}");
    let outcome: Value = serde_json::from_str(&out).unwrap();
    let run = outcome["run"].as_str().map_or_else(
        || outcome["value"]["runId"].as_str().unwrap().to_owned(),
        str::to_owned,
    );
    (run, fifo)
}

#[test]
fn a_run_is_watched_until_somebody_ends_it() {
    let place = Place::new();
    let (run, _fifo) = held(&place);
    let mut watch = place
        .pentad(&["runs", "watch", &run, "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    let mut status = next()["status"].clone();
    while status == "queued" {
        status = next()["status"].clone();
    }
    assert_eq!(status, "running");
    let tree = place.pentad(&["runs", "tree"]).output().unwrap();
    assert!(said(&tree).1.contains(&format!("run:{run}")), "{tree:?}");
    let why = place.pentad(&["runs", "why", &run]).output().unwrap();
    assert!(said(&why).1.contains("It is at work since"), "{why:?}");
    let cancel = ["runs", "cancel", &run, "--reason", "not today"];
    let (code, out, err) = said(&place.pentad(&cancel).output().unwrap());
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("Next: read run:"), "{out}");
    let mut last = next();
    while last["status"] == "running" {
        last = next();
    }
    assert_eq!(last["status"], "canceled");
    assert_eq!(watch.wait().unwrap().code(), Some(1));
    let (code, _, err) = said(&place.pentad(&cancel).output().unwrap());
    assert_eq!(code, 3, "{err}");
    assert!(err.contains("has ended"), "{err}");
    place.stop();
}

#[test]
fn a_run_that_has_ended_is_started_again() {
    let place = Place::new();
    let (run, fifo) = held(&place);
    std::fs::write(&fifo, "first").unwrap();
    let watched = place.pentad(&["runs", "watch", &run]).output().unwrap();
    let (code, out, err) = said(&watched);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.lines().last().unwrap().ends_with("succeeded"), "{out}");
    let again = place.pentad(&["runs", "retry", &run, "--json"]).output().unwrap();
    let (code, out, err) = said(&again);
    assert_eq!(code, 0, "{out}{err}");
    let outcome: Value = serde_json::from_str(&out).unwrap();
    let new = outcome["value"]["newRun"].as_str().unwrap().to_owned();
    std::fs::write(&fifo, "second").unwrap();
    let watched = place.pentad(&["runs", "watch", &new]).output().unwrap();
    assert_eq!(watched.status.code(), Some(0), "{watched:?}");
    let journal = place.pentad(&["runs", &new, "journal"]).output().unwrap();
    assert!(said(&journal).1.contains("asked #0"), "{journal:?}");
    let record = place.pentad(&["runs", &new]).output().unwrap();
    assert!(
        said(&record).1.contains(&format!("continues: run:{run}")),
        "{record:?}"
    );
    place.stop();
}

#[test]
fn what_a_run_does_not_wait_for_is_said_with_the_next_step() {
    let place = Place::new();
    let (run, fifo) = held(&place);
    let (code, out, err) = said(
        &place
            .pentad(&["runs", "answer", &run, "9", "1"])
            .output()
            .unwrap(),
    );
    assert_eq!((code, out.as_str()), (3, ""), "{err}");
    assert!(
        err.contains("waits for nothing at #9") && err.contains("/why"),
        "{err}"
    );
    let signal = ["runs", "signal", &run, "approve", "{\"by\": \"ada\"}"];
    let (code, out, err) = said(&place.pentad(&signal).output().unwrap());
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("it is kept until it does"), "{out}");
    let broken = ["runs", "signal", &run, "approve", "{broken"];
    assert_eq!(said(&place.pentad(&broken).output().unwrap()).0, 3);
    let nobody = ["runs", "cancel", "nobody"];
    let (code, _, err) = said(&place.pentad(&nobody).output().unwrap());
    assert_eq!(code, 3, "{err}");
    assert!(err.contains("read run: lists the runs"), "{err}");
    std::fs::write(&fifo, "done").unwrap();
    place.stop();
}
