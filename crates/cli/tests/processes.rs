//! What the binary starts, keeps and ends: counts of processes, descriptors and threads, hang-ups, lost parents.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use pentad_testkit::client::RawClient;
use pentad_testkit::process::{gone_within, marked, wait_at_most};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::common::{CLIENT, END, Place, SESSION, binary, described, finished, keepers_of, spawner_of};

/// Calls of the run that looks for leaks.
const MANY: usize = 10_000;
/// Requests that are under way at the same time.
const AT_ONCE: usize = 10;

fn place_with_server(more: &str) -> Place {
    let place = Place::in_process();
    place.fixture_server("fixture", &[], more);
    place.grant(CLIENT, &["call:recipes", "call:fixture"]);
    place.litter();
    place
}

fn read_contract(face: &mut RawClient, tool: &str) {
    let read = face
        .call("read", &json!({"address": format!("~/tools/{tool}")}))
        .unwrap();
    assert_ne!(read["isError"], json!(true), "{read}");
}

#[allow(clippy::needless_pass_by_value)] // read better at every call
fn call_params(tool: &str, input: Value) -> Value {
    json!({"name": "call", "arguments": {"tool": tool, "input": input}})
}

/// Sends them all, then waits for all; each must succeed.
fn all_at_once(face: &mut RawClient, calls: impl IntoIterator<Item = Value>) -> Vec<Value> {
    let ids: Vec<u64> = calls
        .into_iter()
        .map(|call| face.send("tools/call", &call).unwrap())
        .collect();
    let mut answers: Vec<Value> = Vec::new();
    for id in ids {
        let aside = face.aside.iter().position(|message| message["id"] == json!(id));
        let answer = match aside {
            Some(place) => face.aside.swap_remove(place),
            None => face.response(id).unwrap(),
        };
        assert_ne!(answer["result"]["isError"], json!(true), "{answer}");
        answers.push(answer);
    }
    answers
}

fn entries(path: &str) -> usize {
    std::fs::read_dir(path).unwrap().count()
}

/// Calls `litter` so that it holds the call open, and waits until its processes run.
fn begin_litter(place: &Place, face: &mut RawClient) {
    read_contract(face, "recipes/litter");
    read_contract(face, "fixture/grandchild");
    face.call("call", &json!({"tool": "fixture/grandchild"})).unwrap();
    let fifo = place.fifo("litter-runs");
    let input = json!({"tag": "held", "fifo": fifo, "hold": "600"});
    face.send("tools/call", &call_params("recipes/litter", input))
        .unwrap();
    wait_for_word(&fifo);
}

fn wait_for_word(fifo: &Path) {
    let mut word = String::new();
    std::fs::File::open(fifo)
        .unwrap()
        .read_to_string(&mut word)
        .unwrap();
    assert_eq!(word, "started\n");
}

fn assert_keepers_are_gone(face: u32) {
    let left: Vec<Pid> = keepers_of(face)
        .into_iter()
        .filter(|pid| !gone_within(*pid, END).unwrap())
        .collect();
    assert!(left.is_empty(), "left by the face {face}:\n{}", described(&left));
}

#[test]
fn p02_fifty_headless_calls_leave_no_process() {
    let place = place_with_server("");
    for _ in 0..10 {
        let words = ["call", "fixture/echo", "text=hello"];
        let runs: Vec<Child> = (0..5)
            .map(|_| {
                place
                    .pentad(&words)
                    .stdout(Stdio::piped())
                    .stderr(Stdio::piped())
                    .spawn()
                    .unwrap()
            })
            .collect();
        for run in runs {
            let face = run.id();
            let output = run.wait_with_output().unwrap();
            assert_eq!(finished(&output), (Some(0), "hello\n".to_owned()));
            assert_keepers_are_gone(face);
        }
    }
    place.assert_nobody_is_left("fifty calls were made");
    assert!(place.witnessed("fixture", "start") >= 50);
}

#[test]
fn p07_a_face_ends_when_its_stdin_does() {
    let place = place_with_server("");
    let mut face = place.face();
    begin_litter(&place, &mut face);
    let pid = face.pid();
    assert!(face.close().unwrap().success());
    place.assert_nobody_is_left("stdin was closed");
    assert_keepers_are_gone(pid);
}

#[test]
fn kill_p07_a_face_ends_when_its_parent_dies_and_its_stdin_stays_open() {
    let place = place_with_server("");
    let script = "\"$0\" mcp <&3 & wait";
    let shell = [
        "-c".to_owned(),
        format!("exec 3<&0; {script}"),
        common::text(&binary()),
    ];
    let mut client = RawClient::start(
        &PathBuf::from("/bin/sh"),
        shell,
        &place.env(),
        &place.path("work"),
    )
    .unwrap();
    client.initialize(SESSION, CLIENT).unwrap();
    let shell = i32::try_from(client.pid()).unwrap();
    let faces: Vec<Pid> = marked(&place.mark())
        .into_iter()
        .filter(|pid| pid.as_raw_nonzero().get() != shell)
        .collect();
    let [face] = faces[..] else {
        panic!("one face was expected:\n{}", described(&faces))
    };
    begin_litter(&place, &mut client);

    client.signal(Signal::KILL).unwrap();
    assert!(gone_within(face, END).unwrap(), "the face outlived its parent");
    place.assert_nobody_is_left("the parent was killed");
    client.close().unwrap();
}

#[test]
fn p06_a_face_that_is_hung_up_on_ends_everything() {
    for signal in [Signal::HUP, Signal::TERM, Signal::INT] {
        let place = place_with_server("");
        let mut face = place.face();
        begin_litter(&place, &mut face);
        face.signal(signal).unwrap();
        face.wait().unwrap();
        place.assert_nobody_is_left(&format!("{signal:?} was sent"));
        assert_keepers_are_gone(face.pid());
    }
}

