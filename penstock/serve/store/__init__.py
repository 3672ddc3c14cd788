"""The store as a front uses it."""
