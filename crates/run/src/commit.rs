//! Writing what a program asked for, and beginning it once it is written.

use std::time::Duration;

use pentad_fail::{Point, point};
use pentad_model::run::RunStatus;
use pentad_program::{Advance, Advanced, Durability, StoreError};

use crate::batch::{Batch, Start};
use crate::resident::{Exit, Ready, Resident};

/// How long the first of several tries to write waits for the next.
const FIRST_RETRY: Duration = Duration::from_millis(200);
/// How long the last does.
const LAST_RETRY: Duration = Duration::from_secs(20);

/// What came of a batch.
pub(crate) enum Committed {
    /// It is written, and what it says has begun.
    Yes,
    /// It is written, and the program waits for nothing that will ever come.
    Stuck,
    /// It is not, and the run leaves the memory.
    No(Exit),
}

impl Resident {
    /// Returns where the run stands once a batch is written; nothing when it waits for nothing that will ever come.
    pub(crate) fn standing(&self, batch: &Batch) -> Option<RunStatus> {
        if !self.acts.is_empty() || batch.goes_on() || !self.ready.is_empty() {
            return Some(RunStatus::Running);
        }
        self.reason().map(RunStatus::Waiting)
    }

    /// Writes a batch, and begins what it says.
    pub(crate) async fn commit(&mut self, batch: Batch) -> Result<Committed, StoreError> {
        let Some(status) = self.standing(&batch) else {
            return self.commit_stuck(batch).await;
        };
        let usage = self.usage();
        let changed = (usage != self.written).then_some(usage);
        let at = self.core.clock.now();
        let advance = batch.advance(
            self.run.id,
            self.last,
            (status != self.status).then_some(status),
            changed,
            at,
        );
        let durability = batch.durability();
        let advanced = match self.put(advance, durability).await? {
            Ok(advanced) => advanced,
            Err(exit) => return Ok(Committed::No(exit)),
        };
        self.last = advanced.last;
        self.status = status;
        self.written = usage;
        if advanced.answered {
            self.reach.mail.notify_one();
        }
        if !batch.starts.is_empty() {
            point(Point::RunActsBefore);
        }
        for (position, start) in batch.starts {
            match start {
                Start::Step(repeat, act) => self.acts.step(&self.run, position, repeat, &act),
                Start::Invoke(repeat, invoke) => {
                    self.acts
                        .invoke(&self.core.invoker, &self.run, position, repeat, invoke);
                }
            }
        }
        self.ready
            .extend(batch.locals.into_iter().map(|local| Ready::Recorded {
                position: local.position,
                completion: local.completion,
                at,
            }));
        Ok(Committed::Yes)
    }

    /// Writes what a program said that now waits for nothing that will ever come.
    async fn commit_stuck(&mut self, batch: Batch) -> Result<Committed, StoreError> {
        let at = self.core.clock.now();
        let advance = batch.advance(self.run.id, self.last, None, None, at);
        Ok(match self.put(advance, batch.durability()).await? {
            Ok(advanced) => {
                self.last = advanced.last;
                Committed::Stuck
            }
            Err(exit) => Committed::No(exit),
        })
    }

    /// Writes to the run's journal. A full disk is waited for: nothing is done before it is written, and nothing is lost.
    pub(crate) async fn put(
        &mut self,
        advance: Advance,
        durability: Durability,
    ) -> Result<Result<Advanced, Exit>, StoreError> {
        let mut pause = FIRST_RETRY;
        loop {
            match self.core.runs.advance(advance.clone(), durability).await {
                Ok(advanced) => return Ok(Ok(advanced)),
                Err(StoreError::Conflict(why)) => {
                    tracing::info!(run = %self.run.id, why, "this run goes on elsewhere");
                    return Ok(Err(Exit::Fenced));
                }
                Err(error @ (StoreError::NotWritten(_) | StoreError::Unusable(_))) => {
                    tracing::warn!(run = %self.run.id, %error, "the journal cannot be written; this run waits");
                    tokio::select! {
                        () = tokio::time::sleep(pause) => pause = (pause * 2).min(LAST_RETRY),
                        () = self.core.stopping.cancelled() => return Ok(Err(Exit::Stopped)),
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }
}
