"""Map documents to contributions."""
