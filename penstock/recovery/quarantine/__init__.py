"""List, retry and drop the entries of quarantine."""
