"""Rows and files that describe a store: its catalog, its state, its offsets, its format and its partitions."""
