//! The five verbs, one file each.

pub(crate) mod call;
pub(crate) mod delegate;
pub(crate) mod execute;
pub(crate) mod plan;
pub(crate) mod read;
pub(crate) mod settle;
pub(crate) mod write;
