"""Simulate a store of several partitions."""
