"""Programs that speak the connector protocol: a source that reads a folder, and a sink that writes to SQLite."""
