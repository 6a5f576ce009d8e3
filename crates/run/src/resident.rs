//! One run in memory: its program, its acts, and the way from one to the journal and back.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use pentad_model::Timestamp;
use pentad_model::event::EventBody;
use pentad_model::run::{Run, RunError, RunStatus, Usage, WaitReason};
use pentad_model::step::{Completion, Repeat, StepBody};
use pentad_model::verb::Budget;
use pentad_program::{Ending, StoreError, WaitFor};
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio_util::sync::CancellationToken;

use crate::acts::{Acts, Done, grown};
use crate::batch::{Batch, Start, event};
use crate::commit::Committed;
use crate::context::{Handle, Issued, Shared, Work};
use crate::core::Core;
use crate::drive::Driver;
use crate::{admit, budget};

/// Why a run leaves the memory.
#[derive(Debug)]
pub(crate) enum Exit {
    /// It has ended, and this is written.
    Settled,
    /// It waits in the journal.
    Parked,
    /// It belongs to another executor, or somebody else has ended it.
    Fenced,
    /// The runtime ends; whoever comes next goes on with it.
    Stopped,
}

/// How one is reached from outside.
#[derive(Clone, Default)]
pub(crate) struct Reach {
    /// There may be answers to take.
    pub(crate) mail: Arc<Notify>,
    /// Somebody has asked that it end.
    pub(crate) cancel: CancellationToken,
}

/// A completion on its way to the program.
pub(crate) enum Ready {
    /// Of an act; the journal does not know it yet.
    New(Done),
    /// From the journal.
    Recorded {
        position: u32,
        completion: Completion,
        at: Timestamp,
    },
}

/// How a program ended, or was ended.
pub(crate) type Ended = Result<Ending, RunError>;

/// One run in memory.
pub(crate) struct Resident {
    pub(crate) core: Arc<Core>,
    pub(crate) run: Run,
    pub(crate) shared: Arc<Shared>,
    pub(crate) driver: Driver,
    pub(crate) acts: Acts,
    pub(crate) reach: Reach,
    pub(crate) permit: Option<OwnedSemaphorePermit>,
    /// The number of the last step.
    pub(crate) last: u64,
    /// When the program was begun.
    pub(crate) began: Timestamp,
    /// What it may use up, with what was given meanwhile.
    pub(crate) budget: Budget,
    /// Children that it has started.
    pub(crate) children: u64,
    /// What is written of its usage.
    pub(crate) written: Usage,
    /// Its open waits, by their commands' places.
    pub(crate) waits: BTreeMap<u32, WaitReason>,
    pub(crate) ready: VecDeque<Ready>,
    /// Its status as it is written.
    pub(crate) status: RunStatus,
}

