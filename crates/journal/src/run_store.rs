//! The contract of durable runs, method by method.

use std::sync::atomic::Ordering;

use async_trait::async_trait;
use pentad_model::run::Run;
use pentad_model::step::{Completion, Step};
use pentad_model::{Caller, RunId, Timestamp};
use pentad_program::{
    Advance, Advanced, Canceling, Delivery, Durability, Executor, Retired, RunCounts, RunStore, Settled,
    Settlement, StepPage, StoreError, Wait,
};
use serde_json::Value;

use crate::steps::{Last, Look};
use crate::{Journal, advance, cancel, executors, kept, runs, settle, steps, waits};

/// Looks for other processes' events between two looks for what they gave executors to do.
const STIR_POLLS: u32 = 20;

impl Journal {
    /// Returns the own epoch, 0 as long as there is none.
    fn epoch(&self) -> u64 {
        self.inner.known.epoch.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl RunStore for Journal {
    async fn beat(&self) -> Result<(), StoreError> {
        if self.epoch() == 0 {
            return Ok(());
        }
        // An error would take back that the executor was told.
        let lives = self.write(Durability::Crash, executors::beat).await?;
        if lives {
            Ok(())
        } else {
            Err(executors::displaced())
        }
    }

    async fn executors(&self) -> Result<Vec<Executor>, StoreError> {
        let own = self.epoch();
        self.read(move |connection| executors::seen(connection, own))
            .await
    }

    async fn retire(&self, epochs: Vec<u64>, at: Timestamp) -> Result<Retired, StoreError> {
        self.write(Durability::Power, move |scope| {
            executors::retire(scope, &epochs, at)
        })
        .await
    }

    async fn claim(&self, limit: usize, at: Timestamp) -> Result<Vec<Run>, StoreError> {
        // Mostly there are none, and the writer has better things to do.
        let queued = self.read(|connection| advance::queued(connection, 1)).await?;
        if limit == 0 || queued.is_empty() {
            return Ok(Vec::new());
        }
        self.write(Durability::Crash, move |scope| advance::claim(scope, limit, at))
            .await
    }

    async fn mail(&self, limit: usize) -> Result<Vec<RunId>, StoreError> {
        match self.epoch() {
            0 => Ok(Vec::new()),
            epoch => {
                self.read(move |connection| advance::mail(connection, epoch, limit))
                    .await
            }
        }
    }

    async fn steps(&self, run: RunId, after: u64, limit: usize) -> Result<StepPage, StoreError> {
        self.read(move |connection| steps::of_run(connection, run, after, limit))
            .await
    }

    async fn step_feed(&self, after: u64, limit: usize) -> Result<Vec<Step>, StoreError> {
        self.read(move |connection| steps::feed(connection, after, limit))
            .await
    }

    async fn waits(&self, run: RunId) -> Result<Vec<Wait>, StoreError> {
        self.read(move |connection| waits::open(connection, run)).await
    }

    async fn advance(&self, advance: Advance, durability: Durability) -> Result<Advanced, StoreError> {
        self.write(durability, move |scope| advance::advance(scope, &advance))
            .await
    }

    async fn take(&self, run: RunId, after: u64, at: Timestamp) -> Result<Vec<Step>, StoreError> {
        self.write(Durability::Crash, move |scope| {
            advance::take(scope, run, after, at)
        })
        .await
    }

    async fn park(&self, run: RunId, at: Timestamp) -> Result<bool, StoreError> {
        self.write(Durability::Crash, move |scope| advance::park(scope, run, at))
            .await
    }

    async fn settle(&self, settlement: Settlement, durability: Durability) -> Result<Settled, StoreError> {
        self.write(durability, move |scope| settle::settle(scope, &settlement))
            .await
    }

    async fn send(
        &self,
        run: RunId,
        name: &str,
        value: Value,
        by: Caller,
        at: Timestamp,
    ) -> Result<Delivery, StoreError> {
        let name = name.to_owned();
        self.write(Durability::Power, move |scope| {
            kept::send(scope, run, &name, &value, &by, at)
        })
        .await
    }

    async fn answer_wait(
        &self,
        run: RunId,
        position: u32,
        answer: Completion,
        by: Caller,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        self.write(Durability::Power, move |scope| {
            waits::answer(scope, run, position, &answer, &by, at)
        })
        .await
    }

    async fn fire(&self, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
        let mut next = self.read(waits::next_due).await?;
        while next.is_some_and(|due| due <= now) {
            next = self
                .write(Durability::Power, move |scope| waits::fire(scope, now))
                .await?;
        }
        Ok(next)
    }

    async fn cancel(
        &self,
        run: RunId,
        by: Caller,
        reason: String,
        at: Timestamp,
    ) -> Result<Canceling, StoreError> {
        self.write(Durability::Power, move |scope| {
            cancel::ask(scope, run, &by, &reason, at)
        })
        .await
    }

    async fn children(&self, run: RunId, limit: usize) -> Result<Vec<Run>, StoreError> {
        self.read(move |connection| runs::children(connection, run, limit))
            .await
    }

    async fn counts(&self, root: Option<RunId>) -> Result<RunCounts, StoreError> {
        self.read(move |connection| runs::counts(connection, root)).await
    }

    async fn verify_run(&self, run: RunId) -> Result<Option<u64>, StoreError> {
        let mut checked = Last::default();
        loop {
            let look = self
                .read(move |connection| steps::check(connection, run, checked))
                .await?;
            match look {
                Look::Fits(further) => checked = further,
                Look::Whole => return Ok(None),
                Look::Broken(seq) => return Ok(Some(seq)),
            }
        }
    }

    async fn stirred(&self, after: u64) -> Result<u64, StoreError> {
        let inner = &self.inner;
        let poll = inner.options.poll.saturating_mul(STIR_POLLS);
        self.beyond(after, &inner.known.stirs, &inner.stirring, poll, executors::stirs)
            .await
    }
}
