"""Check a whole store against its documents."""
