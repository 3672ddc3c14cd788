"""A partition whose batches are committed elsewhere: local copies, turns, changelogs and snapshot files."""
