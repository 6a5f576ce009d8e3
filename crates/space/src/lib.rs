//! Address families, one file each.
