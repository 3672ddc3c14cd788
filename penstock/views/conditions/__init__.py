"""Comparisons of values in conditions, and the text of conditions."""
