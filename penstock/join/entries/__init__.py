"""The texts of entries of joins."""
