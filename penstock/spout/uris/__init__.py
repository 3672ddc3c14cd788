"""Open a spout by its URI."""
