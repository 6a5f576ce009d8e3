"""Measures Pentad beside its peers; the entry is bench/side-by-side."""
