"""Read records from files."""
