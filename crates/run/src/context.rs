//! What a program sees of the world: commands out, completions in.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use pentad_model::outcome::Outcome;
use pentad_model::run::{Run, RunError, Usage};
use pentad_model::step::{Command, CommandKind, Completion, Fingerprint, Repeat};
use pentad_model::{RunId, Timestamp};
use pentad_program::{Act, Child, ChildEnd, Context, Failure, Invoke, Pending, StepSpec, Wait, WaitFor};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::random::Sequence;

/// What a command needs beside its record.
pub(crate) enum Work {
    /// An act of the program.
    Step(Act),
    /// A verb.
    Invoke(Invoke),
    /// A child.
    Spawn(Box<Child>),
    /// Something to wait for.
    Wait(Wait),
    /// It cannot even be recorded.
    Unsound(RunError),
}

/// A command that a program has issued and that is not yet recorded.
pub(crate) struct Issued {
    pub(crate) command: Command,
    pub(crate) work: Work,
}

/// A place where a completion is waited for.
#[derive(Default)]
struct Slot {
    completion: Option<Completion>,
    waker: Option<Waker>,
}

#[derive(Default)]
struct Inner {
    next: u32,
    issued: Vec<Issued>,
    slots: HashMap<u32, Slot>,
    dropped: Vec<u32>,
    emitted: Vec<(String, String)>,
    spent: Usage,
    busy: usize,
    now: i64,
}

/// One run's commands and completions, shared by its program and its executor.
pub(crate) struct Shared {
    run: Run,
    repeats: Arc<dyn Fn(&Invoke) -> Repeat + Send + Sync>,
    cancel: CancellationToken,
    random: Mutex<Sequence>,
    inner: Mutex<Inner>,
}

