"""Reduce trees: the rows and nodes of groups that keep their contributions."""
