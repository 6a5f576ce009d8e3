//! Executing a program again up to where its journal ends.

use std::collections::VecDeque;

use pentad_model::Timestamp;
use pentad_model::run::RunError;
use pentad_model::step::{Completion, Step, StepBody};
use pentad_program::{StoreError, WaitFor};

use crate::acts::grown;
use crate::batch::Batch;
use crate::context::Work;
use crate::replay::Replay;
use crate::resident::{Ended, Resident};

/// Steps that are read at a time.
const PAGE: usize = 2_000;

/// Where a resumed program stands.
pub(crate) enum Resumed {
    /// Where its journal ends; what it asks for now is new.
    On,
    /// At its end, which was not written.
    Ended(Ended),
    /// Its journal cannot be followed.
    Corrupt(RunError),
}

impl Resident {
    /// Executes the program up to where its journal ends; for a new run that is its beginning.
    pub(crate) async fn resume(&mut self, batch: &mut Batch) -> Result<Resumed, StoreError> {
        let mut steps = Steps::default();
        let mut replay = Replay::default();
        match steps.next(self).await {
            Ok(Some(step)) if matches!(step.body, StepBody::Started) => self.begin(step.at),
            Ok(Some(step)) => return Ok(Resumed::Corrupt(out_of_place(&step))),
            Ok(None) => {
                let at = self.core.clock.now();
                batch.step(at, StepBody::Started);
                self.begin(at);
            }
            Err(StoreError::Corrupt(text)) => return Ok(Resumed::Corrupt(corrupt(text))),
            Err(error) => return Err(error),
        }
        let mut ended = self.driver.run_until_idle(&self.shared).await;
        replay.issue(self.shared.issued());
        loop {
            let step = match steps.next(self).await {
                Ok(Some(step)) => step,
                Ok(None) => break,
                Err(StoreError::Corrupt(text)) => return Ok(Resumed::Corrupt(corrupt(text))),
                Err(error) => return Err(error),
            };
            // What was emitted up to here is in the journal with the step that followed.
            drop(self.shared.emitted());
            match self.follow(step, &mut replay, &mut ended).await? {
                Ok(()) => {}
                Err(error) => return Ok(Resumed::Corrupt(error)),
            }
        }
        let (open, new) = replay.finish();
        if new.is_empty() && ended.is_none() {
            drop(self.shared.emitted());
        }
        drop(self.shared.dropped());
        self.revive(open, batch);
        self.collect(new, batch).await;
        Ok(ended.map_or(Resumed::On, Resumed::Ended))
    }

    fn begin(&mut self, at: Timestamp) {
        self.began = at;
        self.shared.begin(at);
    }

    /// Follows one recorded step.
    async fn follow(
        &mut self,
        step: Step,
        replay: &mut Replay,
        ended: &mut Option<Ended>,
    ) -> Result<Result<(), RunError>, StoreError> {
        let at = step.at;
        match step.body {
            StepBody::Started => return Ok(Err(out_of_place(&step))),
            StepBody::Again { .. } | StepBody::Note { .. } => {}
            StepBody::Command(command) => {
                if let Err(mismatch) = replay.command(&command) {
                    return Ok(Err(mismatch.into_error()));
                }
            }
            StepBody::Completed { position, completion } => {
                let issued = match replay.complete(position) {
                    Ok(issued) => issued,
                    Err(mismatch) => return Ok(Err(mismatch.into_error())),
                };
                if ended.is_some() {
                    // An act that the program did not wait for.
                    return Ok(Ok(()));
                }
                let completion = grown(&*self.core.store, &self.core.limits, completion).await?;
                if matches!(issued.work, Work::Spawn(_)) && matches!(completion, Completion::Done(_)) {
                    self.children += 1;
                }
                if matches!(&issued.work, Work::Wait(wait) if wait.what == WaitFor::Budget) {
                    self.widen(&completion);
                }
                if self.shared.deliver(position, completion, at) {
                    *ended = self.driver.run_until_idle(&self.shared).await;
                    replay.issue(self.shared.issued());
                }
            }
        }
        Ok(Ok(()))
    }
}

/// The recorded steps of a run, read in pages.
#[derive(Default)]
struct Steps {
    page: VecDeque<Step>,
    over: bool,
}

impl Steps {
    async fn next(&mut self, run: &mut Resident) -> Result<Option<Step>, StoreError> {
        if self.page.is_empty() && !self.over {
            let page = run.core.runs.steps(run.run.id, run.last, PAGE).await?;
            self.over = !page.more;
            self.page = page.steps.into();
        }
        let next = self.page.pop_front();
        if let Some(step) = &next {
            run.last = step.seq;
        }
        Ok(next)
    }
}

fn corrupt(text: String) -> RunError {
    RunError {
        code: "corrupt".to_owned(),
        message: text,
    }
}

fn out_of_place(step: &Step) -> RunError {
    corrupt(format!(
        "Step {} of this run's journal ('{}') cannot stand where it stands.",
        step.seq,
        step.body.word()
    ))
}
