//! The five verbs, one file each.
