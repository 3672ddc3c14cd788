"""The stored lines of documents."""
