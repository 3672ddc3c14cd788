"""Read and write tables as files."""
