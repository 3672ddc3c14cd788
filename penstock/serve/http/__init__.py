"""The HTTP API: routes, limits and errors."""
