"""Read one partition: snapshots, the feed, and the contributions to a group."""
