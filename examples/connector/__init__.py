"""Programs that speak the connector protocol: a source that reads a folder."""