impl Resident {
    /// Returns a run that was just claimed; [`Self::execute`] does the rest.
    pub(crate) fn new(
        core: Arc<Core>,
        run: Run,
        reach: Reach,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Option<Self> {
        let program = core.program(&run.terms.program)?;
        let (invoker, of) = (Arc::clone(&core.invoker), run.clone());
        let shared = Shared::new(
            run.clone(),
            Arc::new(move |invoke| invoker.repeat(&of, invoke)),
            reach.cancel.clone(),
        );
        let future = program.execute(Arc::new(Handle(Arc::clone(&shared))), run.input.clone());
        let acts = Acts::new(CancellationToken::new(), Arc::clone(&core.store), core.limits);
        Some(Self {
            driver: Driver::new(future),
            acts,
            reach,
            permit,
            last: 0,
            began: run.created_at,
            budget: run.terms.budget.clone(),
            children: 0,
            written: run.usage,
            waits: BTreeMap::new(),
            ready: VecDeque::new(),
            status: run.status,
            shared,
            run,
            core,
        })
    }

    /// Executes the run until it leaves the memory.
    pub(crate) async fn execute(mut self) -> Result<Exit, StoreError> {
        let mut batch = Batch::new();
        let mut ended = match self.resume(&mut batch).await? {
            crate::resume::Resumed::Ended(ended) => Some(ended),
            crate::resume::Resumed::On => None,
            crate::resume::Resumed::Corrupt(error) => return self.give_up(error).await,
        };
        loop {
            if ended.is_none() {
                ended = self.deliver(&mut batch).await;
            }
            if let Some(ended) = ended {
                return self.settle(batch, ended).await;
            }
            // What was asked for in the last moment is not begun any more.
            if self.reach.cancel.is_cancelled() {
                return self.settle_canceled().await;
            }
            if !batch.is_empty() || self.standing(&batch) != Some(self.status) {
                match self.commit(std::mem::replace(&mut batch, Batch::new())).await? {
                    Committed::Yes => {}
                    Committed::Stuck => {
                        ended = Some(Err(stuck()));
                        continue;
                    }
                    Committed::No(exit) => return Ok(exit),
                }
            }
            if !self.ready.is_empty() {
                continue;
            }
            match self.rest().await? {
                Rest::Over => {}
                Rest::Canceled => return self.settle_canceled().await,
                Rest::Stopping => return self.stop().await,
                Rest::Left(exit) => return Ok(exit),
            }
        }
    }

    /// Gives the program what is ready, one after the other, and collects what it asks for.
    async fn deliver(&mut self, batch: &mut Batch) -> Option<Ended> {
        while let Some(next) = self.ready.pop_front() {
            let (position, completion, at) = match next {
                Ready::New(done) => {
                    let at = self.core.clock.now();
                    batch.completed(at, done.position, done.recorded);
                    (done.position, done.given, at)
                }
                Ready::Recorded {
                    position,
                    completion,
                    at,
                } => (position, completion, at),
            };
            if let Some(ended) = self.give(position, completion, at, batch).await {
                return Some(ended);
            }
        }
        None
    }

    /// Gives the program one completion and executes it until it waits again.
    async fn give(
        &mut self,
        position: u32,
        completion: Completion,
        at: Timestamp,
        batch: &mut Batch,
    ) -> Option<Ended> {
        self.note_answer(position, &completion);
        if !self.shared.deliver(position, completion, at) {
            return None;
        }
        let ended = self.driver.run_until_idle(&self.shared).await;
        let issued = self.shared.issued();
        self.collect(issued, batch).await;
        ended
    }

    /// Keeps what the answer of a wait means for the executor: the program's own answers are the program's.
    fn note_answer(&mut self, position: u32, completion: &Completion) {
        if self.waits.remove(&position) == Some(WaitReason::Budget) {
            self.widen(completion);
        }
    }

    /// Takes a budget that somebody gave.
    pub(crate) fn widen(&mut self, completion: &Completion) {
        if let Completion::Done(value) = completion
            && let Ok(more) = serde_json::from_value::<Budget>(value.clone())
        {
            self.budget = budget::widened(&self.budget, &more);
        }
    }

    /// Admits commands and adds them to the batch, with what the program said and gave up besides.
    pub(crate) async fn collect(&mut self, issued: Vec<Issued>, batch: &mut Batch) {
        let at = self.core.clock.now();
        for (level, text) in self.shared.emitted() {
            let source = format!("run:{}", self.run.id);
            batch
                .events
                .push(event(&self.run, at, EventBody::Log { level, source, text }));
        }
        for issued in issued {
            admit::admit(self, issued, at, batch).await;
        }
        for position in self.shared.dropped() {
            if self.waits.remove(&position).is_some() {
                batch.dropped.push(position);
            }
        }
    }

    /// Notes a wait that the program has now.
    pub(crate) fn note_wait(&mut self, position: u32, what: &WaitFor) {
        let reason = match what {
            WaitFor::Timer => WaitReason::Timer,
            WaitFor::Event { .. } => WaitReason::Event,
            WaitFor::Child { .. } => WaitReason::Children,
            WaitFor::Approval { .. } => WaitReason::Approval,
            WaitFor::Budget => WaitReason::Budget,
            WaitFor::Env { .. } => WaitReason::Env,
        };
        self.waits.insert(position, reason);
    }

    /// Returns what it waits for, the thing that a person can do something about first.
    pub(crate) fn reason(&self) -> Option<WaitReason> {
        const ORDER: [WaitReason; 6] = [
            WaitReason::Approval,
            WaitReason::Budget,
            WaitReason::Env,
            WaitReason::Event,
            WaitReason::Children,
            WaitReason::Timer,
        ];
        ORDER
            .into_iter()
            .find(|reason| self.waits.values().any(|own| own == reason))
    }

    /// Returns what is used up by now.
    pub(crate) fn usage(&self) -> Usage {
        Usage {
            children: self.children,
            ..self.shared.spent()
        }
    }

    /// Waits until there is something to give to the program.
    async fn rest(&mut self) -> Result<Rest, StoreError> {
        if self.reach.cancel.is_cancelled() {
            return Ok(Rest::Canceled);
        }
        let idle = self.acts.is_empty();
        let linger = if idle {
            self.core.wait_in_memory(&mut self.permit)
        } else {
            None
        };
        let mail = Arc::clone(&self.reach.mail);
        tokio::select! {
            biased;
            () = self.reach.cancel.cancelled() => Ok(Rest::Canceled),
            () = self.core.stopping.cancelled() => Ok(Rest::Stopping),
            Some(done) = self.acts.next(), if !idle => {
                self.ready.push_back(Ready::New(done));
                Ok(Rest::Over)
            }
            () = mail.notified() => self.take().await,
            () = tokio::time::sleep(linger.unwrap_or_default()), if idle => self.park().await,
        }
    }

    /// Leaves the run to whoever comes next. What it did is ended first, and what came of that is written; a program that
    /// ends by it is settled. Whatever it would do next is not begun.
    async fn stop(mut self) -> Result<Exit, StoreError> {
        let at = self.core.clock.now();
        let mut batch = Batch::new();
        let mut known = Vec::new();
        for done in self.acts.end(self.core.limits.grace).await {
            // What may be repeated is, by whoever comes next.
            if done.was_canceled() && done.repeat != Repeat::Never {
                continue;
            }
            batch.completed(at, done.position, done.recorded);
            known.push((done.position, done.given));
        }
        if known.is_empty() {
            return Ok(Exit::Stopped);
        }
        let advance = batch.advance(self.run.id, self.last, None, None, at);
        match self.put(advance, batch.durability()).await? {
            Ok(advanced) => self.last = advanced.last,
            Err(exit) => return Ok(exit),
        }
        for (position, completion) in known {
            self.shared.deliver(position, completion, at);
            if let Some(ended) = self.driver.run_until_idle(&self.shared).await {
                return self.settle(Batch::new(), ended).await;
            }
        }
        Ok(Exit::Stopped)
    }

    async fn park(&mut self) -> Result<Rest, StoreError> {
        match self.core.runs.park(self.run.id, self.core.clock.now()).await {
            Ok(true) => Ok(Rest::Left(Exit::Parked)),
            Ok(false) => self.take().await,
            Err(StoreError::Conflict(_)) => Ok(Rest::Left(Exit::Fenced)),
            Err(error) => Err(error),
        }
    }

    /// Takes the answers that have come, and looks whether the run is to end.
    async fn take(&mut self) -> Result<Rest, StoreError> {
        if self.permit.is_none() {
            self.permit = self.core.permit().await;
        }
        let at = self.core.clock.now();
        let steps = match self.core.runs.take(self.run.id, self.last, at).await {
            Ok(steps) => steps,
            Err(StoreError::Conflict(_)) => return Ok(Rest::Left(Exit::Fenced)),
            Err(error) => return Err(error),
        };
        if steps.is_empty() {
            let run = self.core.store.run(self.run.id).await?;
            if run.canceling {
                return Ok(Rest::Canceled);
            }
            if run.status.is_settled() {
                return Ok(Rest::Left(Exit::Fenced));
            }
            return Ok(Rest::Over);
        }
        self.status = RunStatus::Running;
        for step in steps {
            self.last = step.seq;
            if let StepBody::Completed { position, completion } = step.body {
                let completion = grown(&*self.core.store, &self.core.limits, completion).await?;
                self.ready.push_back(Ready::Recorded {
                    position,
                    completion,
                    at: step.at,
                });
            }
        }
        Ok(Rest::Over)
    }

    /// Begins again what was interrupted and may be, and tells the program of the rest.
    pub(crate) fn revive(&mut self, open: Vec<Issued>, batch: &mut Batch) {
        let at = self.core.clock.now();
        for Issued { command, work } in open {
            let position = command.position;
            match work {
                Work::Wait(wait) => self.note_wait(position, &wait.what),
                Work::Step(act) if repeats(command.repeat) => {
                    batch.step(at, StepBody::Again { position });
                    batch.starts.push((position, Start::Step(command.repeat, act)));
                }
                Work::Invoke(invoke) if repeats(command.repeat) => {
                    batch.step(at, StepBody::Again { position });
                    batch
                        .starts
                        .push((position, Start::Invoke(command.repeat, invoke)));
                }
                Work::Step(_) | Work::Invoke(_) => batch.answer(at, position, Completion::Interrupted),
                // These are completed in the transaction that records them.
                Work::Spawn(_) | Work::Unsound(_) => {
                    batch.refuse(
                        at,
                        position,
                        "corrupt",
                        "Its completion is not in the journal.".to_owned(),
                    );
                }
            }
        }
    }
}

const fn repeats(repeat: Repeat) -> bool {
    matches!(repeat, Repeat::Safe | Repeat::Keyed)
}

enum Rest {
    Over,
    Canceled,
    Stopping,
    Left(Exit),
}

fn stuck() -> RunError {
    RunError {
        code: "stuck".to_owned(),
        message: "The program waits for nothing that can ever come.".to_owned(),
    }
}
