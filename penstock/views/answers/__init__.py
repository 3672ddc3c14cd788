"""Rows, changes, contributions and reports for readers and writers."""
