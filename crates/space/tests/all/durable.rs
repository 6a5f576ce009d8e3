//! The families over a real journal and a real runtime.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pentad_journal::{Journal, JournalOptions};
use pentad_model::invocation::Workspace;
use pentad_model::outcome::Product;
use pentad_model::run::{OnLoss, Run, RunStatus, Terms};
use pentad_model::step::Repeat;
use pentad_model::verb::{Budget, Request};
use pentad_model::{Actor, GrantSet, Name, Outcome, Refusal, RefusalKind, RunId, ThreadId, Timestamp, Verb};
use pentad_program::{
    ActFailure, Attempt, Attendance, Invoke, NewRun, NewThread, RunControl, RunStore, Store,
};
use pentad_run::{Invoker, Limits, Runtime, RuntimeParts, SystemClock, Takes, programs};
use pentad_space::{Scene, SelfFacts, Space, SpaceLimits, SpaceParts, WebPolicy};
use serde_json::{Value, json};

struct NoVerbs;

#[async_trait]
impl Invoker for NoVerbs {
    fn repeat(&self, _: &Run, _: &Invoke) -> Repeat {
        Repeat::Safe
    }

    async fn invoke(&self, _: &Run, _: Invoke, _: Attempt) -> Result<Outcome, ActFailure> {
        Err(ActFailure::Interrupted)
    }
}

struct House {
    _dir: tempfile::TempDir,
    journal: Arc<Journal>,
    runtime: Arc<Runtime>,
    space: Space,
    scene: Scene,
}

impl House {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let journal = Arc::new(Journal::open(&root.join("state"), JournalOptions::default()).unwrap());
        let runtime = Runtime::new(RuntimeParts {
            store: Arc::clone(&journal) as _,
            runs: Arc::clone(&journal) as _,
            invoker: Arc::new(NoVerbs),
            clock: Arc::new(SystemClock),
            programs: programs::all(),
            limits: Limits {
                linger: Duration::ZERO,
                ..Limits::default()
            },
        });
        runtime.start(Takes::Queue).await.unwrap();
        let thread = NewThread {
            id: ThreadId::generate(),
            key: Some("test".to_owned()),
            agent: Name::main(),
            opened_by: Actor::User,
            title: None,
            parent: None,
            cwd: None,
            at: Timestamp::now(),
        };
        let thread = journal.open_thread(thread).await.unwrap().id;
        let space = Space::new(SpaceParts {
            store: Arc::clone(&journal) as _,
            memory_root: root.join("memory"),
            agents_dir: root.join("agents"),
            forbidden: Vec::new(),
            limits: SpaceLimits::default(),
            web: WebPolicy::default(),
            facts: SelfFacts::default(),
        });
        space.attach_run_store(Arc::clone(&journal) as Arc<dyn RunStore>);
        space.attach_run_control(&(Arc::clone(&runtime) as Arc<dyn RunControl>));
        let scene = Scene {
            caller: Actor::User.into(),
            agent: Name::main(),
            thread,
            run: None,
            workspace: Workspace {
                cwd: root,
                project_root: None,
                trusted: false,
            },
            read_roots: Vec::new(),
            write_roots: Vec::new(),
            grants: GrantSet::everything(),
            dry_run: false,
            attendance: Attendance::default(),
            now: Timestamp::now(),
        };
        Self {
            _dir: dir,
            journal,
            runtime,
            space,
            scene,
        }
    }

    async fn start(&self, program: &str, input: Value, budget: Budget) -> RunId {
        let id = RunId::generate();
        let run = NewRun {
            id,
            parent: None,
            thread: self.scene.thread,
            name: None,
            title: program.to_owned(),
            tool: None,
            tool_cid: None,
            caller: Actor::User.into(),
            grants: GrantSet::everything(),
            input,
            terms: Terms {
                program: program.to_owned(),
                on_loss: OnLoss::Resume,
                budget,
                ..Terms::default()
            },
            status: RunStatus::Queued,
            at: Timestamp::now(),
        };
        self.runtime.submit(run, Vec::new()).await.unwrap();
        id
    }

    async fn until_waiting(&self, run: RunId) {
        while !matches!(self.journal.run(run).await.unwrap().status, RunStatus::Waiting(_)) {
            tokio::task::yield_now().await;
        }
    }

    async fn read(&self, address: &str, options: &Value) -> Product {
        let arguments = json!({"address": address, "options": options});
        match Request::parse(Verb::Read, &arguments).unwrap() {
            Request::Read(read) => self.space.read(&self.scene, &read).await.unwrap(),
            _ => panic!("no read"),
        }
    }

    async fn write(&self, run: RunId, options: &Value, content: Option<&str>) -> Result<Product, Refusal> {
        let mut arguments = json!({"address": format!("run:{run}"), "options": options});
        if let Some(content) = content {
            arguments["content"] = json!(content);
        }
        match Request::parse(Verb::Write, &arguments).unwrap() {
            Request::Write(write) => self.space.write(&self.scene, &write).await,
            _ => panic!("no write"),
        }
    }

    async fn end(&self, run: RunId) -> Run {
        self.runtime.ended(run).await.unwrap()
    }

    async fn stop(self) {
        assert!(self.runtime.shutdown(Duration::from_secs(30)).await);
    }
}

