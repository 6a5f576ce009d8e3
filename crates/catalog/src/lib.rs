//! Tool documents of all sources: names, index, search, grants and the gate.
