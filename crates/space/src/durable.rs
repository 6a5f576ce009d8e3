//! The durable runs of a home, as far as it has any.

use std::sync::{Arc, OnceLock, Weak};

use pentad_model::refusal::{Refusal, RefusalKind};
use pentad_program::{RunControl, RunStore};

/// Where steps are read and runs are steered. Both are told after the space is made: whoever executes runs needs the space.
#[derive(Default)]
pub(crate) struct DurableRuns {
    store: OnceLock<Arc<dyn RunStore>>,
    // Whoever executes runs may hold what holds the space.
    control: OnceLock<Weak<dyn RunControl>>,
}

impl DurableRuns {
    /// Says where steps and waits are kept; what is said first holds.
    pub(crate) fn keep(&self, store: Arc<dyn RunStore>) {
        let _known = self.store.set(store);
    }

    /// Says who executes runs; what is said first holds.
    pub(crate) fn steer(&self, control: &Arc<dyn RunControl>) {
        let _known = self.control.set(Arc::downgrade(control));
    }

    /// Returns where steps and waits are kept.
    pub(crate) fn store(&self) -> Option<&dyn RunStore> {
        self.store.get().map(AsRef::as_ref)
    }

    /// Returns where steps and waits are kept, for what is nothing without.
    pub(crate) fn required(&self, subject: &str) -> Result<&dyn RunStore, Refusal> {
        self.store()
            .ok_or_else(|| missing(subject, "keeps no steps of runs"))
    }

    /// Returns who executes runs.
    pub(crate) fn control(&self, subject: &str) -> Result<Arc<dyn RunControl>, Refusal> {
        self.control
            .get()
            .and_then(Weak::upgrade)
            .ok_or_else(|| missing(subject, "executes no runs, so none can be steered"))
    }
}

fn missing(subject: &str, what: &str) -> Refusal {
    Refusal::new(
        RefusalKind::NotAvailable,
        subject,
        format!("This process {what}."),
    )
    .next_step("ask the keeper of this home instead: leave --in-process out")
}
