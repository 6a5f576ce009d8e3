//! Faces, spawners and wardens that are killed at random points: nothing stays, nothing answered is lost.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use pentad_model::run::RunStatus;
use pentad_model::{Event, EventBody, RunId};
use pentad_program::{RunFilter, Store};
use pentad_testkit::client::RawClient;
use pentad_testkit::process::{gone_within, marked};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::common::dice::{Dice, seed};
use crate::common::{CLIENT, END, Place, Reading, SESSION, described, keepers_of, parent_of, spawner_of};

/// How many calls are made; `PENTAD_TEST_LONG` multiplies them.
const CALLS: u32 = 200;
const LONG: u32 = 5;
/// Longest time between the start of a burst and a kill, in microseconds.
const LATEST: u64 = 90_000;

/// Who is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Face,
    Spawner,
    Both,
    /// Face, spawner and every warden: what they watched ends with the next start.
    All,
}

/// One call of the client.
#[derive(Debug, Clone)]
struct Call {
    tag: String,
    tool: &'static str,
    arguments: Value,
    /// Whether nobody was killed while it ran, so that it must have succeeded.
    calm: bool,
}

/// One answer.
#[derive(Debug)]
struct Answered {
    call: Call,
    failed: bool,
}

struct Trial {
    place: Place,
    dice: Dice,
    thread: String,
    face: RawClient,
    sent: u32,
    pending: BTreeMap<u64, Call>,
    answered: Vec<Answered>,
    /// Runs that a killed face left.
    orphaned: BTreeSet<RunId>,
    kills: u32,
}

const TOOLS: [&str; 5] = [
    "recipes/litter",
    "recipes/plain",
    "recipes/append",
    "fixture/echo",
    "fixture/grandchild",
];

impl Trial {
    fn begin(seed: u64) -> Self {
        let place = Place::in_process();
        place.grant(CLIENT, &["call:recipes", "call:fixture"]);
        place.fixture_server("fixture", &[], "");
        place.litter();
        place.recipe("plain", "echo plain {tag}", &["tag"]);
        let (script, effects) = (place.path("append.sh"), place.path("effects"));
        std::fs::write(&script, "echo \"$1\" >>\"$2\"\n").unwrap();
        let append = format!("sh {} {{tag}} {}", script.display(), effects.display());
        place.recipe("append", &append, &["tag"]);
        let mut face = place.face();
        for tool in TOOLS {
            let read = face
                .call("read", &json!({"address": format!("~/tools/{tool}")}))
                .unwrap();
            assert_ne!(read["isError"], json!(true), "{read}");
        }
        let reading = Reading::of(&place);
        let thread = reading.whole().last().unwrap().thread.to_string();
        reading.close();
        Self {
            place,
            dice: Dice(seed),
            thread,
            face,
            sent: 0,
            pending: BTreeMap::new(),
            answered: Vec::new(),
            orphaned: BTreeSet::new(),
            kills: 0,
        }
    }

    fn send(&mut self, victim: Option<Victim>) {
        self.sent += 1;
        let calm = victim.is_none();
        let tag = format!("op-{:05}", self.sent);
        let input = |tool: &str, input: Value| ("call", json!({"tool": tool, "input": input}));
        let (tool, arguments) = match self.dice.roll(if calm { 20 } else { 26 }) {
            0..5 => {
                let address = format!("~/memory/{tag}.md");
                (
                    "write",
                    json!({"address": address, "content": format!("note of {tag}\n")}),
                )
            }
            5..9 => input("recipes/plain", json!({"tag": tag})),
            9..13 => input("recipes/append", json!({"tag": tag})),
            13..17 => input("fixture/echo", json!({"text": tag})),
            17..19 => input("fixture/grandchild", json!({"tag": tag})),
            19 => input("recipes/litter", json!({"tag": tag})),
            // One that began after the spawner died goes on with the next one, so it has to end.
            _ if victim == Some(Victim::Spawner) => input("recipes/litter", json!({"tag": tag, "hold": "1"})),
            _ => input("recipes/litter", json!({"tag": tag, "hold": "600"})),
        };
        let request = json!({"name": tool, "arguments": arguments});
        let id = self.face.send("tools/call", &request).unwrap();
        self.pending.insert(
            id,
            Call {
                tag,
                tool,
                arguments,
                calm,
            },
        );
    }

