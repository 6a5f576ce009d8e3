//! The families that are built in, one file or folder each.

pub(crate) mod activity;
pub(crate) mod agents;
pub(crate) mod approval;
pub(crate) mod attachment;
mod events;
pub(crate) mod file;
mod listing;
pub(crate) mod memory;
pub(crate) mod run;
pub mod self_agent;
pub(crate) mod thread;
pub(crate) mod web;

use pentad_model::address::Address;
use pentad_model::refusal::{Refusal, RefusalKind};

/// The refusal of an address that a family was not registered for.
fn misdirected(address: &Address) -> Refusal {
    Refusal::new(
        RefusalKind::Internal,
        address.to_string(),
        "This address reached a family that does not serve it.",
    )
}
