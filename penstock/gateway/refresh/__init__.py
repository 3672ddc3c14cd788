"""Give the views of a table its documents again."""
