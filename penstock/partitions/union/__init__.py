"""Several partitions as one store: snapshot, feed, repair and quarantine."""
