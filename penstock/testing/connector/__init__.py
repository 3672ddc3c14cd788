"""The simulator of two-phase commit: workers, their sinks, the connections between them, and their disks."""
