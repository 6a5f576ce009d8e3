//! Pentad: five verbs instead of fifty tools.
fn main() {}
