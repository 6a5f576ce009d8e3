//! Random interleavings of two executors, senders, time, cancellation and loss, against a model of a few lines.

use crate::durable::{AT, Two, WAITING, advance, conflict, ended, event, settle, step, timer, two, user};
use crate::durable_known::{At, Known, Open};
use crate::fixtures::T0;
use pentad_journal::Journal;
use pentad_model::run::RunStatus;
use pentad_model::step::StepBody;
use pentad_model::{RunId, Timestamp};
use pentad_program::{Advance, Delivery, RunStore, Store, Wait};
use proptest::prelude::*;
use serde_json::{Value, json};

const NAMES: [&str; 2] = ["x", "y"];

#[derive(Debug, Clone, Copy)]
enum Op {
    Start,
    Claim {
        who: usize,
        limit: usize,
    },
    Wait {
        who: usize,
        run: usize,
        what: Form,
        park: bool,
    },
    Drop {
        who: usize,
        run: usize,
        place: u32,
    },
    Take {
        who: usize,
        run: usize,
    },
    Send {
        run: usize,
        name: usize,
    },
    Fire {
        now: i64,
    },
    Cancel {
        run: usize,
    },
    Retire {
        who: usize,
    },
    Settle {
        who: usize,
        run: usize,
    },
}

#[derive(Debug, Clone, Copy)]
enum Form {
    Timer(i64),
    Event(usize),
    Either(usize, i64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let (who, run, name, due) = (0..2_usize, 0..4_usize, 0..NAMES.len(), 0..100_i64);
    let form = prop_oneof![
        due.clone().prop_map(Form::Timer),
        name.clone().prop_map(Form::Event),
        (name.clone(), due.clone()).prop_map(|(name, due)| Form::Either(name, due)),
    ];
    let op = prop_oneof![
        2 => Just(Op::Start),
        4 => (who.clone(), 1..4_usize).prop_map(|(who, limit)| Op::Claim { who, limit }),
        6 => (who.clone(), run.clone(), form, any::<bool>())
            .prop_map(|(who, run, what, park)| Op::Wait { who, run, what, park }),
        1 => (who.clone(), run.clone(), 0..6_u32).prop_map(|(who, run, place)| Op::Drop { who, run, place }),
        4 => (who.clone(), run.clone()).prop_map(|(who, run)| Op::Take { who, run }),
        6 => (run.clone(), name).prop_map(|(run, name)| Op::Send { run, name }),
        3 => due.prop_map(|now| Op::Fire { now }),
        1 => run.clone().prop_map(|run| Op::Cancel { run }),
        1 => who.clone().prop_map(|who| Op::Retire { who }),
        1 => (who, run).prop_map(|(who, run)| Op::Settle { who, run }),
    ];
    proptest::collection::vec(op, 1..60)
}

struct Play {
    two: Two,
    runs: Vec<Known>,
    rows: usize,
    sent: u64,
}

impl Play {
    fn journal(&self, who: usize) -> &Journal {
        [&self.two.a, &self.two.b][who]
    }

    async fn perform(&mut self, op: Op) {
        match op {
            Op::Start => self.start().await,
            Op::Claim { who, limit } => self.claim(who, limit).await,
            Op::Retire { who } => self.retire(who).await,
            Op::Fire { now } => self.fire(now).await,
            Op::Wait { run, .. }
            | Op::Drop { run, .. }
            | Op::Take { run, .. }
            | Op::Send { run, .. }
            | Op::Cancel { run }
            | Op::Settle { run, .. }
                if run >= self.runs.len() => {}
            Op::Wait { who, run, what, park } => self.wait(who, run, what, park).await,
            Op::Drop { who, run, place } => self.drop(who, run, place).await,
            Op::Take { who, run } => self.take(who, run).await,
            Op::Send { run, name } => self.send(run, name).await,
            Op::Cancel { run } => self.cancel(run).await,
            Op::Settle { who, run } => self.settle(who, run).await,
        }
    }

    async fn start(&mut self) {
        if self.runs.len() == 4 {
            return;
        }
        let id = self.two.start(self.two.program()).await;
        self.runs.push(Known::queued(id));
    }

