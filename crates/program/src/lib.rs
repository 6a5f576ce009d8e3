//! The seams of Pentad: traits that the engine and what it runs agree on.
