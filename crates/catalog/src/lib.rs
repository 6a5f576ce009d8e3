//! Tool documents of all sources: names, index, search, contracts, validation, and the gate before every effect.
//!
//! [`Catalog`] answers "which tools are there, and what is this one" for one caller; what the caller may not call is
//! filtered out before anything is ranked, counted or suggested. [`gate::Gate`] answers "may this act happen now".

pub mod catalog;
pub mod contract;
pub mod gate;
pub mod listing;
mod nearest;
pub mod resolve;
pub mod search;
mod snapshot;
pub mod validate;
pub mod visibility;

pub use catalog::{Catalog, Exposure};
pub use gate::{Act, Authority, Decision, Finding, Gate, Permit, Policy, Reach, Verdict};
pub use listing::{Listing, SourceListing};
pub use resolve::{Entry, Resolution, unknown_tool};
pub use search::{Hit, SearchOptions, SearchOutcome};
pub use validate::{ValidationError, unfit};
pub use visibility::Visibility;

#[cfg(test)]
mod testing;
