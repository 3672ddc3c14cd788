"""Keep the documents of a table in a log of segments with an index of keys."""