#[tokio::test]
async fn a_parked_run_says_what_it_waits_for_and_goes_on_when_it_is_sent() {
    let house = House::new().await;
    let input = json!({"event": "approve", "count": 2});
    let run = house.start("waiter", input, Budget::default()).await;
    house.until_waiting(run).await;
    let address = format!("run:{run}");
    let record = house.read(&address, &json!({})).await;
    assert!(
        record
            .text
            .contains("- #0 waits for the event 'approve'; send it with write"),
        "{}",
        record.text
    );
    let why = house.read(&format!("{address}/why"), &json!({})).await;
    assert!(
        why.text.contains("It goes on when one of these has come"),
        "{}",
        why.text
    );
    house
        .write(run, &json!({"signal": "approve"}), Some("{\"by\": \"ada\"}"))
        .await
        .unwrap();
    house.until_waiting(run).await;
    let second = loop {
        let waits = house.journal.waits(run).await.unwrap();
        if let [wait] = waits.as_slice()
            && wait.position == 1
        {
            break house.write(run, &json!({"answer": 1}), Some("\"by hand\"")).await;
        }
        tokio::task::yield_now().await;
    };
    second.unwrap();
    let ended = house.end(run).await;
    assert_eq!(
        ended.output.unwrap(),
        json!({"events": [{"by": "ada"}, "by hand"]})
    );
    let journal = house.read(&format!("{address}/journal"), &json!({})).await.text;
    assert!(
        journal.contains("asked #0 wait for the event 'approve'"),
        "{journal}"
    );
    assert!(
        journal.contains(" got #0 from user {\"event\":{\"by\":\"ada\"}}"),
        "{journal}"
    );
    let late = house.write(run, &json!({"signal": "approve"}), None).await;
    assert_eq!(late.unwrap_err().kind, RefusalKind::Conflict);
    house.stop().await;
}

#[tokio::test]
async fn a_run_that_has_used_up_its_budget_goes_on_with_more() {
    let house = House::new().await;
    let budget = Budget {
        tokens: Some(0),
        ..Budget::default()
    };
    let run = house.start("sequence", json!({"steps": 3}), budget).await;
    house.until_waiting(run).await;
    let why = house.read(&format!("run:{run}/why"), &json!({})).await;
    assert!(why.text.contains("waits for more budget"), "{}", why.text);
    let position = why.value.unwrap()["waits"][0]["position"].clone();
    house
        .write(run, &json!({"answer": position}), Some("{\"tokens\": 10}"))
        .await
        .unwrap();
    assert_eq!(house.end(run).await.status, RunStatus::Succeeded);
    house.stop().await;
}

#[tokio::test]
async fn a_tree_is_ended_with_a_reason_and_started_again() {
    let house = House::new().await;
    let input = json!({"children": 30, "program": "waiter", "input": {"event": "never"}});
    let run = house.start("fan-out", input, Budget::default()).await;
    house.until_waiting(run).await;
    while house.journal.counts(Some(run)).await.unwrap().waiting < 30 {
        tokio::task::yield_now().await;
    }
    let tree = house.read(&format!("run:{run}"), &json!({"tree": true})).await;
    assert_eq!(
        tree.value.unwrap()["children"].as_array().unwrap().len(),
        30,
        "{}",
        tree.text
    );
    let listed = house.read("run:", &json!({"tree": true})).await.text;
    assert!(listed.contains("  - 20 more: 20 waiting\n"), "{listed}");
    house
        .write(run, &json!({"cancel": true}), Some("wrong branch"))
        .await
        .unwrap();
    let ended = house.end(run).await;
    assert_eq!(ended.status, RunStatus::Canceled);
    let why = house.read(&format!("run:{run}/why"), &json!({})).await.text;
    assert!(why.contains("user") && why.contains("wrong branch"), "{why}");
    let again = house.write(run, &json!({"retry": true}), None).await.unwrap();
    let new = again.run.unwrap();
    assert_eq!(house.journal.run(new).await.unwrap().terms.continues, Some(run));
    house.write(new, &json!({"cancel": true}), None).await.unwrap();
    house.end(new).await;
    house.stop().await;
}

#[tokio::test]
async fn pages_of_a_real_journal_have_each_step_once() {
    let house = House::new().await;
    let run = house
        .start("sequence", json!({"steps": 40}), Budget::default())
        .await;
    house.end(run).await;
    let address = format!("run:{run}/journal");
    let positions = |value: &Value| -> Vec<u64> {
        let of = |key: &str| value[key].as_array().cloned().unwrap_or_default();
        let mut all: Vec<u64> = of("events")
            .iter()
            .chain(&of("steps"))
            .map(|entry| entry["position"].as_u64().unwrap())
            .collect();
        all.sort_unstable();
        all
    };
    let whole = house.read(&address, &json!({"limit": 1000})).await.value.unwrap();
    let expected = positions(&whole);
    assert!(expected.len() >= 82, "{expected:?}");
    let (mut found, mut options) = (Vec::new(), json!({"limit": 7}));
    loop {
        let page = house.read(&address, &options).await.value.unwrap();
        found.extend(positions(&page));
        match page.get("next") {
            Some(next) => options = next.clone(),
            None => break,
        }
    }
    assert_eq!(found, expected);
    let mut options = json!({"steps": true, "limit": 9});
    let mut seen = 0;
    loop {
        let page = house.read("activity:", &options).await.value.unwrap();
        seen += page["steps"].as_array().unwrap().len();
        match page.get("next") {
            Some(next) => options["after"] = next.clone(),
            None => break,
        }
    }
    assert_eq!(seen, whole["steps"].as_array().unwrap().len());
    house.stop().await;
}
