"""Verify a copy of a store in bulk."""
