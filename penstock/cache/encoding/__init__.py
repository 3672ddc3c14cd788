"""Encode keys, values, numbers and checksums as bytes."""
