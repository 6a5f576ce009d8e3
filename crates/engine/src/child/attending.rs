//! What accompanies a child run as long as whoever delegated it is there: none of it is in the journal.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use pentad_model::RunId;
use pentad_model::outcome::Product;
use pentad_program::Attendance;
use serde_json::{Map, Value};
use tokio::time::Instant;

/// The company of one run.
#[derive(Default)]
pub(crate) struct Company {
    /// Progress, questions and variables of whoever waits.
    pub attendance: Attendance,
    /// When whoever waits gives up.
    pub until: Option<Instant>,
    /// The input as it was given, where the journal has it masked.
    pub input: Option<Map<String, Value>>,
    /// What the run returned, images and all.
    pub product: Option<Product>,
}

/// The company of all runs that have some.
#[derive(Default)]
pub(crate) struct Attending(Mutex<HashMap<RunId, Company>>);

impl Attending {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<RunId, Company>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes who accompanies a run, until [`Self::part`].
    pub(crate) fn join(&self, run: RunId, company: Company) {
        self.lock().insert(run, company);
    }

    /// Returns what accompanies a run.
    pub(crate) fn of(&self, run: RunId) -> Company {
        let company = self.lock();
        company.get(&run).map_or_else(Company::default, |known| Company {
            attendance: known.attendance.clone(),
            until: known.until,
            input: known.input.clone(),
            product: None,
        })
    }

    /// Leaves a result for whoever waits, if somebody does.
    pub(crate) fn leave_product(&self, run: RunId, product: Product) {
        if let Some(company) = self.lock().get_mut(&run) {
            company.product = Some(product);
        }
    }

    /// Ends it.
    pub(crate) fn part(&self, run: RunId) -> Option<Company> {
        self.lock().remove(&run)
    }
}
