"""Recompute views in plain Python."""
