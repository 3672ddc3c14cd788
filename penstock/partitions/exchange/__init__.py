"""Productions that a transaction of one partition owes to another."""
