//! One keeper for all faces of a home: who starts it, who shares what, who may do what, and how it ends.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use common::{CLIENT, END, Place, Reading, SESSION, binary, text};
use pentad_model::EventBody;
use pentad_testkit::client::RawClient;
use pentad_testkit::process::{gone_within, wait_at_most};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// Calls a tool twice: the first call shows its contract.
fn call(face: &mut RawClient, tool: &str, input: &Value) -> String {
    let call = json!({"tool": tool, "input": input});
    let contract = face.call_text("call", &call).unwrap();
    assert!(contract.starts_with("Not called yet"), "{contract}");
    face.call_text("call", &call).unwrap()
}

fn kill(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

#[test]
fn p19_three_clients_share_each_home_server_and_have_a_thread_server_each() {
    let place = Place::new();
    place.fixture_server("shared", &[], "");
    place.fixture_server("own", &[], "share = \"thread\"");
    place.grant(CLIENT, &["call:shared", "call:own"]);
    let mut faces: Vec<RawClient> = (0..3).map(|_| place.face()).collect();
    for round in ["a", "b"] {
        for (n, face) in faces.iter_mut().enumerate() {
            let input = json!({"text": format!("{round}{n}")});
            for tool in ["shared/echo", "own/echo"] {
                let said = match round {
                    "a" => call(face, tool, &input),
                    _ => face
                        .call_text("call", &json!({"tool": tool, "input": input}))
                        .unwrap(),
                };
                assert_eq!(said, format!("{round}{n}"));
            }
        }
    }
    assert_eq!(
        place.witnessed("shared", "start"),
        1,
        "{:?}",
        place.witness("shared")
    );
    // One start to learn its tools, which no thread had asked for, and one for each thread.
    assert_eq!(place.witnessed("own", "start"), 4, "{:?}", place.witness("own"));
    for face in faces {
        face.close().unwrap();
    }
    // The servers are the keeper's: they stay for whoever comes next.
    let mut next = place.face();
    assert_eq!(call(&mut next, "shared/echo", &json!({"text": "next"})), "next");
    assert_eq!(place.witnessed("shared", "start"), 1);
    next.close().unwrap();
    place.assert_nobody_is_left("after the keeper");
}

#[test]
fn sixty_four_starts_at_once_make_one_keeper() {
    let place = Place::new();
    let commands: Vec<_> = (0..64)
        .map(|n| {
            let words = [
                "write".to_owned(),
                format!("~/memory/{n}.md"),
                format!("from {n}"),
            ];
            place.pentad(&words).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for mut command in commands {
        let status = wait_at_most(&mut command, END).unwrap();
        assert!(status.success(), "{status}");
    }
    let listing = place.pentad(&["read", "~/memory/"]).output().unwrap();
    let listing = String::from_utf8_lossy(&listing.stdout).into_owned();
    assert_eq!(listing.matches(".md").count(), 64, "{listing}");
    let log = std::fs::read_to_string(place.path("home/state/keeper.log")).unwrap();
    assert_eq!(
        log, "",
        "nobody was turned away, and nobody had to wait for another"
    );
    let keepers = Command::new("pgrep")
        .args(["-f", &format!("{} __keeper", text(&place.home()))])
        .output();
    assert_eq!(
        String::from_utf8_lossy(&keepers.unwrap().stdout).lines().count(),
        1
    );
}

#[test]
fn a_killed_keeper_leaves_interrupted_answers_and_the_next_call_starts_anew() {
    let place = Place::new();
    let fifo = place.fifo("started");
    place.litter();
    place.grant(CLIENT, &["call:recipes"]);
    let mut face = place.face();
    let input = json!({"tag": "x", "fifo": text(&fifo), "hold": "600"});
    let request = json!({"tool": "litter", "input": input});
    assert!(
        face.call_text("call", &request)
            .unwrap()
            .starts_with("Not called yet")
    );
    let id = face
        .send("tools/call", &json!({"name": "call", "arguments": request}))
        .unwrap();
    assert_eq!(std::fs::read_to_string(&fifo).unwrap(), "started\n");

    let first = place.keeper();
    kill(first);
    let answer = face.response(id).unwrap();
    let said = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert_eq!(answer["result"]["isError"], true);
    assert!(
        said.contains("interrupted") && said.contains("may or may not have happened"),
        "{said}"
    );

    // The same conversation goes on with another keeper, which knows what happened.
    let after = face.call_text("read", &json!({"address": "activity:"})).unwrap();
    assert!(after.contains("litter"), "{after}");
    assert_ne!(place.keeper(), first);
    let runs = face.call_text("read", &json!({"address": "run:"})).unwrap();
    assert!(!runs.contains("running"), "{runs}");
    face.close().unwrap();
    place.assert_nobody_is_left("after a killed keeper");
    Reading::of(&place).whole();
}

#[test]
fn a_face_that_goes_takes_its_calls_along_and_nothing_else() {
    let place = Place::new();
    let fifo = place.fifo("started");
    place.litter();
    place.grant(CLIENT, &["call:recipes"]);
    let mut staying = place.face();
    staying.call_text("read", &json!({"address": "~/self"})).unwrap();
    let mut leaving = place.face();
    let input = json!({"tag": "x", "fifo": text(&fifo), "hold": "600"});
    let request = json!({"tool": "litter", "input": input});
    leaving.call_text("call", &request).unwrap();
    leaving
        .send("tools/call", &json!({"name": "call", "arguments": request}))
        .unwrap();
    assert_eq!(std::fs::read_to_string(&fifo).unwrap(), "started\n");
    kill(i32::try_from(leaving.pid()).unwrap());
    let keeper = place.keeper();

    // What it had started ends, and is recorded as canceled.
    let mut runs = String::new();
    let mut shown = BTreeSet::new();
    let follow = place
        .pentad(&["log", "--follow", "--json"])
        .stdout(Stdio::piped())
        .spawn();
    let mut follow = follow.unwrap();
    for line in BufReader::new(follow.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        assert!(shown.insert(line.clone()), "shown twice: {line}");
        if line.contains("canceled") {
            runs = line;
            break;
        }
    }
    assert!(runs.contains("canceled"), "{runs}");
    let _ = follow.kill();
    let _ = follow.wait();
    assert_eq!(place.keeper(), keeper, "the keeper lives");
    staying.call_text("read", &json!({"address": "~/self"})).unwrap();
    staying.close().unwrap();
    place.assert_nobody_is_left("after both faces");
}

/// Attaches as a raw process and returns the keeper's first line.
fn attach(place: &Place, frame: &Value) -> (UnixStream, Value) {
    let mut stream = UnixStream::connect(place.path("home/state/pentad.sock")).unwrap();
    stream.write_all(format!("{frame}\n").as_bytes()).unwrap();
    let mut line = String::new();
    BufReader::new(stream.try_clone().unwrap())
        .read_line(&mut line)
        .unwrap();
    (stream, serde_json::from_str(&line).unwrap_or(Value::Null))
}

fn frame(version: &[u64]) -> Value {
    json!({"protocol": 1, "build": {"version": version, "stamp": 0}, "role": "client"})
}

#[test]
fn an_idle_keeper_makes_way_for_a_newer_build_and_a_busy_one_says_so() {
    let place = Place::new();
    let mut face = place.face();
    face.call_text("read", &json!({"address": "~/self"})).unwrap();
    let keeper = place.keeper();
    let (busy, welcome) = attach(&place, &frame(&[99, 0, 0]));
    let notice = welcome["attached"]["notice"].as_str().unwrap();
    assert!(
        notice.contains("older build") && notice.contains("pentad stop"),
        "{notice}"
    );
    assert_eq!(welcome["attached"]["protocol"], 1);
    drop(busy);
    let (_older, welcome) = attach(&place, &frame(&[0, 0, 1]));
    assert_eq!(welcome["attached"]["notice"], Value::Null);
    drop(_older);
    face.close().unwrap();

    // The faces above leave on their own time; the newer build asks until it is alone.
    loop {
        let (_alone, welcome) = attach(&place, &frame(&[99, 0, 0]));
        if welcome == json!("restarting") {
            break;
        }
        assert!(welcome["attached"].is_object(), "{welcome}");
    }
    assert!(gone_within(Pid::from_raw(keeper).unwrap(), END).unwrap());
    let output = place.pentad(&["read", "~/self"]).output().unwrap();
    assert!(output.status.success());
    assert_ne!(place.keeper(), keeper);
}

#[test]
fn garbage_silence_and_unknown_protocols_at_the_socket_harm_nobody() {
    let place = Place::new();
    let mut face = place.face();
    face.call_text("read", &json!({"address": "~/self"})).unwrap();
    let (_, said) = attach(&place, &json!({"hello": 1}));
    assert!(
        said["refused"]["message"]
            .as_str()
            .unwrap()
            .contains("attach frame"),
        "{said}"
    );
    let (_, said) = attach(
        &place,
        &json!({"protocol": 0, "build": {"version": []}, "role": "shell"}),
    );
    assert!(
        said["refused"]["message"]
            .as_str()
            .unwrap()
            .contains("Protocol 0"),
        "{said}"
    );
    let (mut stream, _) = attach(&place, &frame(&[0, 0, 1]));
    stream
        .write_all(b"\xff\xfe not JSON\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"nonsense\"}\n")
        .unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    assert!(
        line.is_empty() || line.contains("does not know this call"),
        "{line}"
    );
    face.call_text("read", &json!({"address": "~/self"})).unwrap();
    face.close().unwrap();
}

#[test]
fn a_keeper_ends_when_nobody_uses_it_and_when_its_home_is_taken_away() {
    let place = Place::new();
    place.configure("\n[keeper]\nidle_seconds = 1\n");
    assert!(
        place
            .pentad(&["read", "~/self"])
            .output()
            .unwrap()
            .status
            .success()
    );
    assert!(gone_within(Pid::from_raw(place.keeper()).unwrap(), END).unwrap());

    let other = Place::new();
    let mut face = other.face();
    face.call_text("read", &json!({"address": "~/self"})).unwrap();
    let keeper = other.keeper();
    std::fs::remove_dir_all(other.path("home")).unwrap();
    assert!(gone_within(Pid::from_raw(keeper).unwrap(), END).unwrap());
    drop(face.close());
}

#[test]
fn a_stale_socket_is_replaced_and_one_with_a_long_path_lies_elsewhere() {
    let place = Place::new();
    assert!(
        place
            .pentad(&["read", "~/self"])
            .output()
            .unwrap()
            .status
            .success()
    );
    let keeper = place.keeper();
    kill(keeper);
    assert!(gone_within(Pid::from_raw(keeper).unwrap(), END).unwrap());
    assert!(place.path("home/state/pentad.sock").exists(), "nobody removed it");
    assert!(
        place
            .pentad(&["read", "~/self"])
            .output()
            .unwrap()
            .status
            .success()
    );

    let long = place.path(&"x".repeat(120));
    let runtime = place.path("run");
    std::fs::create_dir(&runtime).unwrap();
    let pentad = |words: &[&str]| {
        let mut command = place.pentad(words);
        command.env("PENTAD_HOME", &long);
        command
    };
    let refused = pentad(&["read", "~/self"]).output().unwrap();
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && why.contains("XDG_RUNTIME_DIR"),
        "{why}"
    );
    let mut fine = pentad(&["read", "~/self"]);
    assert!(
        fine.env("XDG_RUNTIME_DIR", &runtime)
            .output()
            .unwrap()
            .status
            .success()
    );
    assert_eq!(std::fs::read_dir(runtime.join("pentad")).unwrap().count(), 1);
    let mut stop = pentad(&["stop"]);
    assert!(
        stop.env("XDG_RUNTIME_DIR", &runtime)
            .output()
            .unwrap()
            .status
            .success()
    );
}

#[test]
fn variables_come_from_the_face_that_calls_and_stay_out_of_the_journal() {
    let place = Place::new();
    let recipe = json!({"description": "Shows.", "template": "printenv SHOWN", "env": ["SHOWN"]});
    std::fs::write(place.path("home/recipes/shown.json"), recipe.to_string()).unwrap();
    place.fixture_server("needs", &[], "env = {TOKEN = \"${env:NEEDED}\"}");
    let run = |words: &[&str], variables: &[(&str, &str)]| {
        let mut command = place.pentad(words);
        let output = command.envs(variables.iter().copied()).output().unwrap();
        let out = String::from_utf8_lossy(&output.stdout).into_owned();
        (
            output.status.code(),
            out + &String::from_utf8_lossy(&output.stderr),
        )
    };
    let (code, said) = run(&["call", "shown"], &[]);
    assert!(code != Some(0) && said.contains("SHOWN"), "{said}");
    assert_eq!(
        run(&["call", "shown"], &[("SHOWN", "canary-one")]).1.trim(),
        "canary-one"
    );
    assert_eq!(
        run(&["call", "shown"], &[("SHOWN", "canary-two")]).1.trim(),
        "canary-two"
    );

    let echo = ["call", "needs/echo", "text=hi"];
    let (code, said) = run(&echo, &[]);
    assert!(code != Some(0) && said.contains("NEEDED"), "{said}");
    let (code, said) = run(&echo, &[("NEEDED", "canary-three")]);
    assert_eq!((code, said.trim()), (Some(0), "hi"));
    place.stop();
    let arguments: Vec<String> = Reading::of(&place)
        .whole()
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::Called { arguments, .. } => Some(arguments.to_string()),
            _ => None,
        })
        .collect();
    assert!(!arguments.is_empty() && arguments.iter().all(|text| !text.contains("canary")));
    let database = std::fs::read(place.path("home/state/pentad.db")).unwrap();
    assert!(!String::from_utf8_lossy(&database).contains("canary-three"));
}