impl Shared {
    /// Returns the shared state of a run at its beginning.
    pub(crate) fn new(
        run: Run,
        repeats: Arc<dyn Fn(&Invoke) -> Repeat + Send + Sync>,
        cancel: CancellationToken,
    ) -> Arc<Self> {
        let inner = Inner {
            now: run.created_at.0,
            ..Inner::default()
        };
        Arc::new(Self {
            random: Mutex::new(Sequence::of(run.id)),
            run,
            repeats,
            cancel,
            inner: Mutex::new(inner),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the commands that were issued since the last time.
    pub(crate) fn issued(&self) -> Vec<Issued> {
        std::mem::take(&mut self.lock().issued)
    }

    /// Takes the places that nobody waits for any more.
    pub(crate) fn dropped(&self) -> Vec<u32> {
        std::mem::take(&mut self.lock().dropped)
    }

    /// Takes what was emitted since the last time.
    pub(crate) fn emitted(&self) -> Vec<(String, String)> {
        std::mem::take(&mut self.lock().emitted)
    }

    /// Returns what was spent in all.
    pub(crate) fn spent(&self) -> Usage {
        self.lock().spent
    }

    /// Tells whether the program waits for something of its own.
    pub(crate) fn is_busy(&self) -> bool {
        self.lock().busy > 0
    }

    /// Says from when the program counts.
    pub(crate) fn begin(&self, at: Timestamp) {
        self.lock().now = at.0;
    }

    /// Gives a completion to whoever waits for it. False when nobody does.
    pub(crate) fn deliver(&self, position: u32, completion: Completion, at: Timestamp) -> bool {
        let mut inner = self.lock();
        inner.now = inner.now.max(at.0);
        let Some(slot) = inner.slots.get_mut(&position) else {
            return false;
        };
        slot.completion = Some(completion);
        let waker = slot.waker.take();
        drop(inner);
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }

    fn issue(
        self: &Arc<Self>,
        kind: CommandKind,
        repeat: Repeat,
        label: String,
        asked: Value,
        work: Work,
    ) -> Given {
        // What has no fingerprint has no record either: it fails where it was asked for.
        let (fingerprint, work) = match Fingerprint::of(kind, &asked) {
            Ok(fingerprint) => (fingerprint, work),
            Err(error) => {
                let error = RunError {
                    code: "unsound".to_owned(),
                    message: error.to_string(),
                };
                (Fingerprint([0; 16]), Work::Unsound(error))
            }
        };
        let asked = if matches!(work, Work::Unsound(_)) {
            Value::Null
        } else {
            asked
        };
        let mut inner = self.lock();
        let position = inner.next;
        inner.next += 1;
        inner.slots.insert(position, Slot::default());
        let work = match work {
            Work::Wait(wait) => Work::Wait(Wait { position, ..wait }),
            other => other,
        };
        inner.issued.push(Issued {
            command: Command {
                position,
                kind,
                fingerprint,
                repeat,
                label,
                asked,
            },
            work,
        });
        drop(inner);
        Given {
            shared: Arc::clone(self),
            position,
        }
    }

    /// Waits for something that somebody outside answers.
    fn wait_for(self: &Arc<Self>, kind: CommandKind, what: WaitFor, due: Option<Timestamp>) -> Given {
        let asked = json!({"what": value_of(&what), "due": due});
        // When a time limit ends follows from when the program asked, which a resumed one knows as well.
        let wait = Wait {
            position: 0,
            what,
            due,
        };
        self.issue(kind, Repeat::Safe, String::new(), asked, Work::Wait(wait))
    }

    /// Issues a command until nothing needs to come first.
    async fn until_done(
        self: Arc<Self>,
        mut given: Given,
        mut again: impl FnMut(&Arc<Self>) -> Given,
    ) -> Result<Value, Failure> {
        loop {
            match given.await {
                Completion::Waits(what) => {
                    let what: WaitFor = decoded(what)?;
                    self.wait_for(CommandKind::Wait, what, None).await;
                    given = again(&self);
                }
                other => return result_of(other),
            }
        }
    }
}

/// The result of one command.
struct Given {
    shared: Arc<Shared>,
    position: u32,
}

impl Future for Given {
    type Output = Completion;

    fn poll(self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<Completion> {
        let mut inner = self.shared.lock();
        let Some(slot) = inner.slots.get_mut(&self.position) else {
            // Polled after it was ready, which no one may do; a result that never comes is what such a future is.
            return Poll::Pending;
        };
        let Some(completion) = slot.completion.take() else {
            slot.waker = Some(cx.waker().clone());
            return Poll::Pending;
        };
        inner.slots.remove(&self.position);
        Poll::Ready(completion)
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        let mut inner = self.shared.lock();
        // One that has become ready has no slot any more.
        if inner.slots.remove(&self.position).is_some() {
            inner.dropped.push(self.position);
        }
    }
}

fn value_of<T: Serialize>(value: &T) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

fn unreadable(error: &serde_json::Error) -> Failure {
    Failure::Failed(RunError {
        code: "corrupt".to_owned(),
        message: format!("A recorded result cannot be read: {error}."),
    })
}

fn decoded<T: DeserializeOwned>(value: Value) -> Result<T, Failure> {
    serde_json::from_value(value).map_err(|error| unreadable(&error))
}

fn result_of(completion: Completion) -> Result<Value, Failure> {
    match completion {
        Completion::Done(value) => Ok(value),
        Completion::Failed(error) => Err(Failure::Failed(error)),
        Completion::Interrupted => Err(Failure::Interrupted),
        // Blobs are read before anything is delivered, and what must come first is waited for before.
        Completion::Stored { .. } | Completion::Waits(_) => Err(Failure::Failed(RunError {
            code: "corrupt".to_owned(),
            message: "A recorded result stands where none can be.".to_owned(),
        })),
    }
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// What programs are given: the shared state behind a handle that their futures can keep.
pub(crate) struct Handle(pub(crate) Arc<Shared>);

impl Context for Handle {
    fn run(&self) -> &Run {
        &self.0.run
    }

    fn step(&self, spec: StepSpec, act: Act) -> Pending<Result<Value, Failure>> {
        let act: Arc<dyn Fn(pentad_program::Attempt) -> pentad_program::ActFuture + Send + Sync> =
            Arc::from(act);
        let again = move |shared: &Arc<Shared>| {
            let act = Arc::clone(&act);
            let asked = json!({"name": spec.name, "input": spec.input});
            let work = Work::Step(Box::new(move |attempt| act(attempt)));
            shared.issue(CommandKind::Step, spec.repeat, spec.label.clone(), asked, work)
        };
        let given = again(&self.0);
        Box::pin(Arc::clone(&self.0).until_done(given, again))
    }

    fn invoke(&self, invoke: Invoke) -> Pending<Result<Outcome, Failure>> {
        let repeat = (self.0.repeats)(&invoke);
        let again = move |shared: &Arc<Shared>| {
            let asked = json!({"verb": invoke.verb, "arguments": invoke.arguments});
            let work = Work::Invoke(invoke.clone());
            shared.issue(CommandKind::Invoke, repeat, String::new(), asked, work)
        };
        let given = again(&self.0);
        let done = Arc::clone(&self.0).until_done(given, again);
        Box::pin(async move { done.await.and_then(decoded) })
    }

    fn spawn(&self, child: Child) -> Pending<Result<RunId, Failure>> {
        let again = move |shared: &Arc<Shared>| {
            let asked = json!({
                "program": child.program,
                "name": child.name,
                "input": child.input,
                "grants": child.grants,
                "output": child.output,
                "budget": child.budget,
                "awaited": child.awaited,
            });
            let work = Work::Spawn(Box::new(child.clone()));
            shared.issue(CommandKind::Spawn, Repeat::Safe, child.title.clone(), asked, work)
        };
        let given = again(&self.0);
        let done = Arc::clone(&self.0).until_done(given, again);
        Box::pin(async move { done.await.and_then(decoded) })
    }

    fn join(&self, child: RunId) -> Pending<Result<ChildEnd, Failure>> {
        let given = self
            .0
            .wait_for(CommandKind::Join, WaitFor::Child { run: child }, None);
        Box::pin(async move { result_of(given.await).and_then(decoded) })
    }

    fn sleep(&self, time: Duration) -> Pending<()> {
        let due = self.now().plus_millis(millis(time));
        let given = self.0.wait_for(CommandKind::Sleep, WaitFor::Timer, Some(due));
        Box::pin(async move {
            given.await;
        })
    }

    fn wait(&self, event: &str, limit: Option<Duration>) -> Pending<Option<Value>> {
        let due = limit.map(|limit| self.now().plus_millis(millis(limit)));
        let what = WaitFor::Event {
            name: event.to_owned(),
        };
        let given = self.0.wait_for(CommandKind::Wait, what, due);
        Box::pin(async move {
            match given.await {
                Completion::Done(Value::Object(mut answer)) => answer.remove("event"),
                _ => None,
            }
        })
    }

    fn emit(&self, level: &str, text: &str) {
        self.0.lock().emitted.push((level.to_owned(), text.to_owned()));
    }

    fn spend(&self, usage: Usage) {
        let mut inner = self.0.lock();
        inner.spent.tokens = inner.spent.tokens.saturating_add(usage.tokens);
        inner.spent.cost_micros = inner.spent.cost_micros.saturating_add(usage.cost_micros);
    }

    fn now(&self) -> Timestamp {
        Timestamp(self.0.lock().now)
    }

    fn random(&self) -> u64 {
        self.0
            .random
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .next()
    }

    fn busy(&self) -> Box<dyn Send + Sync> {
        self.0.lock().busy += 1;
        Box::new(Busy(Arc::clone(&self.0)))
    }

    fn canceled(&self) -> CancellationToken {
        self.0.cancel.clone()
    }
}

struct Busy(Arc<Shared>);

impl Drop for Busy {
    fn drop(&mut self) {
        let mut inner = self.0.lock();
        inner.busy = inner.busy.saturating_sub(1);
    }
}
