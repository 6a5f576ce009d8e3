//! Doing what commands ask for, outside the program.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use pentad_fail::{Point, point};
use pentad_model::outcome::Outcome;
use pentad_model::run::{Run, RunError};
use pentad_model::step::{Completion, Repeat};
use pentad_program::{Act, ActFailure, Attempt, Attendance, Invoke, ProgressSink, Store};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::limits::Limits;

/// Executes the verbs of runs.
#[async_trait]
pub trait Invoker: Send + Sync {
    /// Tells what becomes of a verb that is interrupted.
    fn repeat(&self, run: &Run, invoke: &Invoke) -> Repeat;

    /// Executes one.
    ///
    /// # Errors
    /// [`ActFailure`]: an outcome that is a refusal is none.
    async fn invoke(&self, run: &Run, invoke: Invoke, attempt: Attempt) -> Result<Outcome, ActFailure>;
}

/// What a command's end adds to the journal, and what the program is given.
pub(crate) struct Done {
    pub(crate) position: u32,
    pub(crate) repeat: Repeat,
    pub(crate) recorded: Completion,
    pub(crate) given: Completion,
}

impl Done {
    /// Tells whether it ended because it was asked to.
    pub(crate) fn was_canceled(&self) -> bool {
        matches!(&self.given, Completion::Failed(error) if error.code == "canceled")
            || self.given == Completion::Interrupted
    }
}

/// The acts of one run that are being done.
pub(crate) struct Acts {
    running: JoinSet<Done>,
    cancel: CancellationToken,
    store: Arc<dyn Store>,
    limits: Limits,
    environment: Option<Arc<pentad_program::Environment>>,
}

impl Acts {
    /// Returns a place for acts that end when `cancel` says so.
    pub(crate) fn new(cancel: CancellationToken, store: Arc<dyn Store>, limits: Limits) -> Self {
        Self {
            running: JoinSet::new(),
            cancel,
            store,
            limits,
            environment: None,
        }
    }

    /// Tells whether nothing is being done.
    pub(crate) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// Waits for the next act to end; nothing when none is being done.
    pub(crate) async fn next(&mut self) -> Option<Done> {
        loop {
            match self.running.join_next().await? {
                Ok(done) => return Some(done),
                // Its panic was caught where it ran; only a runtime that ends cancels tasks.
                Err(error) => tracing::error!(%error, "an act ended without a result"),
            }
        }
    }

    fn attempt(&self, run: &Run, position: u32) -> Attempt {
        Attempt {
            key: format!("{}-{position}", run.id),
            attendance: Attendance {
                cancel: self.cancel.child_token(),
                progress: ProgressSink::none(),
                asker: None,
                environment: self.environment.clone(),
            },
        }
    }

    /// Does a step of the program's own.
    pub(crate) fn step(&mut self, run: &Run, position: u32, repeat: Repeat, act: &Act) {
        let work = act(self.attempt(run, position));
        let (store, limits) = (Arc::clone(&self.store), self.limits);
        self.running.spawn(async move {
            let result = caught(work).await;
            done(&*store, &limits, (position, repeat), result).await
        });
    }

    /// Invokes a verb.
    pub(crate) fn invoke(
        &mut self,
        invoker: &Arc<dyn Invoker>,
        run: &Run,
        position: u32,
        repeat: Repeat,
        invoke: Invoke,
    ) {
        let attempt = self.attempt(run, position);
        let (store, limits) = (Arc::clone(&self.store), self.limits);
        let (invoker, run) = (Arc::clone(invoker), run.clone());
        self.running.spawn(async move {
            let work = Box::pin(async move {
                let outcome = invoker.invoke(&run, invoke, attempt).await?;
                Ok(serde_json::to_value(&outcome).unwrap_or_default())
            });
            let result = caught(work).await;
            done(&*store, &limits, (position, repeat), result).await
        });
    }

    /// Ends what is being done and waits for it, `limit` at most.
    pub(crate) async fn end(&mut self, limit: std::time::Duration) -> Vec<Done> {
        self.cancel.cancel();
        let mut ended = Vec::new();
        let all = async {
            while let Some(done) = self.next().await {
                ended.push(done);
            }
        };
        if tokio::time::timeout(limit, all).await.is_err() {
            tracing::warn!("acts did not end in time; they are left as interrupted");
        }
        ended
    }
}

async fn caught(work: pentad_program::ActFuture) -> Result<Value, ActFailure> {
    use futures::FutureExt as _;
    std::panic::AssertUnwindSafe(work)
        .catch_unwind()
        .await
        .unwrap_or(Err(ActFailure::Interrupted))
}

async fn done(
    store: &dyn Store,
    limits: &Limits,
    (position, repeat): (u32, Repeat),
    result: Result<Value, ActFailure>,
) -> Done {
    point(Point::RunActDone);
    let given = match result {
        Ok(value) => Completion::Done(value),
        Err(ActFailure::Failed(error)) => Completion::Failed(error),
        Err(ActFailure::Interrupted) => Completion::Interrupted,
        Err(ActFailure::Waits(what)) => Completion::Waits(serde_json::to_value(&what).unwrap_or_default()),
    };
    match shrunk(store, limits, &given).await {
        Ok(recorded) => Done {
            position,
            repeat,
            recorded,
            given,
        },
        Err(error) => Done {
            position,
            repeat,
            recorded: Completion::Failed(error.clone()),
            given: Completion::Failed(error),
        },
    }
}

/// Returns what stands in the journal for a completion: itself, or the blob of a large value.
async fn shrunk(store: &dyn Store, limits: &Limits, completion: &Completion) -> Result<Completion, RunError> {
    let Completion::Done(value) = completion else {
        return Ok(completion.clone());
    };
    let text = value.to_string();
    if text.len() <= limits.inline_bytes {
        return Ok(completion.clone());
    }
    if text.len() > limits.result_bytes {
        let message = format!(
            "The result has {} bytes, and {} is the limit; write it to a file or to memory instead.",
            text.len(),
            limits.result_bytes
        );
        let code = "too-large".to_owned();
        return Err(RunError { code, message });
    }
    let blob = store
        .put_blob(Bytes::from(text))
        .await
        .map_err(|error| RunError {
            code: "journal".to_owned(),
            message: error.to_string(),
        })?;
    Ok(Completion::Stored {
        blob: blob.hash,
        bytes: blob.bytes,
    })
}

/// Returns what a recorded completion stands for.
pub(crate) async fn grown(
    store: &dyn Store,
    limits: &Limits,
    completion: Completion,
) -> Result<Completion, pentad_program::StoreError> {
    let Completion::Stored { blob, .. } = &completion else {
        return Ok(completion);
    };
    let bytes = store.blob(blob, limits.result_bytes as u64).await?;
    let value = serde_json::from_slice(&bytes)
        .map_err(|e| pentad_program::StoreError::Corrupt(format!("blob {blob} is no JSON: {e}")))?;
    Ok(Completion::Done(value))
}
