//! The words of Pentad: addresses, verbs, outcomes, refusals, actors, events, grants, ids. No I/O, no async.
