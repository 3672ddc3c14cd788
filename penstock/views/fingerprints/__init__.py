"""Fingerprints of the code of definitions, and the difference of two stored definitions."""
