"""Compute the tables and views that an app must show."""