    async fn claim(&mut self, who: usize, limit: usize) {
        let claimed = self.journal(who).claim(limit, AT).await.unwrap();
        let queued = self
            .runs
            .iter_mut()
            .filter(|run| run.at == At::Queued)
            .take(limit);
        let mut expected = Vec::new();
        for run in queued {
            (run.at, run.owner) = (At::Running, Some(who));
            expected.push(run.id);
        }
        assert_eq!(claimed.iter().map(|run| run.id).collect::<Vec<_>>(), expected);
    }

    async fn wait(&mut self, who: usize, run: usize, what: Form, park: bool) {
        let known = &self.runs[run];
        let place = known.places;
        let limited = |name: usize, due| Wait {
            due: Some(Timestamp(T0 + due)),
            ..event(place, NAMES[name])
        };
        let (wait, name, due) = match what {
            Form::Timer(due) => (timer(place, T0 + due), None, Some(due)),
            Form::Event(name) => (event(place, NAMES[name]), Some(name), None),
            Form::Either(name, due) => (limited(name, due), Some(name), Some(due)),
        };
        let text = crate::durable::note(&place.to_string());
        let advance = Advance {
            steps: vec![text.clone()],
            waits: vec![wait],
            status: Some(WAITING),
            ..advance(known.id, known.last())
        };
        let (id, held) = (known.id, known.is_held_by(who));
        let done = step(self.journal(who), advance).await;
        if !held {
            conflict(done);
            return;
        }
        let (known, row) = (&mut self.runs[run], self.rows);
        self.rows += 1;
        known.steps.push(text.body);
        known.places += 1;
        known.at = At::Waiting;
        known.waits.push(Open {
            place,
            name,
            due,
            row,
            answer: None,
        });
        let kept = name.and_then(|name| known.kept.iter().position(|(kept, _)| *kept == name));
        if let Some(kept) = kept {
            let (_, value) = known.kept.remove(kept);
            let at = known.waits.len() - 1;
            known.put(at, json!({ "event": value }));
        }
        let done = done.unwrap();
        assert_eq!((done.last, done.answered), (known.last(), known.has_answer()));
        if park {
            let parked = !known.has_answer() && !known.marked;
            if parked {
                known.owner = None;
            }
            assert_eq!(self.journal(who).park(id, AT).await.unwrap(), parked);
        }
    }

    async fn drop(&mut self, who: usize, run: usize, place: u32) {
        let known = &self.runs[run];
        let advance = Advance {
            dropped: vec![place],
            ..advance(known.id, known.last())
        };
        let held = known.is_held_by(who);
        let done = step(self.journal(who), advance).await;
        if !held {
            conflict(done);
            return;
        }
        done.unwrap();
        let known = &mut self.runs[run];
        let Some(at) = known.waits.iter().position(|wait| wait.place == place) else {
            return;
        };
        let dropped = known.waits.remove(at);
        if let (Some(name), Some((_, Value::Object(mut event)))) = (dropped.name, dropped.answer) {
            known.kept.insert(0, (name, event.remove("event").unwrap()));
        }
    }

    async fn take(&mut self, who: usize, run: usize) {
        let (id, last, held) = {
            let known = &self.runs[run];
            (known.id, known.last(), known.is_held_by(who))
        };
        let taken = self.journal(who).take(id, last, AT).await;
        if !held {
            conflict(taken);
            return;
        }
        let known = &mut self.runs[run];
        let (mut answered, open): (Vec<Open>, Vec<Open>) =
            known.waits.drain(..).partition(|wait| wait.answer.is_some());
        known.waits = open;
        answered.sort_by_key(|wait| wait.answer.as_ref().map(|(order, _)| *order));
        let before = known.steps.len();
        for wait in answered {
            let (_, value) = wait.answer.unwrap();
            known.completed(wait.place, value);
            known.at = At::Running;
        }
        let taken: Vec<StepBody> = taken.unwrap().into_iter().map(|step| step.body).collect();
        assert_eq!(taken, known.steps[before..]);
    }

    async fn send(&mut self, run: usize, name: usize) {
        self.sent += 1;
        let value = json!(self.sent);
        let id = self.runs[run].id;
        let sent = self.two.b.send(id, NAMES[name], value.clone(), user(), AT).await;
        let known = &mut self.runs[run];
        if known.at == At::Ended {
            conflict(sent);
            return;
        }
        let open = |wait: &Open| wait.name == Some(name) && wait.answer.is_none();
        match known.waits.iter().position(open) {
            Some(at) => {
                assert_eq!(sent.unwrap(), Delivery::Delivered);
                known.put(at, json!({ "event": value }));
            }
            None => {
                assert_eq!(sent.unwrap(), Delivery::Kept);
                known.kept.push((name, value));
            }
        }
    }

