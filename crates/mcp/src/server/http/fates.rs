//! What became of each request: the service loop tells only that an answer is missing.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rmcp::model::RequestId;

use super::trouble::Trouble;
use crate::server::wire::Fate;

/// Requests that are remembered. Those that nobody asks about (lists, subscriptions) are few; a bound stays a bound.
const MAX_KEPT: usize = 4_096;

/// The requests of one connection that were not asked about yet.
#[derive(Debug, Default)]
pub struct Fates(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// What went wrong with each, if anything did.
    requests: HashMap<RequestId, Option<Trouble>>,
    last: Option<Trouble>,
}

impl Fates {
    /// Notes that a request is being written.
    pub fn begin(&self, id: &RequestId) {
        let mut kept = self.lock();
        if kept.requests.len() >= MAX_KEPT {
            kept.requests.clear();
        }
        kept.requests.insert(id.clone(), None);
    }

    /// Notes what went wrong, with a request or with something that has no answer.
    pub fn fail(&self, id: Option<&RequestId>, trouble: Trouble) {
        let mut kept = self.lock();
        // A request that was asked about already has nobody who would ask again.
        if let Some(entry) = id.and_then(|id| kept.requests.get_mut(id)) {
            *entry = Some(trouble.clone());
        }
        kept.last = Some(trouble);
    }

    /// Returns how far a request came, and forgets it.
    pub fn take(&self, id: &RequestId) -> Fate {
        match self.lock().requests.remove(id) {
            None => Fate::Unsent,
            Some(None) => Fate::Sent,
            Some(Some(trouble)) => Fate::Failed(trouble),
        }
    }

    /// Returns what went wrong last.
    pub fn last_trouble(&self) -> Option<Trouble> {
        self.lock().last.clone()
    }

    /// Forgets what went wrong last.
    pub fn forget_trouble(&self) {
        self.lock().last = None;
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
