"""Decode lines to columns."""