    async fn fire(&mut self, now: i64) {
        let next = self.two.a.fire(Timestamp(T0 + now)).await.unwrap();
        let mut due: Vec<(i64, usize, usize, usize)> = Vec::new();
        for (run, known) in self.runs.iter().enumerate() {
            for (at, wait) in known.waits.iter().enumerate() {
                if let (Some(time), None) = (wait.due, &wait.answer) {
                    due.push((time, wait.row, run, at));
                }
            }
        }
        due.sort_unstable();
        let later = due.iter().find(|(time, ..)| *time > now).map(|(time, ..)| *time);
        assert_eq!(next, later.map(|time| Timestamp(T0 + time)));
        for (time, _, run, at) in due {
            if time <= now {
                self.runs[run].put(at, Value::Null);
            }
        }
    }

    async fn cancel(&mut self, run: usize) {
        let id = self.runs[run].id;
        let asked = self.two.a.cancel(id, user(), String::new(), AT).await;
        let known = &mut self.runs[run];
        match known.at {
            At::Ended => {
                conflict(asked);
            }
            At::Running => {
                assert_eq!(asked.unwrap().canceling, [id]);
                known.marked = true;
            }
            At::Queued | At::Waiting => {
                assert_eq!(asked.unwrap().canceled, [id]);
                known.end();
                known.record = Some(self.two.run(id).await);
            }
        }
    }

    async fn retire(&mut self, who: usize) {
        let listed = self.journal(who).executors().await.unwrap();
        let Some(own) = listed.iter().find(|executor| executor.own) else {
            return;
        };
        let retired = self.journal(1 - who).retire(vec![own.epoch], AT).await.unwrap();
        conflict(self.journal(who).beat().await);
        let (mut queued, mut canceled) = (Vec::new(), Vec::new());
        for known in self.runs.iter_mut().filter(|known| known.owner == Some(who)) {
            known.owner = None;
            if known.marked {
                canceled.push(known.id);
                known.end();
                known.record = Some(self.two.a.run(known.id).await.unwrap());
            } else if known.at == At::Running || known.has_answer() {
                known.at = At::Queued;
                queued.push(known.id);
            }
        }
        let sorted = |mut ids: Vec<RunId>| {
            ids.sort_unstable();
            ids
        };
        assert_eq!(
            (sorted(retired.queued), sorted(retired.canceled)),
            (sorted(queued), sorted(canceled))
        );
    }

    async fn settle(&mut self, who: usize, run: usize) {
        let known = &self.runs[run];
        let (id, held) = (known.id, known.is_held_by(who));
        let done = settle(self.journal(who), ended(id, known.last(), RunStatus::Succeeded)).await;
        if !held {
            conflict(done);
            return;
        }
        done.unwrap();
        let known = &mut self.runs[run];
        known.end();
        known.record = Some(self.two.run(id).await);
    }

    /// What holds whenever nothing is under way.
    async fn check(&self) {
        for known in &self.runs {
            let steps = self.two.steps(known.id).await;
            assert!((1..).zip(&steps).all(|(n, step)| step.seq == n), "{steps:?}");
            let bodies: Vec<StepBody> = steps.into_iter().map(|step| step.body).collect();
            assert_eq!(bodies, known.steps);
            assert_eq!(self.two.a.verify_run(known.id).await.unwrap(), None);
            let record = self.two.run(known.id).await;
            let at = match record.status {
                RunStatus::Queued => At::Queued,
                RunStatus::Running => At::Running,
                RunStatus::Waiting(_) => At::Waiting,
                _ => At::Ended,
            };
            assert_eq!((at, record.canceling), (known.at, known.marked));
            if let Some(settled) = &known.record {
                assert_eq!(&record, settled);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn each_answer_is_delivered_once_and_no_step_is_lost(ops in ops()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let mut play = Play { two: two().await, runs: Vec::new(), rows: 0, sent: 0 };
            for op in ops {
                play.perform(op).await;
            }
            play.check().await;
            play.two.a.close().await.unwrap();
            play.two.b.close().await.unwrap();
        });
    }
}
