"""Streams on Spark: batches of Structured Streaming over a state of partitions, each committed by one manifest."""