/// Opens an approval as a client and returns its id.
fn open_approval(place: &Place) -> String {
    place.recipe("touch", "touch {file}", &["file"]);
    let mut face = place.face();
    let said = call(&mut face, "touch", &json!({"file": text(&place.path("touched"))}));
    face.close().unwrap();
    let mut words = said.split(|c: char| !c.is_ascii_alphanumeric());
    let id = words
        .find(|word| word.len() == 26)
        .unwrap_or_else(|| panic!("{said}"));
    id.to_owned()
}

/// Runs a command line with a terminal of its own; `env` stands before it.
fn at_a_terminal(place: &Place, line: &str) -> (bool, String) {
    let mut script = Command::new("script");
    script
        .args(["-q", "-e", "-c", line, "/dev/null"])
        .env_clear()
        .envs(place.env());
    let output = script
        .current_dir(place.path("work"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    (
        output.status.success(),
        String::from_utf8_lossy(&output.stdout).into_owned(),
    )
}

#[test]
fn only_a_person_at_a_terminal_approves_however_an_agent_asks() {
    let place = Place::new();
    let id = open_approval(&place);
    let pentad = text(&binary());
    let grant = format!("{pentad} approvals grant {id}");

    // Without a terminal, with an agent's variable, and below an agent's process.
    let plain = place.pentad(&["approvals", "grant", &id]).output().unwrap();
    assert!(!plain.status.success());
    let (granted, said) = at_a_terminal(&place, &format!("env CLAUDECODE=1 {grant}"));
    assert!(!granted && said.contains("CLAUDECODE"), "{said}");
    let agent = place.path("claude");
    std::os::unix::fs::symlink("/bin/sh", &agent).unwrap();
    let below = format!(
        "{} -c 'env -i HOME=$HOME PENTAD_HOME=$PENTAD_HOME {grant}; exit $?'",
        text(&agent)
    );
    let (granted, said) = at_a_terminal(&place, &below);
    assert!(!granted && said.contains("above this one"), "{said}");

    // The socket itself: whatever a frame claims, the keeper looks at the process.
    for role in ["shell", "client"] {
        let claim = json!({"protocol": 1, "build": {"version": [0, 0, 1]}, "role": role});
        let (mut stream, _) = attach(&place, &claim);
        let answer = json!({"jsonrpc": "2.0", "id": 1, "method": "answer", "params": {"id": id, "answer": {"granted": "always"}}});
        stream.write_all(format!("{answer}\n").as_bytes()).unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        assert!(line.contains("needs a person at a terminal"), "{line}");
    }
    assert!(!place.path("touched").exists());

    let (granted, said) = at_a_terminal(&place, &grant);
    assert!(granted && said.contains("Granted"), "{said}");
}

#[test]
fn a_tool_of_ours_cannot_leave_its_run_to_approve_or_to_serve() {
    let place = Place::new();
    let id = open_approval(&place);
    let pentad = text(&binary());
    let escape = place.path("escape.sh");
    let out = place.path("escaped");
    // A new session, a terminal of its own, no variable, a parent that has ended: it is still below its warden.
    std::fs::write(
        &escape,
        format!(
            "for command in 'approvals grant {id}' 'up --port 0 --json'; do\n\
             setsid env -i HOME=\"$HOME\" PATH=\"$PATH\" script -q -e -c \"env -i PENTAD_HOME={home} {pentad} $command\" /dev/null </dev/null >>{out} 2>&1\n\
             echo \"exit $?\" >>{out}\n\
             done\n",
            home = text(&place.home()),
            out = text(&out),
        ),
    )
    .unwrap();
    place.recipe("escape", &format!("sh {}", text(&escape)), &[]);
    place.grant(CLIENT, &["call:recipes/escape"]);
    let mut face = place.face();
    call(&mut face, "escape", &json!({}));
    face.close().unwrap();
    let said = std::fs::read_to_string(&out).unwrap();
    assert_eq!(said.matches("exit 3").count(), 2, "{said}");
    assert_eq!(
        said.matches("found the process 'pentad-warden'").count(),
        2,
        "{said}"
    );
    let (granted, said) = at_a_terminal(&place, &format!("{pentad} approvals list"));
    assert!(granted && said.contains(&id), "it is still open: {said}");
}

/// Calls `touch` as a client that answers every question with yes, and returns whether it was asked and what it got.
fn call_with_a_willing_client(place: &Place, variables: &[(&str, &str)]) -> (bool, String) {
    let mut env = place.env();
    env.extend(
        variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
    );
    let mut face = RawClient::start(&binary(), ["mcp"], &env, &place.path("work")).unwrap();
    let hello = json!({
        "protocolVersion": SESSION,
        "capabilities": {"elicitation": {}},
        "clientInfo": {"name": CLIENT, "version": "1"},
    });
    face.request("initialize", &hello).unwrap();
    face.notify("notifications/initialized", &json!({})).unwrap();
    let request = json!({"tool": "touch", "input": {"file": text(&place.path("touched"))}});
    assert!(
        face.call_text("call", &request)
            .unwrap()
            .starts_with("Not called yet")
    );
    let id = face
        .send("tools/call", &json!({"name": "call", "arguments": request}))
        .unwrap();
    let mut asked = false;
    loop {
        let message = face.message_within(END).unwrap().expect("an answer");
        if message["method"] == "elicitation/create" {
            asked = true;
            let schema = &message["params"]["requestedSchema"]["properties"];
            let (key, field) = schema.as_object().unwrap().iter().next().unwrap();
            let choice = field["enum"][0].clone();
            let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": {"action": "accept", "content": {key: choice}}});
            face.send_line(&answer.to_string()).unwrap();
        } else if message["id"] == id {
            face.close().unwrap();
            let said = message["result"]["content"][0]["text"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            return (asked, said);
        }
    }
}

#[test]
fn an_agent_that_plays_the_client_is_not_asked_in_a_persons_place() {
    for place in [Place::new(), Place::in_process()] {
        place.recipe("touch", "touch {file}", &["file"]);
        let (asked, said) = call_with_a_willing_client(&place, &[("CLAUDECODE", "1")]);
        assert!(!asked && said.contains("approval:"), "{said}");
        assert!(!place.path("touched").exists());
        let (asked, said) = call_with_a_willing_client(&place, &[]);
        assert!(asked && place.path("touched").exists(), "{said}");
    }
}

#[test]
fn a_command_below_a_client_acts_as_that_client() {
    let place = Place::new();
    place.recipe("hello", "echo hello", &[]);
    let mut command = place.pentad(&["call", "hello", "--json"]);
    let output = command.env("CLAUDECODE", "1").output().unwrap();
    let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(
        outcome["text"].as_str().unwrap().starts_with("Not called yet"),
        "{outcome}"
    );
    let log = place
        .pentad(&["log", "--json", "--actor", "client:claude-code"])
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&log.stdout).contains("hello"));
    let mut up = place.pentad(&["up", "--port", "0"]);
    let refused = up.env("CLAUDECODE", "1").output().unwrap();
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        refused.status.code() == Some(3) && why.contains("CLAUDECODE"),
        "{why}"
    );
}

#[test]
fn in_process_faces_of_one_home_meet_in_the_first_of_them() {
    let place = Place::in_process();
    place.fixture_server("shared", &[], "");
    place.grant(CLIENT, &["call:shared"]);
    let mut first = place.face();
    assert_eq!(call(&mut first, "shared/echo", &json!({"text": "one"})), "one");
    assert_eq!(u32::try_from(place.keeper()).unwrap(), first.pid());
    let mut second = place.raw_face(&[]);
    second.initialize(SESSION, CLIENT).unwrap();
    assert_eq!(call(&mut second, "shared/echo", &json!({"text": "two"})), "two");
    assert_eq!(place.witnessed("shared", "start"), 1);
    // The first leaves, and with it the server; a keeper takes its place for whoever is left.
    first.close().unwrap();
    let said = second.call_text(
        "call",
        &json!({"tool": "shared/echo", "input": {"text": "three"}}),
    );
    assert_eq!(said.unwrap(), "three");
    second.close().unwrap();
    place.assert_nobody_is_left("after both");
}
