"""Decide which version of a document wins."""
