"""Decode, key and stamp records, and keep the rejected ones."""