#[test]
fn p06_a_command_that_is_hung_up_on_ends_what_it_runs() {
    for signal in [Signal::HUP, Signal::TERM, Signal::INT] {
        let place = place_with_server("");
        let fifo = place.fifo("runs");
        let fifo_word = format!("fifo={}", fifo.display());
        let words = ["call", "recipes/litter", "tag=held", &fifo_word, "hold=600"];
        let mut run = place.pentad(&words).stdout(Stdio::null()).spawn().unwrap();
        wait_for_word(&fifo);
        let pid = Pid::from_child(&run);
        kill_process(pid, signal).unwrap();
        assert!(!wait_at_most(&mut run, END).unwrap().success(), "{signal:?}");
        place.assert_nobody_is_left(&format!("{signal:?} was sent"));
        assert_keepers_are_gone(run.id());
    }
}

#[test]
fn p09_a_server_that_ignores_every_request_to_end_is_ended() {
    let place = Place::in_process();
    place.fixture_server("fixture", &["--ignore-eof", "--ignore-term"], "");
    place.grant(CLIENT, &["call:fixture"]);
    let mut face = place.face();
    read_contract(&mut face, "fixture/grandchild");
    face.call("call", &json!({"tool": "fixture/grandchild"})).unwrap();
    assert!(face.close().unwrap().success());
    place.assert_nobody_is_left("the face ended");
}

#[test]
fn p13_a_hundred_concurrent_calls_start_one_server() {
    let place = place_with_server("");
    let calls = || (0..100).map(|n| call_params("fixture/echo", json!({"text": format!("text {n}")})));
    let mut face = place.face();
    // Nobody knows the server's tools yet: all of them wait for the same start, and get the contract.
    for answer in all_at_once(&mut face, calls()) {
        let result = answer["result"].to_string();
        assert!(
            result.contains("Not called yet") || result.contains("text "),
            "{answer}"
        );
    }
    assert_eq!(place.witnessed("fixture", "start"), 1);
    face.close().unwrap();

    // The tools are known from before, and the first call starts the server.
    let mut face = place.face();
    read_contract(&mut face, "fixture/echo");
    assert_eq!(place.witnessed("fixture", "start"), 1);
    for (n, answer) in all_at_once(&mut face, calls()).iter().enumerate() {
        assert_eq!(answer["result"]["content"][0]["text"], json!(format!("text {n}")));
    }
    assert_eq!(place.witnessed("fixture", "start"), 2);
    face.close().unwrap();
    place.assert_nobody_is_left("the faces ended");
    assert_eq!(place.witnessed("fixture", "eof"), 2);
}

/// What grows when something is forgotten.
#[derive(Debug)]
struct Held {
    descriptors: usize,
    threads: usize,
    processes: usize,
    spawner_descriptors: usize,
    server_descriptors: usize,
}

impl Held {
    fn by(place: &Place, face: u32) -> Self {
        let spawner = spawner_of(face).unwrap().as_raw_nonzero();
        let is_server = |pid: &Pid| {
            let words = std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
            String::from_utf8_lossy(&words).contains("fixture-mcp-server")
        };
        let processes = marked(&place.mark());
        let server = processes
            .iter()
            .find(|pid| is_server(pid))
            .unwrap()
            .as_raw_nonzero();
        Self {
            descriptors: entries(&format!("/proc/{face}/fd")),
            threads: entries(&format!("/proc/{face}/task")),
            processes: processes.len() + keepers_of(face).len(),
            spawner_descriptors: entries(&format!("/proc/{spawner}/fd")),
            server_descriptors: entries(&format!("/proc/{server}/fd")),
        }
    }

    fn assert_like(&self, before: &Self) {
        let both = format!("before: {before:?}\nafter: {self:?}");
        assert!(self.descriptors <= before.descriptors + 4, "{both}");
        // Threads for blocking work come and go; a leak of one in a hundred calls would be a hundred.
        assert!(self.threads <= before.threads + 8, "{both}");
        assert_eq!(self.processes, before.processes, "{both}");
        assert_eq!(self.spawner_descriptors, before.spawner_descriptors, "{both}");
        assert_eq!(self.server_descriptors, before.server_descriptors, "{both}");
    }
}

#[test]
fn p14_thousands_of_calls_leave_descriptors_threads_and_processes_as_they_were() {
    let place = place_with_server("trust = true");
    place.recipe("plain", "echo plain {tag}", &["tag"]);
    let mut face = place.face();
    for tool in ["fixture/echo", "fixture/structured", "recipes/plain"] {
        read_contract(&mut face, tool);
    }
    let call = |n: usize| match n % 20 {
        0 => call_params("recipes/plain", json!({"tag": n.to_string()})),
        1 => json!({"name": "write", "arguments": {"address": "~/memory/n.md", "content": n.to_string()}}),
        2 => json!({"name": "read", "arguments": {"address": "~/tools/", "options": {"query": "echo text"}}}),
        3 => call_params("fixture/structured", json!({})),
        4 => json!({"name": "read", "arguments": {"address": "run:", "options": {"limit": 3}}}),
        _ => call_params("fixture/echo", json!({"text": n.to_string()})),
    };
    let round = |face: &mut RawClient, from: usize, to: usize| {
        for begin in (from..to).step_by(AT_ONCE) {
            all_at_once(face, (begin..begin + AT_ONCE).map(call));
        }
    };
    round(&mut face, 0, 200);
    let before = Held::by(&place, face.pid());
    round(&mut face, 200, 200 + MANY);
    Held::by(&place, face.pid()).assert_like(&before);
    assert_eq!(place.witnessed("fixture", "start"), 1);
    face.close().unwrap();
    place.assert_nobody_is_left("the face ended");
}
