"""Compare a view with its documents, and replace the groups that differ."""
