"""The documents of a table: a log of segments with an index of keys."""
