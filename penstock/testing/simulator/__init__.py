"""Simulate one machine with its store, sources and readers."""
