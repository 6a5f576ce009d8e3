//! The Model Context Protocol in both directions; the only crate that knows rmcp.

mod lines;
