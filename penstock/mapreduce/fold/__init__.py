"""Fold contributions into the accumulators of a group."""
