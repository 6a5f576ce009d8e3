//! The journal on SQLite: threads, events, runs, plans, approvals, blobs.
