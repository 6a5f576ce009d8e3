//! Benchmarks of single operations: `cargo bench -p pentad-bench`.
//!
//! The benches are in `benches/`, one operation each. What only a whole program shows, such as its start, its memory and
//! the latency of a call, is measured by `bench/side-by-side` instead.
