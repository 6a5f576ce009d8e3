//! Children: spawner, wardens, limits, bounded capture with spill.
