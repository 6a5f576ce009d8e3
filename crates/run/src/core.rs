//! What all runs of a runtime share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pentad_fail::{Point, point};
use pentad_model::RunId;
use pentad_program::{Durability, Program, RunStore, Settled, Settlement, Store, StoreError};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};
use tokio_util::sync::CancellationToken;

use crate::acts::Invoker;
use crate::clock::Clock;
use crate::limits::Limits;
use crate::resident::Reach;

/// How long the first of several tries to write an end waits for the next.
const FIRST_RETRY: Duration = Duration::from_millis(200);
/// How long the last does.
const LAST_RETRY: Duration = Duration::from_secs(20);

/// What all runs share.
pub(crate) struct Core {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) runs: Arc<dyn RunStore>,
    pub(crate) invoker: Arc<dyn Invoker>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) limits: Limits,
    /// The runtime ends.
    pub(crate) stopping: CancellationToken,
    pub(crate) active: Arc<Semaphore>,
    /// A place among those at work has become free.
    pub(crate) freed: Notify,
    programs: HashMap<String, Arc<dyn Program>>,
    /// Runs that wait in memory.
    lingering: AtomicUsize,
    residents: Mutex<HashMap<RunId, Reach>>,
    ends: Mutex<HashMap<RunId, Vec<oneshot::Sender<()>>>>,
}

impl Core {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        runs: Arc<dyn RunStore>,
        invoker: Arc<dyn Invoker>,
        clock: Arc<dyn Clock>,
        limits: Limits,
        programs: Vec<Arc<dyn Program>>,
    ) -> Self {
        Self {
            store,
            runs,
            invoker,
            clock,
            active: Arc::new(Semaphore::new(limits.active.max(1))),
            limits,
            stopping: CancellationToken::new(),
            freed: Notify::new(),
            programs: programs
                .into_iter()
                .map(|program| (program.kind().to_owned(), program))
                .collect(),
            lingering: AtomicUsize::new(0),
            residents: Mutex::default(),
            ends: Mutex::default(),
        }
    }

    /// Returns the program of a kind.
    pub(crate) fn program(&self, kind: &str) -> Option<Arc<dyn Program>> {
        self.programs.get(kind).map(Arc::clone)
    }

    /// Waits for a place among those at work; none when the runtime ends.
    pub(crate) async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        tokio::select! {
            permit = Arc::clone(&self.active).acquire_owned() => permit.ok(),
            () = self.stopping.cancelled() => None,
        }
    }

    /// Frees a run's place while it only waits, and says how long it may do so in memory.
    pub(crate) fn wait_in_memory(&self, permit: &mut Option<OwnedSemaphorePermit>) -> Option<Duration> {
        if permit.take().is_some() {
            self.freed.notify_one();
        }
        let known = self
            .residents
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len();
        let crowded = known > self.limits.resident + self.limits.active;
        Some(if crowded {
            Duration::ZERO
        } else {
            self.limits.linger
        })
    }

    /// Notes a run that is in memory now. False when it is already.
    pub(crate) fn enter(&self, run: RunId, reach: &Reach) -> bool {
        let mut residents = self.residents.lock().unwrap_or_else(PoisonError::into_inner);
        match residents.entry(run) {
            std::collections::hash_map::Entry::Occupied(_) => false,
            std::collections::hash_map::Entry::Vacant(free) => {
                free.insert(reach.clone());
                self.lingering.store(residents.len(), Ordering::Relaxed);
                true
            }
        }
    }

    /// Notes that a run has left the memory.
    pub(crate) fn leave(&self, run: RunId) {
        let mut residents = self.residents.lock().unwrap_or_else(PoisonError::into_inner);
        residents.remove(&run);
        self.lingering.store(residents.len(), Ordering::Relaxed);
        drop(residents);
        self.freed.notify_one();
    }

    /// Returns how one in memory is reached.
    pub(crate) fn reach(&self, run: RunId) -> Option<Reach> {
        let residents = self.residents.lock().unwrap_or_else(PoisonError::into_inner);
        residents.get(&run).cloned()
    }

    /// Returns how many runs are in memory.
    pub(crate) fn in_memory(&self) -> usize {
        self.lingering.load(Ordering::Relaxed)
    }

    /// Has runs in memory end.
    pub(crate) fn cancel(&self, runs: &[RunId]) {
        for reach in runs.iter().filter_map(|run| self.reach(*run)) {
            reach.cancel.cancel();
        }
    }

    /// Has runs in memory look for what has come for them.
    pub(crate) fn mail(&self, runs: &[RunId]) {
        for reach in runs.iter().filter_map(|run| self.reach(*run)) {
            reach.mail.notify_one();
        }
    }

    /// Returns what is told when a run ends in this process.
    pub(crate) fn end_of(&self, run: RunId) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        // Those who no longer wait go when somebody else comes.
        ends.retain(|_, waiting| {
            waiting.retain(|sender| !sender.is_closed());
            !waiting.is_empty()
        });
        ends.entry(run).or_default().push(sender);
        receiver
    }

    /// Tells whoever waits that runs have ended.
    pub(crate) fn ended(&self, runs: &[RunId]) {
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        for sender in runs.iter().filter_map(|run| ends.remove(run)).flatten() {
            // Whoever waited may have gone.
            let _gone = sender.send(());
        }
    }

    /// Writes the end of a run and tells whom it concerns. A full disk is waited for.
    pub(crate) async fn settle(&self, settlement: Settlement) -> Result<(), StoreError> {
        let run = settlement.run;
        point(Point::RunSettleBefore);
        let mut pause = FIRST_RETRY;
        let settled = loop {
            match self.runs.settle(settlement.clone(), Durability::Power).await {
                Ok(settled) => break settled,
                Err(error @ (StoreError::NotWritten(_) | StoreError::Unusable(_))) => {
                    tracing::warn!(%run, %error, "the end of a run cannot be written; it waits");
                    tokio::select! {
                        () = tokio::time::sleep(pause) => pause = (pause * 2).min(LAST_RETRY),
                        () = self.stopping.cancelled() => return Err(error),
                    }
                }
                Err(error) => return Err(error),
            }
        };
        point(Point::RunSettleAfter);
        self.ended(&[run]);
        self.follow(&settled);
        Ok(())
    }

    /// Tells those in memory what a settlement means for them.
    pub(crate) fn follow(&self, settled: &Settled) {
        self.mail(&settled.woken);
        self.cancel(&settled.canceling);
        self.ended(&settled.canceled);
        self.mail(&settled.canceled);
    }
}
