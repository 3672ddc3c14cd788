"""Read sources and deliver changes for as long as `run` runs."""