    /// Takes answers until all have come, or nothing more comes until `until`.
    fn receive(&mut self, until: Instant) {
        while !self.pending.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            // What a killed face wrote half is no answer.
            let Ok(Some(message)) = self.face.message_within(left) else {
                return;
            };
            let Some(call) = message["id"].as_u64().and_then(|id| self.pending.remove(&id)) else {
                continue;
            };
            let failed = message["result"]["isError"] == json!(true) || message.get("error").is_some();
            // A server whose start was cut off with the spawner is left alone for a second, and that is said.
            let excused = message.to_string().contains("because the spawner was lost");
            assert!(
                !failed || !call.calm || excused,
                "{call:?} failed in peace: {message}"
            );
            self.answered.push(Answered { call, failed });
        }
    }

    /// Everybody has their turn.
    fn next_victim(&self) -> Victim {
        match self.kills % 4 {
            0 => Victim::Face,
            1 => Victim::All,
            2 => Victim::Spawner,
            _ => Victim::Both,
        }
    }

    fn burst(&mut self) {
        let size = 1 + self.dice.roll(6);
        let victim = (self.dice.roll(10) < 4).then(|| self.next_victim());
        for _ in 0..size {
            self.send(victim);
        }
        let Some(victim) = victim else {
            self.receive(Instant::now() + END);
            assert!(self.pending.is_empty(), "never answered: {:?}", self.pending);
            return;
        };
        let when = Duration::from_micros(self.dice.roll(LATEST));
        self.receive(Instant::now() + when);
        eprintln!(
            "after {when:?}: kill {victim:?}, {} calls unanswered",
            self.pending.len()
        );
        self.kills += 1;
        match victim {
            Victim::Spawner => self.kill_spawner(),
            _ => self.kill_face(victim),
        }
    }

    /// The face goes on: it answers what was cut off, and starts another spawner when it needs one.
    fn kill_spawner(&mut self) {
        let face = self.face.pid();
        let Some(spawner) = spawner_of(face) else { return };
        kill(spawner);
        self.receive(Instant::now() + END);
        assert!(self.pending.is_empty(), "never answered: {:?}", self.pending);
        let until = Instant::now() + END;
        loop {
            let strays = self.strays(face);
            let Some(first) = strays.first() else { return };
            let left = until.saturating_duration_since(Instant::now());
            assert!(
                !left.is_zero(),
                "the spawner was killed, these are left:\n{}",
                described(&strays)
            );
            gone_within(*first, left).unwrap();
        }
    }

    /// Returns the processes of this place that no living spawner of the face looks after.
    fn strays(&self, face: u32) -> Vec<Pid> {
        let live = spawner_of(face).map(|pid| pid.as_raw_nonzero().get());
        let face = i32::try_from(face).unwrap();
        let is_below = |pid: &Pid| {
            let line = std::iter::successors(Some(pid.as_raw_nonzero().get()), |pid| parent_of(*pid));
            line.take(64).any(|pid| Some(pid) == live)
        };
        let mut strays = marked(&self.place.mark());
        strays.extend(keepers_of(face.unsigned_abs()));
        strays.retain(|pid| pid.as_raw_nonzero().get() != face && !is_below(pid));
        // Whoever ended between the two looks has no parent any more.
        strays.retain(|pid| parent_of(pid.as_raw_nonzero().get()).is_some());
        strays
    }

    fn kill_face(&mut self, victim: Victim) {
        let face = self.face.pid();
        let mut others = match victim {
            Victim::Both => spawner_of(face).into_iter().collect(),
            Victim::All => keepers_of(face),
            Victim::Face | Victim::Spawner => Vec::new(),
        };
        if self.dice.roll(2) == 0 {
            others.drain(..).for_each(kill);
        }
        self.face.signal(Signal::KILL).unwrap();
        others.into_iter().for_each(kill);
        self.receive(Instant::now() + END);
        self.face.wait().unwrap();
        self.pending.clear();

        let before = marked(&self.place.mark());
        if victim != Victim::All {
            self.place.assert_nobody_is_left(&format!("{victim:?} killed"));
            let keepers = keepers_of(face);
            let stay = keepers
                .into_iter()
                .filter(|pid| !gone_within(*pid, END).unwrap())
                .collect::<Vec<_>>();
            assert!(
                stay.is_empty(),
                "{victim:?} killed, these are left:\n{}",
                described(&stay)
            );
        }
        let reading = Reading::of(&self.place);
        self.check(&reading.whole());
        self.orphaned.extend(unsettled(&reading));
        reading.close();

        self.face = self.place.raw_face(&["--thread", &self.thread]);
        self.face.initialize(SESSION, CLIENT).unwrap();
        let first = self.face.call("read", &json!({"address": "~/self"})).unwrap();
        assert_ne!(first["isError"], json!(true), "{first}");
        for pid in before {
            assert!(
                gone_within(pid, END).unwrap(),
                "still there after the next start:\n{}",
                described(&[pid])
            );
        }
        let reading = Reading::of(&self.place);
        self.check(&reading.whole());
        assert_eq!(unsettled(&reading), []);
        reading.close();
    }

    /// Checks that whatever was answered stands in the journal, and that lost runs were noted once.
    fn check(&self, events: &[Event]) {
        let returned: BTreeSet<_> = events
            .iter()
            .filter(|event| matches!(event.body, EventBody::Returned { .. }))
            .filter_map(|event| event.call)
            .collect();
        let mut kept = BTreeSet::new();
        for event in events {
            if let EventBody::Called { arguments, .. } = &event.body
                && event.call.is_some_and(|call| returned.contains(&call))
            {
                kept.extend(tag_of(&arguments.to_string()));
            }
        }
        for Answered { call, failed } in &self.answered {
            assert!(
                kept.contains(&call.tag),
                "{call:?} was answered and is not in the journal"
            );
            if call.tool == "write" && !failed {
                let note = self.place.path(&format!("home/memory/main/{}.md", call.tag));
                assert_eq!(
                    std::fs::read_to_string(&note).unwrap(),
                    format!("note of {}\n", call.tag)
                );
            }
        }
        let mut lost = BTreeMap::<RunId, u32>::new();
        for event in events {
            if let (
                EventBody::RunStatus {
                    status: RunStatus::Lost,
                    ..
                },
                Some(run),
            ) = (&event.body, event.run)
            {
                *lost.entry(run).or_default() += 1;
            }
        }
        for (run, times) in lost {
            assert_eq!(times, 1, "run:{run} was noted as lost {times} times");
            assert!(
                self.orphaned.contains(&run),
                "run:{run} is lost, and its face was not killed"
            );
        }
    }

    fn end(mut self) {
        self.receive(Instant::now() + END);
        let Self {
            place,
            face,
            answered,
            orphaned,
            kills,
            ..
        } = &mut self;
        eprintln!(
            "{} answered, {} runs lost, {kills} times killed",
            answered.len(),
            orphaned.len()
        );
        assert!(answered.len() >= 50 && *kills >= 4, "too little happened");
        face.hang_up();
        assert!(face.wait().unwrap().success());
        place.assert_nobody_is_left("the face ended");
        let effects = std::fs::read_to_string(place.path("effects")).unwrap();
        let mut times = BTreeMap::<&str, u32>::new();
        effects
            .lines()
            .for_each(|tag| *times.entry(tag).or_default() += 1);
        assert_eq!(
            times.values().find(|times| **times > 1),
            None,
            "an effect was repeated: {times:?}"
        );
        let appended =
            |answer: &&Answered| !answer.failed && answer.call.arguments["tool"] == "recipes/append";
        for answer in answered.iter().filter(appended) {
            assert_eq!(times.get(answer.call.tag.as_str()), Some(&1), "{answer:?}");
        }
        let reading = Reading::of(&self.place);
        self.check(&reading.whole());
        for run in &self.orphaned {
            let status = reading.ask(async |store| store.run(*run).await.unwrap().status);
            assert_eq!(status, RunStatus::Lost, "run:{run}");
        }
        reading.close();
    }
}

fn kill(pid: Pid) {
    // It may have ended by itself.
    let _gone = kill_process(pid, Signal::KILL);
}

fn tag_of(arguments: &str) -> Option<String> {
    let (_, rest) = arguments.split_once("op-")?;
    Some(format!("op-{}", rest.get(..5)?))
}

fn unsettled(reading: &Reading) -> Vec<RunId> {
    reading.ask(async |store: &dyn Store| {
        let filter = RunFilter {
            limit: 100_000,
            ..RunFilter::default()
        };
        let runs = store.runs(filter).await.unwrap();
        runs.into_iter()
            .filter(|run| !run.status.is_settled())
            .map(|run| run.id)
            .collect()
    })
}

#[test]
fn kill_d02_d04_at_random_points_of_two_hundred_calls() {
    let seed = seed();
    let calls = if std::env::var_os("PENTAD_TEST_LONG").is_some() {
        CALLS * LONG
    } else {
        CALLS
    };
    let mut trial = Trial::begin(seed);
    while trial.sent < calls {
        trial.burst();
    }
    trial.end();
}
