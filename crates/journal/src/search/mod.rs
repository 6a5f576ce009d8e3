//! Searching threads and runs by words.
//!
//! The words of new events are collected in stretches, not with every append: a search first lets the writer catch up,
//! and the writer does it every few hundred events. How far it came stands in the database, in the same transaction.

pub(crate) mod index;
pub(crate) mod query;
mod snippet;
pub(crate) mod words;
