"""Carry productions between partitions."""
